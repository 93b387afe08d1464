"""Drivers on machines without a node of their cluster: each starts a node of its own, without CPUs, which ends with it."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgpack

from skate.client.session.detached_node import read_answer
from skate.node.network import JOIN_SECONDS, own_address
from skate.node.settings import Settings
from skate.protocol.values import DRIVER_NODE

#: How long the node may take to leave its cluster.
END_SECONDS = 10.0
#: Time of the node besides that of joining: it imports the engine of clusters.
START_SECONDS = 30.0
#: Values that the driver reads are here, so their memory is limited as on a small node.
STORE_BYTES = 1 << 31

logger = logging.getLogger("skate")


class DriverNode:
    """The process of the node; `path` is its socket. A node behind the head connects to nothing but that port.

    Raises ConnectionError with the cause if it cannot join the cluster at HOST:PORT.
    """

    def __init__(self, cluster: str, behind_head: bool, given: dict[str, Any]) -> None:
        self.folder = tempfile.mkdtemp(prefix="skate-driver-")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.path = self._start(cluster, behind_head, given)
        except BaseException:  # also Ctrl-C while the head does not answer
            self.end()
            raise
        if behind_head:
            logger.info(
                "Connected to the cluster at %s through its head. Large values take that way too, so they are slower than "
                "on a machine of the cluster.",
                cluster,
            )

    def _start(self, cluster: str, behind_head: bool, given: dict[str, Any]) -> str:
        ip = given.get("_node_ip_address") or own_address(cluster)
        settings = Settings.of(
            "local",
            {
                "num_cpus": 0,
                "num_gpus": 0,
                "_node_ip_address": ip,
                "labels": {DRIVER_NODE: "true"},
                "object_store_memory": STORE_BYTES,
            },
        )
        network = {
            "ip": ip,
            "head": cluster,
            "timeout": JOIN_SECONDS,
            "behind_head": behind_head,
            "token_file": given.get("_token_file"),
        }
        driver = os.pidfd_open(os.getpid())
        try:
            request = {
                "settings": asdict(settings),
                "folder": self.folder,
                "network": network,
                "driver": driver,
            }
            answer = self._run(msgpack.packb(request), driver)
        finally:
            os.close(driver)
        if not answer.startswith(b"+"):
            raise ConnectionError(
                f"this machine has no node of the cluster at {cluster}, and a node for this program could not join it: "
                f"{answer[1:].decode(errors='replace') or 'it has not answered'}"
            )
        return os.fsdecode(answer[1:])

    def _run(self, request: bytes, driver: int) -> bytes:
        source = str(Path(__file__).resolve().parents[3])
        code = f"import sys; sys.path.insert(0, {source!r}); from skate.node.driver_node import main; main()"
        process = self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[driver],
        )
        assert process.stdin is not None and process.stdout is not None
        with process.stdin as pipe, process.stdout as output:
            pipe.write(request)
            pipe.close()
            return read_answer(os.dup(output.fileno()), JOIN_SECONDS + START_SECONDS)

    def forked(self) -> None:
        """Forget the process in a forked child."""
        if self._process is not None:
            self._process.returncode = 0  # else its end would be awaited, or a warning printed
            self._process = None

    def end(self) -> None:
        """Have the node leave its cluster, and wait for its end. Safe to call more than once."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
