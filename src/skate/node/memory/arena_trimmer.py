"""Returns unused memory of the arena to the system after a while.

Freed memory is worth keeping for a moment: the next value of that size is written many times faster. Memory that was free for
a whole round is released in bounded pieces, because the engine lock is held meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from skate.node.memory.arena_file import ArenaFile
from skate.protocol.shell_events import TRIM_DUE, TrimDue

if TYPE_CHECKING:
    from skate.core.state.snapshot import Snapshot

ROUND_SECONDS = 2.0
PIECE_BYTES = 1 << 27
PIECE_SECONDS = 0.02


class ArenaTrimmer:
    """Decides when to look for cold memory, and releases the ranges that the core chooses."""

    def __init__(
        self,
        snapshot: Snapshot,
        report: Callable[[TrimDue], None],
        file: ArenaFile,
        forget: Callable[[int, int], None],
    ) -> None:
        self._snapshot = snapshot
        self._report = report
        self._file = file
        self._forget = forget
        self._next = 0.0
        #: Free memory in pieces too small to release, which needs no timer.
        self._kept = 0
        self._seen = -1

    def turn(self, now: float) -> float | None:
        """Release cold memory if it is due; return the seconds until the next check, or None if none is needed."""
        warm = self._snapshot.warm_bytes
        if warm <= self._kept:
            self._kept = warm
            return None
        left = self._next - now
        if left > 0:
            return left
        self._report(TrimDue(TRIM_DUE, PIECE_BYTES))
        given = warm - self._snapshot.warm_bytes
        pause = PIECE_SECONDS if given >= PIECE_BYTES else ROUND_SECONDS
        if not given and warm == self._seen:
            self._kept = warm
        self._seen = warm - given
        self._next = now + pause
        return pause

    def release(self, ranges: tuple[tuple[int, int], ...]) -> None:
        """Return these ranges to the system, up to the first one that it refuses."""
        for offset, size in ranges:
            if not self._file.release(offset, size):
                break
            self._forget(offset, size)
