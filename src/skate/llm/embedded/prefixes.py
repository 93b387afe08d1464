"""An index of cached tokens, to find the longest start of a prompt that was computed before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Shorter prefixes are not reused: computing a prompt together with others costs less than alone after a copy.
WORTH = 64


@dataclass(frozen=True)
class Hit:
    """The slot with the longest start of a prompt, and the number of its tokens."""

    slot: int
    size: int


class Prefixes:
    """The cached tokens of running answers, and of ended answers in extra rows.

    Args:
        slots: the number of slots for answers.
        rows: the number of extra rows; an answer that ends replaces the least recently used one. 0 disables reuse.
    """

    def __init__(self, slots: int, rows: int) -> None:
        self._slots = slots
        self._enabled = rows > 0
        self._contents: list[tuple[str | None, Sequence[int]]] = [(None, ())] * (slots + rows)
        #: The extra rows, least recently used first.
        self._order = list(range(slots, slots + rows))
        self.requested = 0
        self.found = 0

    def runs(self, slot: int, adapter: str | None, tokens: Sequence[int]) -> None:
        """Record that a slot has the keys of these tokens, computed with an adapter."""
        if self._enabled:
            self._contents[slot] = (adapter, tokens)

    def ended(self, slot: int, adapter: str | None, tokens: Sequence[int]) -> int | None:
        """Record the end of a slot's answer; return the row to copy its keys to, or None if none should be copied."""
        if not self._enabled:
            return None
        self._contents[slot] = (None, ())
        if len(tokens) < WORTH:
            return None
        row = self._order[0]
        for each in self._order:
            of, had = self._contents[each]
            if of == adapter and had:
                size = common(had, tokens, len(had))
                if size == len(tokens):
                    self._used(each)
                    return None  # the row already has all tokens
                if size == len(had):
                    row = each  # the row's tokens are the start of these, so nothing is lost
        self._contents[row] = (adapter, tokens)
        self._used(row)
        return row

    def _used(self, row: int) -> None:
        self._order.remove(row)
        self._order.append(row)

    def clear(self) -> None:
        """Remove all entries."""
        self._contents = [(None, ())] * len(self._contents)

    def longest(self, prompt: Sequence[int], adapter: str | None) -> Hit | None:
        """Return the slot with the longest start of a prompt, without its last token; None if it is too short."""
        self.requested += len(prompt)
        best: Hit | None = None
        for slot, (of, tokens) in enumerate(self._contents):
            if of == adapter and len(tokens) >= WORTH:
                size = common(prompt, tokens, len(prompt) - 1)
                if size >= WORTH and (best is None or size > best.size):
                    best = Hit(slot, size)
        if best is not None:
            self.found += best.size
            if best.slot >= self._slots:
                self._used(best.slot)
        return best


def common(one: Sequence[int], other: Sequence[int], most: int) -> int:
    """Return the length of the common prefix."""
    most = min(most, len(one), len(other))
    if one[:most] == other[:most]:
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
