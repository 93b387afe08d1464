"""Batches of a given size from blocks of any size, in order. A batch that lies within one block is not copied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from skate.data.block.table import concat


def batches_of(given: Iterable[pa.Table], size: int | None, drop_last: bool = False) -> Iterator[pa.Table]:
    """Tables of `size` rows, the last one possibly shorter. With None, yield the non-empty blocks unchanged."""
    if size is None:
        yield from (table for table in given if table.num_rows)
        return
    for group in groups_of(given, size, 1, drop_last):
        yield from group


def groups_of(
    given: Iterable[pa.Table], size: int, most: int, drop_last: bool = False
) -> Iterator[list[pa.Table]]:
    """Batches as lists of at most `most`; those of a list end in the same block, so that none waits for the next block."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in given:
        at = 0
        group: list[pa.Table] = []
        while rows + table.num_rows - at >= size:
            take = size - rows
            piece = table.slice(at, take)
            group.append(concat([*waiting, piece]) if waiting else piece)
            waiting.clear()
            rows = 0
            at += take
            if len(group) == most:
                yield group
                group = []
        if at < table.num_rows:
            waiting.append(table.slice(at))
            rows += table.num_rows - at
        if group:
            yield group
    if rows and not drop_last:
        yield [concat(waiting)]
