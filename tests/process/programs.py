"""Drivers as real processes: start one, watch it, and check that it leaves nothing behind.

A program runs in its own process group. Its environment contains a mark, which all its processes inherit, so that orphans
are found as well.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import skate
from tests.conformance.waiting import wait_for

T = TypeVar("T")

SOURCE = str(Path(skate.__file__).parents[1])
#: The import path of programs: Skate, and `waiting`, so that they wait for conditions like the tests.
PATHS = os.pathsep.join([SOURCE, str(Path(__file__).parents[1] / "conformance")])
#: How long the processes of a driver may outlive it on a loaded machine, in seconds.
GONE_S = 2.0
PROGRAM_S = 40.0
QUIET = "num_cpus=2, num_gpus=0, object_store_memory=2**28"
MARK = "SKATE_TEST_PROGRAM"


class Program:
    """A driver. `text` is Python code in which `ray` is Skate, and START is replaced by the arguments of `init`."""

    def __init__(
        self,
        text: str,
        folder: Path,
        *arguments: str,
        options: tuple[str, ...] = (),
        directory: Path | None = None,
        command: tuple[str, ...] | None = None,
        stdout: int | None = None,
        **environment: str,
    ) -> None:
        self.mark = uuid.uuid4().hex
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "program.py"
        if text:
            self.path.write_text(prepared(text))
        self.out_path, self.err_path = folder / f"out-{self.mark}", folder / f"err-{self.mark}"
        argv = [sys.executable, *options, *(command or (str(self.path), *arguments))]
        paths = [PATHS, *filter(None, [environment.pop("PYTHONPATH", "")])]
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=out if stdout is None else stdout,
                stderr=err,
                cwd=directory or folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), MARK: self.mark, **environment},
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        return self.out_path.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self.err_path.read_text(errors="replace")

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    def wait_for_output(self, text: str, timeout_s: float = PROGRAM_S) -> str:
        """Wait until the driver's stdout has a line that matches, and return that line."""
        pattern = re.compile(text, re.MULTILINE)

        def found() -> str | None:
            match = pattern.search(self.out)
            if match is None and self.process.poll() is not None:
                match = pattern.search(self.out)
                assert match is not None, f"it ended without saying {text!r}; {self.story()}"
            return match.group(0) if match is not None else None

        return wait_for(found, timeout_s, f"{text!r} on stdout; {self.story()}")  # type: ignore[return-value]

    def write_line(self, text: str) -> None:
        """Write a line to the driver's stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def end(self, timeout_s: float = PROGRAM_S) -> int:
        """Wait until the driver ends; return the exit code."""
        with contextlib.suppress(BrokenPipeError):
            if self.process.stdin is not None and not self.process.stdin.closed:
                self.process.stdin.close()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the program did not end within {timeout_s:g} s; {self.story()}") from None

    def others(self) -> dict[int, str]:
        """Return the living processes with the driver's mark, except the driver: pid to command line."""
        return {pid: words for pid, words in marked(self.mark).items() if pid != self.process.pid}

    def gone(self, within_s: float = GONE_S) -> None:
        """Wait until no process of the driver is left."""
        self.process.wait(PROGRAM_S)
        wait_for(
            lambda: not self.others(), within_s, f"the end of the driver's processes; left: {self.others()}"
        )

    def kill(self) -> None:
        """End all remaining processes, so that a failed test leaves nothing behind."""
        for pid in [*self.others(), *([self.process.pid] if self.process.poll() is None else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def story(self) -> str:
        """Return the driver's output, for the message of a failed assertion."""
        return f"stdout:\n{self.out[-4000:]}\nstderr:\n{self.err[-4000:]}"


def marked(mark: str) -> dict[int, str]:
    """Return the living processes with a mark: pid to command line."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if state != "Z":
            found[int(folder.name)] = words.strip()[:120]
    return found


def prepared(text: str) -> str:
    """Return a program's text with imports and options added."""
    body = textwrap.dedent(text).replace("START", QUIET)
    return body if body.startswith("from __future__") else "import skate as ray\n" + body


def seconds_until(condition: Callable[[], object], deadline_s: float) -> float:
    """Wait for a condition; return the seconds it took, at least `deadline_s` if it did not become true."""
    begun = time.monotonic()
    with contextlib.suppress(AssertionError):
        wait_for(condition, deadline_s)
    return time.monotonic() - begun


def listening_ports(pids: list[int]) -> Iterator[str]:
    """Return the lines of the kernel's tables for the TCP sockets of these processes that listen, and for their UDP sockets."""
    inodes = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                what = os.readlink(entry)
                if what.startswith("socket:["):
                    inodes.add(what[8:-1])
    for table in ("tcp", "tcp6", "udp", "udp6"):
        path = Path(f"/proc/net/{table}")
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            words = line.split()
            # A TCP socket listens in state 0A; others are connections, perhaps half closed.
            if words[9] in inodes and (words[3] == "0A" or table.startswith("udp")):
                yield f"{table}: {line.strip()}"
