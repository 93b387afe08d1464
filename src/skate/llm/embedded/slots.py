"""The slots of the batch and the answers in them: pure bookkeeping, testable without a model."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

Holder = TypeVar("Holder")


class Slots(Generic[Holder]):
    """The slots 0 to size - 1. The lowest free slot is used first, so that used slots stay close together.

    A step of the model computes all slots up to the highest in use (below `high`); `moves` yields the copies to
    make if too many of them are empty.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.holders: list[Holder | None] = [None] * size
        self._free = list(range(size))
        self.high = 0
        self.used = 0

    def __iter__(self) -> Iterator[tuple[int, Holder]]:
        for slot in range(self.high):
            holder = self.holders[slot]
            if holder is not None:
                yield slot, holder

    def take(self, holder: Holder) -> int | None:
        """Take and return the lowest free slot; None if there is none."""
        if not self._free:
            return None
        slot = heapq.heappop(self._free)
        self.holders[slot] = holder
        self.high = max(self.high, slot + 1)
        self.used += 1
        return slot

    def free(self, slot: int) -> None:
        """Free a slot."""
        assert self.holders[slot] is not None, f"slot {slot} is already free"
        self.holders[slot] = None
        heapq.heappush(self._free, slot)
        self.used -= 1
        while self.high and self.holders[self.high - 1] is None:
            self.high -= 1

    def moves(self) -> Iterator[tuple[int, int, Holder]]:
        """Yield source, target and holder of each slot to move down while more than a third are empty."""
        while self.high > 2 and 2 * self.high > 3 * self.used + 1:
            source = self.high - 1
            holder = self.holders[source]
            target = self._free[0] if self._free else source
            if holder is None or target >= source:
                return
            heapq.heappop(self._free)
            self.holders[target] = holder
            self.used += 1
            self.free(source)
            yield source, target, holder

    def check(self) -> None:
        """Assert the invariants."""
        taken = [slot for slot, holder in enumerate(self.holders) if holder is not None]
        assert len(taken) == self.used
        assert sorted(taken + self._free) == list(range(self.size))
        assert self.high == (max(taken) + 1 if taken else 0)
