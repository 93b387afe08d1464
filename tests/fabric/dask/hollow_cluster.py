"""A real head, started by `skate start --head --port`, and processes of hollow nodes that join it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from skate import procfs
from skate.client.session import detached_node
from skate.node.driver import address
from skate.protocol.values import LOOPBACK
from tests.conformance.waiting import wait_for

START_SECONDS = 60.0
END_SECONDS = 20.0
TICKS = os.sysconf("SC_CLK_TCK")


class HollowProcess:
    """One process of hollow nodes."""

    def __init__(self, address: str, token_file: str, count: int) -> None:
        self.count = count
        words = [sys.executable, "-m", "tests.fabric.dask.hollow_nodes", address, token_file, str(count)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self) -> dict[str, Any]:
        """Return the next line of figures; the first comes when all nodes have joined."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"a process of hollow nodes has ended: {self._process.wait()}"
        found: dict[str, Any] = json.loads(line)
        return found

    def figures(self) -> dict[str, Any]:
        """Return the figures up to now."""
        assert self._process.stdin is not None
        self._process.stdin.write("figures\n")
        self._process.stdin.flush()
        return self.line()

    def kill(self) -> None:
        """Kill all these nodes at once."""
        self._process.send_signal(signal.SIGKILL)
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


class HollowCluster:
    """A head without CPUs, with its node's folder in a temporary one, and any number of hollow nodes."""

    def __init__(self) -> None:
        self.processes: list[HollowProcess] = []
        self.folder = tempfile.mkdtemp(prefix="skate-hollow-")
        place = os.path.join(self.folder, "node")
        environment = {k: v for k, v in os.environ.items() if k not in ("SKATE_ADDRESS", "RAY_ADDRESS")}
        words = ["-m", "skate", "start", "--head", "--port=0", f"--node-ip-address={LOOPBACK}", "--block"]
        options = ["--num-cpus=0", "--num-gpus=0", "--object-store-memory=100000000", f"--temp-dir={place}"]
        self._head = subprocess.Popen(
            [sys.executable, *words, *options], env=environment, stdout=subprocess.DEVNULL
        )
        try:
            found = self._status(place)
        except BaseException:  # also Ctrl-C: the head runs by now
            self.close()
            raise
        self.address = str(found["cluster"])
        self.driver_address = f"skate://{found['path']}"
        pid = address.pid_of(str(found["path"]))
        assert pid is not None
        self.pid = pid
        self.token_file = os.path.join(place, detached_node.TOKEN_NAME)

    def _status(self, place: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def answers() -> bool:
            assert self._head.poll() is None, "the head has not started"
            with contextlib.suppress(OSError):
                found.update(detached_node.status(detached_node.locate("auto", place)))
            return bool(found)

        wait_for(answers, START_SECONDS, "the head")
        return found

    def add(self, processes: int, count: int) -> list[dict[str, Any]]:
        """Start so many processes of so many nodes; return their figures once all have joined."""
        new = [HollowProcess(self.address, self.token_file, count) for _ in range(processes)]
        self.processes += new
        return [process.line() for process in new]

    def cpu_seconds(self) -> float:
        """Return the CPU time of the head's process."""
        fields = procfs.read(f"/proc/{self.pid}/stat").rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> int:
        """Return the resident bytes of the head's process."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        """End everything."""
        for process in self.processes:
            process.kill()
        self._head.terminate()
        try:
            self._head.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._head.kill()
            self._head.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
