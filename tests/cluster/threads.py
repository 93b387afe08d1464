"""Threads of another process: the one that Dask runs in, and a way to stop that one alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000
LISTENING = "0A"


def dask_thread(pid: int) -> int:
    """Return the thread of a node that polls its listening socket: Dask's."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    inodes = {line.split()[9] for line in lines if line.split()[3] == LISTENING}
    for folder in Path(f"/proc/{pid}/task").iterdir():
        call = (folder / "syscall").read_text().split()
        if len(call) < 2 or not call[1].startswith("0x"):
            continue
        with contextlib.suppress(OSError):  # the first argument of another call than epoll_wait
            polled = Path(f"/proc/{pid}/fdinfo/{int(call[1], 16)}").read_text()
            watched = [line.split()[1] for line in polled.splitlines() if line.startswith("tfd:")]
            for fd in watched:
                if os.readlink(f"/proc/{pid}/fd/{fd}")[len("socket:[") : -1] in inodes:
                    return int(folder.name)
    raise AssertionError(f"no thread of process {pid} polls a socket that listens")


@contextlib.contextmanager
def stopped(thread: int) -> Iterator[None]:
    """Stop one thread of a process, as a debugger does, while the others run."""
    _ptrace(PTRACE_SEIZE, thread)
    try:
        _ptrace(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, WALL)
        yield
    finally:
        _ptrace(PTRACE_DETACH, thread)


def _ptrace(request: int, thread: int) -> None:
    if LIBC.ptrace(request, thread, None, None) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace: {os.strerror(number)}")
