"""Detection of stopped processes: by SIGSTOP, a debugger or Ctrl-Z."""

from __future__ import annotations

from collections.abc import Iterable

from skate import procfs


def stopped_among(pids: Iterable[int]) -> frozenset[int]:
    """Return those of these processes that are stopped."""
    return frozenset(pid for pid in pids if pid and procfs.is_stopped(pid))
