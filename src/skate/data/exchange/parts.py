"""Blocks taken apart by row: each row to a partition, or in another order, in pieces of a sensible size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from skate.data.block import concat, size_of

#: What a merge gives is cut into blocks of about so many bytes, so that no more than one is made at a time.
BLOCK_BYTES = 32 << 20


def deal(table: pa.Table, places: np.ndarray, partitions: int) -> list[pa.Table]:
    """The rows of a block by partition, in the order they have; `places` is the partition of each row."""
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places, minlength=partitions)).tolist()
    return taken_apart(table, order, ends)


def taken_apart(table: pa.Table, order: np.ndarray, ends: Sequence[int]) -> list[pa.Table]:
    """The rows of a block in another order, cut at some places, each piece with memory of its own."""
    whole = solid(table)
    parts = []
    start = 0
    for end in ends:
        parts.append(rows_at(whole, order[start:end]) if end > start else whole.slice(0, 0))
        start = end
    return parts


def rows_at(table: pa.Table, order: np.ndarray) -> pa.Table:
    """Some rows of a block, copied."""
    return table.take(pa.array(order))


def solid(table: pa.Table) -> pa.Table:
    """The same block with one chunk a column, from which rows are quicker to take."""
    if all(column.num_chunks <= 1 for column in table.columns):
        return table
    return table.combine_chunks()


def in_order(table: pa.Table, order: np.ndarray | pa.Array) -> Iterator[pa.Table]:
    """The rows of a block in another order, as blocks of a sensible size; at least one."""
    whole = solid(table)
    rows = rows_in_block(whole)
    if not len(order):
        yield whole.slice(0, 0)
    for start in range(0, len(order), rows):
        piece = order[start : start + rows]
        yield whole.take(piece if isinstance(piece, pa.Array) else pa.array(piece))


def rows_in_block(table: pa.Table) -> int:
    """How many rows of such a table make a block of a sensible size."""
    pieces = max(1, round(size_of(table) / BLOCK_BYTES))
    rows: int = max(1, -(-table.num_rows // pieces))
    return rows


def joined(parts: Sequence[pa.Table]) -> pa.Table:
    """Parts end to end; of parts without rows the first that has columns."""
    filled = [part for part in parts if part.num_rows]
    if filled:
        return concat(filled)
    return next((part for part in parts if part.num_columns), parts[0] if parts else pa.table({}))
