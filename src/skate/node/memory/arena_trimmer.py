"""Returns unused memory of the arena to the system after a while.

Freed memory is worth keeping for a moment: who puts the next value of that size writes it at many times the speed. What has
lain free for a whole round is given back, a bounded piece at a time, as the engine lock is held meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from skate.core.memory.arena import Allocator
from skate.node.memory.arena_file import ArenaFile

ROUND_SECONDS = 2.0
PIECE_BYTES = 1 << 27
PIECE_SECONDS = 0.02


class ArenaTrimmer:
    """Decides when to look for cold memory, and gives it back."""

    def __init__(self, allocator: Allocator, file: ArenaFile, forget: Callable[[int, int], None]) -> None:
        self._allocator = allocator
        self._file = file
        self._forget = forget
        self._next = 0.0
        #: Free memory in pieces too small to be given back; no timer is worth it.
        self._kept = 0
        self._seen = -1

    def turn(self, now: float) -> float | None:
        """Release cold memory, if it is time to; return the seconds until the next check, None if none is needed."""
        allocator = self._allocator
        warm = allocator.resident - allocator.used
        if warm <= self._kept:
            self._kept = warm
            return None
        left = self._next - now
        if left > 0:
            return left
        given = 0
        for offset, size in allocator.cold_ranges(limit=PIECE_BYTES):
            given += size
            if not self._file.release(offset, size):
                break
            self._forget(offset, size)
        pause = PIECE_SECONDS if given >= PIECE_BYTES else ROUND_SECONDS
        if not given and warm == self._seen:
            self._kept = warm
        self._seen = warm - given
        self._next = now + pause
        return pause
