"""Files shared out over tasks: neighbours together, as many bytes each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

#: What opening a file costs, in bytes read at the same time: 10,000 tiny files are work for several tasks.
OPEN_COST = 32 << 10

T = TypeVar("T")


def shared_out(items: Sequence[T], sizes: Sequence[int], parts: int) -> list[list[T]]:
    """Neighbouring items in at most `parts` groups, none empty, whose sizes are as even as their order allows."""
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
        # A group also ends where the items left are just enough for one a group.
        if group and open_groups > 1 and (full or left < open_groups):
            groups.append(group)
            group = []
        group.append(item)
        done += size
    groups.append(group)
    return groups
