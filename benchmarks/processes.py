"""The process tree below one process, and what memory it holds, read from /proc."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of every orphan below it, so that no daemon leaves its tree unseen."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) was refused")


def descendants(root: int) -> list[int]:
    """Ids of all processes below `root`, itself excluded; the dead that wait to be reaped do not count."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The name in brackets may hold brackets of its own; what follows the last one is fixed.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    unseen = [root]
    while unseen:
        below = children.get(unseen.pop(), [])
        found += below
        unseen += below
    return found


def pss_bytes(pid: int) -> int:
    """Proportional set size of one process in bytes; 0 when it has just ended."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def end_below(root: int, *, seconds: float = 10.0) -> int:
    """Kill what is left below `root`, reap it, and give the number of processes that had to be killed."""
    killed: set[int] = set()
    deadline = time.monotonic() + seconds
    while left := descendants(root):
        for pid in left:
            killed.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        reap()
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {left} are still there {seconds:.0f} s after SIGKILL")
        time.sleep(0.01)
    reap()
    return len(killed)


def reap() -> None:
    """Take the exit status of every child that has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
