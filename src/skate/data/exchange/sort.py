"""Rows in order of their keys; rows with equal keys stay in the order they had. NaN comes after all numbers, null last.

Partitions are ranges of keys, with boundaries taken from a sample. A boundary is a key *and* the number of the row it was taken
from, so rows that share one key are spread over several partitions as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block import concat
from skate.data.block.table import common_type
from skate.data.exchange.bounds import places_of
from skate.data.exchange.kernel import Kernel
from skate.data.exchange.keys import check_type, key_columns
from skate.data.exchange.parts import deal, in_order, joined, reordered_pieces

#: One row of a block is sampled per this many bytes.
_SAMPLE_BYTES = 64 << 10
_SAMPLE_ROWS = (16, 4096)
#: The column with the row number, beside key columns named by their positions.
_ROW = "row"


@dataclass(frozen=True)
class Order:
    """The columns to sort by, and which of them are descending."""

    keys: tuple[str, ...]
    descending: tuple[bool, ...]

    def columns(self, table: pa.Table) -> pa.Table:
        """Return the key columns of a block, named "0", "1" and so on. Raises as `key_columns` does."""
        made = key_columns(table, self.keys)
        return pa.table({str(at): column for at, column in enumerate(made)})

    def sort_keys(self) -> list[tuple[str, str]]:
        """Return the order as Arrow's sort keys."""
        return [(str(at), "descending" if down else "ascending") for at, down in enumerate(self.descending)]

    def indices(self, table: pa.Table) -> pa.Array:
        """Return the row numbers of a block in sorted order; the sort is stable."""
        columns = self.columns(table)
        for at, column in enumerate(columns.columns):
            if pa.types.is_null(column.type):  # all are equal, and Arrow does not sort them
                columns = columns.set_column(at, str(at), pa.nulls(len(column), pa.int8()))
        if columns.num_columns == 1:
            found = pc.array_sort_indices(columns.column(0), order=self.sort_keys()[0][1])
            # One chunk: taking rows is several times slower with a chunked index.
            return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        return pc.sort_indices(columns, sort_keys=self.sort_keys())


class SortKernel(Kernel):
    """A sort by one or several columns; `boundaries` are the keys at which partitions begin, if the user gave them."""

    keeps_columns = keeps_count = True
    name = "Sort"

    def __init__(self, order: Order, boundaries: Sequence[Any] | None = None) -> None:
        self.order = order
        self.boundaries = None if boundaries is None else list(boundaries)
        self.samples = boundaries is None

    def check(self, schemas: Sequence[pa.Schema]) -> None:
        """Raise for keys that do not exist or have no order."""
        check_keys(schemas[0], self.order.keys)

    def sample(self, block: pa.Table) -> pa.Table:
        """Return the keys of sampled rows, their row numbers within the block, and the number of rows each
        represents.
        """
        fewest, most = _SAMPLE_ROWS
        rows = block.num_rows
        count = min(rows, max(fewest, min(most, block.nbytes // _SAMPLE_BYTES)))
        where = np.sort(np.random.default_rng((rows, count)).choice(rows, count, replace=False))
        found = self.order.columns(block).take(pa.array(where))
        return found.append_column(_ROW, pa.array(where)).append_column(
            "weight", pa.array(np.full(count, rows / max(1, count)))
        )

    def prepare(
        self, samples: Sequence[pa.Table], partitions: int, rows: Sequence[Sequence[int]]
    ) -> pa.Table | None:
        """Return the boundaries: the keys and rows at which partitions begin, in order."""
        if partitions < 2:
            return None
        if self.boundaries is not None:
            return self._given(partitions)
        starts = np.concatenate([[0], np.cumsum(rows[0])])
        moved = [
            each.set_column(each.column_names.index(_ROW), _ROW, pa.array(_numbers(each, _ROW) + start))
            for each, start in zip(samples, starts, strict=False)
        ]
        together = concat(moved)
        by = [*self.order.sort_keys(), (_ROW, "ascending")]
        together = together.take(pc.sort_indices(_sortable(together), sort_keys=by))
        reached = np.cumsum(_numbers(together, "weight"))
        wanted = reached[-1] * np.arange(1, partitions) / partitions
        places = np.minimum(np.searchsorted(reached, wanted), len(reached) - 1)
        return together.take(pa.array(places)).drop_columns(["weight"])

    def _given(self, partitions: int) -> pa.Table:
        """Return the boundaries given by the user: a row equal to one belongs to the side of the larger keys."""
        values = pa.array(self.boundaries)
        values = values.take(pc.array_sort_indices(values, order=self.order.sort_keys()[0][1]))
        row = np.iinfo(np.int64).max if self.order.descending[0] else -1
        return pa.table({"0": values, _ROW: pa.array(np.full(partitions - 1, row))})

    def split(
        self, block: pa.Table, source: int, start: int, plan: pa.Table, partitions: int
    ) -> list[pa.Table]:
        """Split the rows at the boundaries."""
        columns = self.order.columns(block)
        rows = np.arange(start, start + block.num_rows)
        places = places_of(columns, rows, plan, self.order.descending)
        if places is not None:
            return deal(block, places, partitions)
        order, ends = _cut(columns, rows, plan, self.order)
        return reordered_pieces(block, order, ends)

    def merge(self, parts: Sequence[Sequence[pa.Table]], partition: int, plan: object) -> Iterator[pa.Table]:
        """Return the rows of the partition in order."""
        table = joined(parts[0])
        if not table.num_rows:
            yield table
        else:
            yield from in_order(table, self.order.indices(table))


def check_keys(schema: pa.Schema, keys: Sequence[str]) -> None:
    """Raise for keys that the schema lacks or whose values cannot be compared. A schema without columns passes."""
    if len(schema):
        key_columns(schema.empty_table(), keys)


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    numbers: np.ndarray = table.column(name).to_numpy()
    return numbers


def _sortable(table: pa.Table) -> pa.Table:
    for at, field in enumerate(table.schema):
        if pa.types.is_null(field.type):
            table = table.set_column(at, field.name, pa.nulls(table.num_rows, pa.int8()))
    return table


def _cut(
    columns: pa.Table, rows: np.ndarray, boundaries: pa.Table, order: Order
) -> tuple[np.ndarray, list[int]]:
    """Return the rows of a block in order, and the positions of the boundaries in that order: both are sorted
    together."""
    count = columns.num_rows
    both: dict[str, Any] = {}
    for name in columns.column_names:
        check_type(boundaries.schema.field(name).type, name)
        kind = common_type(name, [columns.schema.field(name).type, boundaries.schema.field(name).type])
        pieces = [*columns.column(name).cast(kind).chunks, *boundaries.column(name).cast(kind).chunks]
        both[name] = pa.chunked_array(pieces, kind)
    both[_ROW] = pa.chunked_array([pa.array(rows), *boundaries.column(_ROW).chunks])
    # If a row is its own boundary, the boundary comes first.
    both["behind"] = pa.array(np.arange(count + boundaries.num_rows) < count)
    by = [*order.sort_keys(), (_ROW, "ascending"), ("behind", "ascending")]
    sorted_rows = pc.sort_indices(_sortable(pa.table(both)), sort_keys=by).to_numpy()
    is_boundary = sorted_rows >= count
    ends = np.flatnonzero(is_boundary) - np.arange(boundaries.num_rows)
    return sorted_rows[~is_boundary].astype(np.int64), [*ends.tolist(), count]
