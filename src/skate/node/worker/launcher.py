"""The node's side of worker processes: starts zygotes, asks them to fork and kill, and receives the exits of children."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import msgpack

from skate.node.worker import zygote_spawn
from skate.node.worker.zygote_spawn import PYTHON as PYTHON


class Launcher:
    """One zygote process of the node, and the control socket to it."""

    def __init__(
        self, python: list[str], config: dict[str, Any], memory_fds: list[int], output: tuple[int, ...] = ()
    ) -> None:
        self.control, self.pid = zygote_spawn.take(python, config["environ"], output)
        request = {"verb": "configure", **config, "by_command": python != PYTHON}
        self._ask(request, [fd for fd in memory_fds if fd >= 0])

    def _ask(self, request: dict[str, Any], fds: list[int]) -> None:
        socket.send_fds(self.control, [msgpack.packb(request)], fds)

    def fork(self, request: dict[str, Any], fds: list[int]) -> None:
        """Ask the zygote to fork a worker. Its pid arrives as an event."""
        self._ask({"verb": "fork", **request}, fds)

    def preload(self, names: list[str]) -> None:
        """Ask the zygote to import modules for future workers."""
        try:
            self._ask({"verb": "preload", "names": names}, [])
        except OSError:
            # The zygote is gone, and so are its children.
            return

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to a worker, unless it has been reaped."""
        try:
            self._ask({"verb": "kill", "pid": pid, "signal": int(number)}, [])
        except OSError:
            # The zygote is gone, and so are its children.
            return

    def end_task(self, pid: int, slot: int, sequence: int) -> None:
        """Kill a worker if this is the last task that it has begun, according to its slot in the status table."""
        try:
            self._ask({"verb": "end_task", "pid": pid, "slot": slot, "sequence": sequence}, [])
        except OSError:
            # The zygote is gone, and so are its children.
            return

    def events(self) -> list[dict[str, Any]] | None:
        """Return the events reported by the zygote, or None if it has ended."""
        found: list[dict[str, Any]] = []
        while True:
            try:
                data = self.control.recv(1 << 16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return found
            except OSError:
                return None
            if not data:
                return None
            found.append(msgpack.unpackb(data))

    def retire(self) -> None:
        """Ask the zygote to leave, without waiting. Its control socket closes when it has left."""
        try:
            self._ask({"verb": "end"}, [])
        except OSError:
            # It is gone already, which the loop notices on its own.
            return

    def end(self) -> None:
        """Kill all workers and the zygote, and wait for them."""
        try:
            self._ask({"verb": "end"}, [])
        except OSError:
            # It is gone already.
            pass
        # Read to the end: the socket closes when the zygote has reaped its last child.
        self.control.settimeout(2.0)
        try:
            while self.control.recv(1 << 16):
                continue
        except OSError:
            # It hangs, or died uncleanly, and is killed below.
            pass
        self.control.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            # The program reaped it, by waiting for any child.
            return


def zygote_config(sys_path: list[str], preload: tuple[str, ...], extra: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a zygote adopts from the driver."""
    try:
        directory = os.getcwd()
    except OSError:  # the directory was deleted
        directory = "/"
    return {
        "sys_path": [path or directory for path in sys_path],
        "stdlib": os.path.dirname(os.__file__),
        "environ": {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
        "cwd": directory,
        "preload": list(preload),
        **extra,
    }


HINTS = {
    "SIGKILL": " (not by Skate, but by another process, or by the kernel's OOM killer)",
    "SIGSEGV": " (C code accessed memory that it does not own)",
    "SIGBUS": " (C code accessed missing memory, or a mapped file was truncated or its disk is full)",
    "SIGABRT": " (C code gave up)",
    "SIGILL": " (C code was built for another processor, or is corrupted)",
    "SIGFPE": " (C code divided by zero)",
}


def how_it_ended(status: int | None) -> str:
    """Describe an exit status: the signal, or the code."""
    if status is None:
        return "was lost"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return f"was killed by {name}{HINTS.get(name, '')}"
    return f"exited with exit code {os.WEXITSTATUS(status)}"


Spawn = Callable[[int, dict[str, Any]], None]
