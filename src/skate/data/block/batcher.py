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
    waiting: list[pa.Table] = []
    rows = 0
    for table in given:
        at = 0
        while rows + table.num_rows - at >= size:
            take = size - rows
            piece = table.slice(at, take)
            yield concat([*waiting, piece]) if waiting else piece
            waiting.clear()
            rows = 0
            at += take
        if at < table.num_rows:
            waiting.append(table.slice(at))
            rows += table.num_rows - at
    if rows and not drop_last:
        yield concat(waiting)
