"""Blocks split row by row into partitions, or reordered, in pieces of a sensible size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from skate.data.block import concat, size_of

#: The output of a merge is cut into blocks of about this many bytes, so that only one is made at a time.
BLOCK_BYTES = 32 << 20


def deal(table: pa.Table, places: np.ndarray, partitions: int) -> list[pa.Table]:
    """Split a block by partition, keeping the order of rows; `places` is the partition of each row."""
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places, minlength=partitions)).tolist()
    return reordered_pieces(table, order, ends)


def reordered_pieces(table: pa.Table, order: np.ndarray, ends: Sequence[int]) -> list[pa.Table]:
    """Reorder the rows of a block and cut them at some places; each piece has its own memory."""
    whole = solid(table)
    parts = []
    start = 0
    for end in ends:
        parts.append(rows_at(whole, order[start:end]) if end > start else whole.slice(0, 0))
        start = end
    return parts


def rows_at(table: pa.Table, order: np.ndarray) -> pa.Table:
    """Copy some rows of a block."""
    return table.take(pa.array(order))


def solid(table: pa.Table) -> pa.Table:
    """Return the block with one chunk per column, from which rows can be taken faster."""
    if all(column.num_chunks <= 1 for column in table.columns):
        return table
    return table.combine_chunks()


def in_order(table: pa.Table, order: np.ndarray | pa.Array) -> Iterator[pa.Table]:
    """Reorder the rows of a block and yield them as blocks of a sensible size, at least one."""
    whole = solid(table)
    rows = rows_in_block(whole)
    if not len(order):
        yield whole.slice(0, 0)
    for start in range(0, len(order), rows):
        piece = order[start : start + rows]
        yield whole.take(piece if isinstance(piece, pa.Array) else pa.array(piece))


def rows_in_block(table: pa.Table) -> int:
    """Return how many rows of a table make a block of a sensible size."""
    pieces = max(1, round(size_of(table) / BLOCK_BYTES))
    rows: int = max(1, -(-table.num_rows // pieces))
    return rows


def joined(parts: Sequence[pa.Table]) -> pa.Table:
    """Concatenate parts; if none has rows, return the first that has columns."""
    filled = [part for part in parts if part.num_rows]
    if filled:
        return concat(filled)
    return next((part for part in parts if part.num_columns), parts[0] if parts else pa.table({}))
