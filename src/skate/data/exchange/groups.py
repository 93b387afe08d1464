"""The groups of a block: their numbers and their rows."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.exchange.keys import key_columns
from skate.data.exchange.parts import solid
from skate.data.exchange.sort import Order


class Groups:
    """Rows with equal keys, the groups numbered in key order; null is an ordinary key and comes last.

    Without keys, all rows form one group, which exists even without rows.
    """

    def __init__(self, table: pa.Table, keys: Sequence[str]) -> None:
        self.rows = table.num_rows
        if not keys:
            self.ids = np.zeros(self.rows, np.int64)
            self.count = 1
            self.keys = pa.table({})
            return
        columns = key_columns(table, keys)
        ids, count = codes_of(columns)
        first = first_of(ids, count)
        found = pa.table(dict(zip(keys, columns, strict=True))).take(pa.array(first))
        order = Order(tuple(keys), (False,) * len(keys)).indices(found)
        place = np.empty(len(first), np.int64)
        place[order.to_numpy()] = np.arange(len(first))
        self.ids = place[ids]
        self.count = len(first)
        self.keys = found.take(order)

    def order(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows by group, in their original order, and the offsets of the groups."""
        order = np.argsort(self.ids, kind="stable")
        ends = np.cumsum(np.bincount(self.ids, minlength=self.count))
        return order, np.concatenate([[0], ends])

    def each(self, table: pa.Table) -> Iterator[tuple[Any, pa.Table]]:
        """Yield the key of each group (a value, or a tuple unless there is one key column) and its rows."""
        order, starts = self.order()
        sorted_rows = table if self.count == 1 else solid(table).take(pa.array(order))
        values = [column.to_pylist() for column in self.keys.columns]
        for at in range(self.count):
            key = tuple(column[at] for column in values)
            rows = sorted_rows.slice(int(starts[at]), int(starts[at + 1] - starts[at]))
            yield (key[0] if len(key) == 1 else key), rows

    def picked(self, rows: np.ndarray) -> Groups:
        """Return the groups of the rows with these numbers, repeated as given."""
        made = copy.copy(self)
        made.ids = self.ids[rows]
        made.rows = len(rows)
        return made

    def sum(self, numbers: np.ndarray) -> np.ndarray:
        """Sum numbers, one per row, by group."""
        return np.bincount(self.ids, numbers, self.count)


def codes_of(columns: Sequence[pa.ChunkedArray]) -> tuple[np.ndarray, int]:
    """Number the rows so that rows with equal values in all columns share a number. Return the numbers and their count.

    Numbers are assigned in order of first appearance.
    """
    codes, count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        mine, distinct = _codes_of_one(column)
        if count == 1:
            codes, count = mine, distinct
        elif distinct > 1:
            codes, count = _codes_of_one(pa.chunked_array([pa.array(codes * distinct + mine)]))
    return codes, count


def _codes_of_one(column: pa.ChunkedArray) -> tuple[np.ndarray, int]:
    if pa.types.is_null(column.type) or not len(column):
        return np.zeros(len(column), np.int64), min(1, len(column))
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    encoded = whole.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def first_of(codes: np.ndarray, count: int) -> np.ndarray:
    """Return the first row with each number."""
    first = np.zeros(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of several values for one position the last one wins
    return first


def starts_of(columns: Sequence[pa.ChunkedArray]) -> np.ndarray:
    """Return the offsets of the groups in rows sorted by these columns."""
    if not columns:
        return np.zeros(1, np.int64)
    codes, _ = codes_of(columns)
    changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    return np.concatenate([np.zeros(min(1, len(codes)), np.int64), changes])
