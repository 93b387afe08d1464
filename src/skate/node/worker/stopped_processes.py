"""Detection of stopped processes: by SIGSTOP, a debugger or Ctrl-Z."""

from __future__ import annotations

from collections.abc import Iterable

from skate import procfs

#: States in /proc/<pid>/stat: stopped by a signal, stopped by a tracer.
STOPPED = (b"T", b"t")


def stopped_among(pids: Iterable[int]) -> frozenset[int]:
    """Return those of these processes that are stopped."""
    return frozenset(pid for pid in pids if pid and _is_stopped(pid))


def _is_stopped(pid: int) -> bool:
    fields = procfs.stat(pid)
    return bool(fields) and fields[procfs.STATE] in STOPPED
