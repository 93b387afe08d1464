"""Bisection of numbers between boundaries: faster than sorting, for a single numeric key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from skate.data.exchange.hash_partition import place_type


def places_of(
    keys: pa.Table, rows: np.ndarray, boundaries: pa.Table, descending: Sequence[bool]
) -> np.ndarray | None:
    """Return the partition of each row, or None if bisection does not apply.

    A row is after a boundary if its key is, or if the keys are equal and its number is not less than the boundary's.
    """
    if keys.num_columns != 1 or not _is_simple(keys.schema.types[0]):
        return None
    if keys.schema.types[0] != boundaries.schema.types[0]:
        return None
    values, ranks = _ranked(keys.column(0))
    limits, limit_ranks = _ranked(boundaries.column(0))
    low = np.zeros(len(values), np.int64)
    high = np.zeros(len(values), np.int64)
    for rank in (0, 1, 2):  # numbers, then NaN, then null, as the boundaries are sorted too
        begin, end = np.searchsorted(limit_ranks, [rank, rank + 1])
        here = ranks == rank
        if rank:
            low[here], high[here] = begin, end
        elif end > begin:
            low[here], high[here] = _between(values[here], limits[begin:end], descending[0])
    places = _past_ties(low, high, rows, boundaries.column("row").to_numpy())
    return places.astype(place_type(boundaries.num_rows + 1))


def _is_simple(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) and not types.is_float16(kind))


def _ranked(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of a column, and a class for each: 0 for a number, 1 for NaN, 2 for null."""
    filled = column.fill_null(0) if column.null_count else column
    values: np.ndarray = filled.to_numpy()
    ranks = np.zeros(len(values), np.int8)
    if values.dtype.kind == "f":
        ranks[values != values] = 1
    if column.null_count:
        ranks[column.is_null().to_numpy()] = 2
    return values, ranks


def _between(values: np.ndarray, limits: np.ndarray, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return for each number how many boundaries are less than it, and how many are less or equal."""
    if not descending:
        return np.searchsorted(limits, values, "left"), np.searchsorted(limits, values, "right")
    upwards = limits[::-1]
    count = len(limits)
    return count - np.searchsorted(upwards, values, "right"), count - np.searchsorted(upwards, values, "left")


def _past_ties(low: np.ndarray, high: np.ndarray, rows: np.ndarray, limit_rows: np.ndarray) -> np.ndarray:
    """Decide by row number among boundaries with equal keys."""
    places: np.ndarray = low.copy()
    tied = np.flatnonzero(high > low)
    for begin in np.unique(low[tied]):
        mine = tied[low[tied] == begin]
        end = high[mine[0]]
        places[mine] = begin + np.searchsorted(limit_rows[begin:end], rows[mine], "right")
    return places
