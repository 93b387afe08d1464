"""Merges increments before delivery, because each delivery costs the same regardless of its size."""

from __future__ import annotations

import math

from skate.llm.output import Increment

#: Used as an interval: deliver nothing before the end of an answer.
AT_THE_END = math.inf


class IncrementBatcher:
    """Holds a request's increments until they are due.

    The first increment is due immediately, because a user waits for it, and so is the last of an answer. The
    others become due with the first increment after the interval. No timer is needed, because a running answer
    receives a token at each step.

    Args:
        every_s: seconds between deliveries; 0 delivers each increment separately, AT_THE_END none before the end.
    """

    def __init__(self, every_s: float = 0.0) -> None:
        self._every_s = every_s
        self._due = math.inf if every_s == AT_THE_END else -math.inf
        self._held: dict[int, Increment] = {}
        self._ends = False

    def add(self, new: Increment) -> None:
        """Add an increment, merging it with held increments of the same answer."""
        held = self._held.get(new.index)
        if held is None:
            self._held[new.index] = new
        else:
            held.then(new)
        self._ends = self._ends or new.finish_reason is not None

    def take(self, now: float, all_of_it: bool = False) -> list[Increment]:
        """Return the due increments."""
        if not self._held or not (self._ends or all_of_it or now >= self._due):
            return []
        found = list(self._held.values())
        self._held.clear()
        self._ends = False
        if self._every_s != AT_THE_END:
            self._due = now + self._every_s
        return found
