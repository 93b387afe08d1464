"""Aggregations whose state is a list per group: all values, or the distinct ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block import objects
from skate.data.block.columns import from_values
from skate.data.exchange.groups import Groups, codes_of, first_of
from skate.data.exchange.hash_partition import hash_rows
from skate.data.exchange.keys import comparable
from skate.data.exchange.measures import Measure, States


class Collected(Measure):
    """The values of each group, in the order of the rows."""

    nothing: Any = ()

    def start(self, column: pa.ChunkedArray | None, groups: Groups) -> States:
        assert column is not None
        ids = groups.ids
        if self.ignore_nulls and column.null_count:
            valid = column.is_valid()
            column, ids = column.filter(valid), ids[valid.to_numpy()]
        order = np.argsort(ids, kind="stable")
        return [_lists(column.take(pa.array(order)), np.bincount(ids, minlength=groups.count))]

    def merge(self, states: States, groups: Groups) -> States:
        order = np.argsort(groups.ids, kind="stable")
        lists = _whole(states[0].take(pa.array(order)))
        lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
        counts = np.bincount(groups.ids[order], lengths, groups.count).astype(np.int64)
        return [_lists(pa.chunked_array([lists.flatten()]), counts)]


class Distinct(Collected):
    """The distinct values of each group, in order of first appearance."""

    def start(self, column: pa.ChunkedArray | None, groups: Groups) -> States:
        return [_distinct(super().start(column, groups)[0])]

    def merge(self, states: States, groups: Groups) -> States:
        return [_distinct(super().merge(states, groups)[0])]


class ListValues(Measure):
    """Applies another measure to the elements of lists ("FLATTEN"), to hashes of lists ("HASH"), or to the values
    unchanged (None).
    """

    def __init__(self, mode: str | None, then: Measure) -> None:
        super().__init__(then.ignore_nulls)
        self.mode = mode
        self.then = then
        self.nothing = then.nothing

    def start(self, column: pa.ChunkedArray | None, groups: Groups) -> States:
        assert column is not None
        if not pa.types.is_list(column.type) and not pa.types.is_large_list(column.type):
            return self.then.start(column, groups)
        lists = _whole(column)
        if self.mode == "FLATTEN":
            return self.then.start(
                pa.chunked_array([lists.flatten()]), groups.picked(pc.list_parent_indices(lists).to_numpy())
            )
        pickled = objects.from_objects(lists.to_pylist())
        if self.mode is None:
            return self.then.start(pa.chunked_array([pickled]), groups)
        hashes = hash_rows([pa.chunked_array([pickled.storage])]).view("int64")
        mask = pickled.is_null().to_numpy(zero_copy_only=False)
        return self.then.start(pa.chunked_array([pa.array(hashes, mask=mask)]), groups)

    def merge(self, states: States, groups: Groups) -> States:
        return self.then.merge(states, groups)

    def finish(self, states: States) -> pa.Array:
        found = _whole(self.then.finish(states))
        if not objects.is_object(found.type.value_type):
            return found
        values = objects.to_objects(found.flatten())
        offsets = found.offsets.to_numpy().tolist()
        return from_values([values[low:high] for low, high in zip(offsets, offsets[1:], strict=False)])


class DistinctCount(Distinct):
    """The number of distinct values of each group."""

    nothing = 0

    def finish(self, states: States) -> pa.Array:
        return pc.list_value_length(states[0]).fill_null(0).cast(pa.int64())


class Quantiles(Collected):
    """The `q` quantile of each group, interpolated linearly between two values."""

    nothing = None

    def __init__(self, q: float, ignore_nulls: bool = True) -> None:
        super().__init__(ignore_nulls)
        self.q = q

    def start(self, column: pa.ChunkedArray | None, groups: Groups) -> States:
        assert column is not None
        return super().start(column.cast(pa.float64(), safe=False), groups)

    def finish(self, states: States) -> pa.Array:
        lists = _whole(states[0])
        lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = lists.flatten()
        parents = np.repeat(np.arange(len(lists)), lengths)
        missing = np.zeros(len(lists), bool)
        missing[parents[flat.is_null().to_numpy(zero_copy_only=False)]] = True
        values = flat.fill_null(0.0).to_numpy(zero_copy_only=False)
        values = values[np.lexsort((values, parents))]
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if len(lengths) else lengths
        present = lengths > 0
        where = starts[present] + (lengths[present] - 1) * self.q
        low, high = np.floor(where).astype(np.int64), np.ceil(where).astype(np.int64)
        found = np.full(len(lists), np.nan)
        found[present] = values[low] + (values[high] - values[low]) * (where - low)
        return pa.array(found, mask=~present | missing)


def _whole(lists: Any) -> pa.Array:
    if isinstance(lists, pa.ChunkedArray):
        if lists.num_chunks == 1:
            return lists.chunk(0)
        return lists.combine_chunks() if lists.num_chunks else pa.array([], lists.type)
    return lists


def _lists(values: pa.ChunkedArray, counts: np.ndarray) -> pa.Array:
    """Split consecutive values into lists of the given lengths."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return pa.LargeListArray.from_arrays(pa.array(offsets), _whole(values))


def _distinct(lists: pa.Array) -> pa.Array:
    """Keep the first of equal values in each list."""
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    values = pa.chunked_array([lists.flatten()])
    parents = np.repeat(np.arange(len(lists)), lengths)
    if objects.is_object(values.type):  # objects count as equal if their pickles are equal
        columns = [pa.chunked_array([chunk.storage for chunk in values.chunks])]
    else:
        columns = [comparable(values, "aggregated")]
    columns.append(pa.chunked_array([pa.array(parents)]))
    first = first_of(*codes_of(columns))
    counts = np.bincount(parents[first], minlength=len(lists))
    return _lists(values.take(pa.array(first)), counts)
