"""Files divided among tasks: neighbours together, with equal shares of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

#: The cost of opening a file, in bytes that could be read meanwhile: 10,000 tiny files are work for several tasks.
OPEN_COST = 32 << 10

T = TypeVar("T")


def shared_out(items: Sequence[T], sizes: Sequence[int], parts: int) -> list[list[T]]:
    """Divide items, in order, into at most `parts` nonempty groups of sizes as even as possible."""
    parts = max(1, min(parts, len(items)))
    if parts == 1:
        return [list(items)] if items else []
    if parts == len(items):
        return [[item] for item in items]
    total = sum(sizes) or 1
    groups: list[list[T]] = []
    group: list[T] = []
    done = 0
    for at, (item, size) in enumerate(zip(items, sizes, strict=True)):
        left = len(items) - at
        open_groups = parts - len(groups)
        full = done + size / 2 > total * (len(groups) + 1) / parts
        # A group also ends when there is exactly one item left per remaining group.
        if group and open_groups > 1 and (full or left < open_groups):
            groups.append(group)
            group = []
        group.append(item)
        done += size
    groups.append(group)
    return groups
