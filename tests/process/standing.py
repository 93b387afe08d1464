"""Standing nodes as real processes: start one in a separate folder, control it with commands, and check that
nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from tests.conformance.waiting import wait_for
from tests.process.programs import GONE_S, MARK, SOURCE, marked

COMMAND_S = 40.0


class Node:
    """A standing node; `folder` is its SKATE_TMPDIR."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.path = ""
        self.pid = 0

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables with which programs find the node."""
        return {"SKATE_TMPDIR": str(self.folder)}

    def command(
        self, *words: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of `skate`; return when it has ended."""
        done = subprocess.run(
            [sys.executable, "-m", "skate", *words],
            env={**os.environ, "PYTHONPATH": SOURCE, MARK: self.mark, **self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            cwd="/",
        )
        assert not check or done.returncode == 0, (
            f"skate {' '.join(words)} failed: {done.stdout}{done.stderr}"
        )
        return done

    def start(self, *flags: str, cpus: int = 4, role: str = "--head") -> str:
        """Start the node; return the output."""
        done = self.command(
            "start", role, "--num-cpus", str(cpus), "--num-gpus", "0", "--object-store-memory", str(2**28), *flags
        )  # fmt: skip
        found = re.search(r"skate://(\S+)", done.stdout)
        assert found is not None, done.stdout
        self.path = found.group(1)
        self.pid = int(re.findall(r"\d+", self.path)[-1])
        return done.stdout

    def status(self) -> dict[str, Any]:
        """Return the output of `skate status` as data."""
        found: dict[str, Any] = json.loads(self.command("status", "--json").stdout)
        return found

    def actors(self) -> dict[str, dict[str, Any]]:
        """Return the living actors by class."""
        return {each["class_name"]: each for each in self.status()["actors"]}

    def stop(self, *flags: str) -> str:
        """Stop the node; return the output."""
        return self.command("stop", *flags).stdout

    def processes(self) -> dict[int, str]:
        """Return the living processes of the node and those that it started."""
        return marked(self.mark)

    def gone(self, within_s: float = GONE_S) -> None:
        """Wait until no process of the node is left."""
        wait_for(lambda: not self.processes(), within_s, f"the end of the node; left: {self.processes()}")

    def kill(self) -> None:
        """End all remaining processes, so that a failed test leaves nothing behind."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
