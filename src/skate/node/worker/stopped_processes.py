"""Which processes a signal has stopped: SIGSTOP, a debugger, Ctrl-Z."""

from __future__ import annotations

from collections.abc import Iterable

#: States of /proc/<pid>/stat: stopped by a signal, stopped by a tracer.
STOPPED = (b"T", b"t")


def stopped_among(pids: Iterable[int]) -> frozenset[int]:
    """The processes among these that are stopped now."""
    return frozenset(pid for pid in pids if pid and _is_stopped(pid))


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name before the state may hold anything, brackets included.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:  # it is gone, or this system has no /proc
        return False
    return bool(fields) and fields[0] in STOPPED
