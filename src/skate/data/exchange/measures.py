"""Aggregations by Arrow's kernels, without a Python call per group: group states are kept in columns.

A measure turns rows into states (`start`), states of several blocks into one (`merge`), and a state into the
result (`finish`). States are columns with one row per group, so that they travel like any block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data.exchange.groups import Groups

#: An Arrow aggregation of a column: the function's name and its options.
ArrowFunction = tuple[str, Any]
States = list[Any]


def reduced(columns: Sequence[Any], arrow_functions: Sequence[ArrowFunction], groups: Groups) -> States:
    """Apply Arrow's aggregations to columns, by group; null where a group has no rows."""
    alone = groups.count == 1 and not groups.keys.num_columns
    keys = [] if alone else [pa.array(groups.ids)]
    made, ids = grouped(keys, columns, arrow_functions)
    if alone:
        return made
    order = pc.array_sort_indices(ids[0])
    return [each.take(order) for each in made]


def grouped(
    keys: Sequence[Any], columns: Sequence[Any], arrow_functions: Sequence[ArrowFunction]
) -> tuple[States, list[Any]]:
    """Apply Arrow's aggregations to columns grouped by others; return the results and the group keys."""
    named = {f"k{at}": key for at, key in enumerate(keys)}
    by = list(named)
    named |= {f"c{at}": column for at, column in enumerate(columns)}
    wanted = [(f"c{at}", function, options) for at, (function, options) in enumerate(arrow_functions)]
    made = pa.table(named).group_by(by, use_threads=False).aggregate(wanted)
    found = [
        made.column(f"c{at}_{function}").combine_chunks() for at, (function, _) in enumerate(arrow_functions)
    ]
    return found, [made.column(name).combine_chunks() for name in by]


def _skip(ignore_nulls: bool) -> pc.ScalarAggregateOptions:
    return pc.ScalarAggregateOptions(skip_nulls=ignore_nulls, min_count=1 if ignore_nulls else 0)


class Measure:
    """One aggregation of one column. Subclasses define `arrow_functions`, or a `start` of their own."""

    #: The result for no rows.
    nothing: Any = None

    def __init__(self, ignore_nulls: bool = True) -> None:
        self.ignore_nulls = ignore_nulls

    def arrow_functions(self) -> list[ArrowFunction] | None:
        """The Arrow aggregations for the column, or None if Arrow alone cannot compute the measure."""
        return None

    def arrow_input(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Convert the column to the form in which Arrow aggregates it."""
        return column

    def gathered(self, found: States) -> States:
        """Return states from Arrow's results."""
        return found

    def start(self, column: pa.ChunkedArray | None, groups: Groups) -> States:
        """Return states from the rows of a column."""
        arrow_functions = self.arrow_functions()
        assert arrow_functions is not None
        asked = pa.nulls(groups.rows) if column is None else self.arrow_input(column)
        return self.gathered(reduced([asked] * len(arrow_functions), arrow_functions, groups))

    def merge(self, states: States, groups: Groups) -> States:
        """Combine the states of several blocks by group."""
        raise NotImplementedError

    def finish(self, states: States) -> pa.Array:
        """Turn states into results."""
        return states[0]


class Plain(Measure):
    """Functions whose state is their result: the sum of sums is a sum."""

    def __init__(self, function: str, ignore_nulls: bool = True) -> None:
        super().__init__(ignore_nulls)
        self.function = function

    def arrow_functions(self) -> list[ArrowFunction]:
        return [(self.function, _skip(self.ignore_nulls))]

    def merge(self, states: States, groups: Groups) -> States:
        found = self.start(states[0], groups)
        return found if groups.rows else [pa.nulls(groups.count, found[0].type)]


class Counted(Measure):
    """The number of rows, or of values of a column: "all", "only_valid" or "only_null"."""

    nothing = 0

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode

    def arrow_functions(self) -> list[ArrowFunction]:
        return [("count", pc.CountOptions(mode=self.mode))]

    def merge(self, states: States, groups: Groups) -> States:
        return [pa.array(groups.sum(_floats(states[0])).astype(np.int64))]


class AbsoluteMax(Measure):
    """The largest distance from zero."""

    def arrow_functions(self) -> list[ArrowFunction]:
        how = _skip(self.ignore_nulls)
        return [("min", how), ("max", how)]

    def merge(self, states: States, groups: Groups) -> States:
        found = reduced(states, self.arrow_functions(), groups)
        return found if groups.rows else [pa.nulls(groups.count, each.type) for each in found]

    def finish(self, states: States) -> pa.Array:
        return pc.max_element_wise(pc.abs(states[0]), pc.abs(states[1]), skip_nulls=False)


class Moments(Measure):
    """Mean and variance: count, mean and sum of squared distances by block, combined with the method of Chan,
    Golub and LeVeque.

    Squares of large values are never summed, so nothing cancels.
    """

    def __init__(self, ignore_nulls: bool, ddof: int | None = None) -> None:
        super().__init__(ignore_nulls)
        self.ddof = ddof  # None for the mean

    def arrow_functions(self) -> list[ArrowFunction]:
        counts: list[ArrowFunction] = [
            ("count", pc.CountOptions(mode=mode)) for mode in ("only_valid", "only_null")
        ]
        if self.ddof is None:
            return [*counts, ("sum", _skip(True))]
        return [*counts, ("mean", _skip(True)), ("variance", pc.VarianceOptions(ddof=0))]

    def arrow_input(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        # Floats, because their sums cannot wrap around.
        return column if column.type == pa.float64() else column.cast(pa.float64(), safe=False)

    def gathered(self, found: States) -> States:
        if self.ddof is None:
            return found
        return [*found[:3], pa.array(_floats(found[3]) * _floats(found[0]))]

    def merge(self, states: States, groups: Groups) -> States:
        counts = _floats(states[0])
        total, missing = groups.sum(counts), groups.sum(_floats(states[1]))
        both = [pa.array(total.astype(np.int64)), pa.array(missing.astype(np.int64))]
        if self.ddof is None:
            return [*both, pa.array(groups.sum(_floats(states[2])))]
        means, squares = _floats(states[2]), _floats(states[3])
        # Means as differences from one of them: their sum keeps the digits in which they differ.
        base = np.zeros(groups.count)
        base[groups.ids[counts > 0]] = means[counts > 0]
        with np.errstate(divide="ignore", invalid="ignore"):  # of empty groups and of infinite values
            apart = np.where(counts > 0, means - base[groups.ids], 0.0)
            middle = groups.sum(counts * apart) / total
            spread = counts * (apart - middle[groups.ids]) ** 2
        return [
            *both,
            pa.array(base + middle),
            pa.array(groups.sum(squares + np.where(counts > 0, spread, 0.0))),
        ]

    def finish(self, states: States) -> pa.Array:
        counts, missing = _floats(states[0]), _floats(states[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.ddof is None:
                found = _floats(states[2]) / counts
            else:
                freedom = counts - self.ddof
                found = np.sqrt(np.where(freedom > 0, _floats(states[3]) / freedom, np.nan))
        absent = counts == 0
        if not self.ignore_nulls:
            absent |= missing > 0
        return pa.array(found, mask=absent)


class Share(Measure):
    """The percentage of rows that are missing, or zero."""

    def __init__(self, of: str, ignore_nulls: bool = True) -> None:
        super().__init__(ignore_nulls)
        self.of = of  # "missing" or "zero"

    def start(self, column: pa.ChunkedArray | None, groups: Groups) -> States:
        assert column is not None
        if self.of == "missing":
            counted = Counted("all")
            hits = column.is_null(nan_is_null=pa.types.is_floating(column.type))
        else:
            counted = Counted("only_valid" if self.ignore_nulls else "all")
            if pa.types.is_null(column.type):  # nothing else can be zero
                column = column.cast(pa.int64())
            hits = pc.equal(column, pa.scalar(0).cast(column.type)).fill_null(False)
        return [*counted.start(column, groups), pa.array(groups.sum(hits.to_numpy().astype(np.float64)))]

    def merge(self, states: States, groups: Groups) -> States:
        return [pa.array(groups.sum(_floats(each))) for each in states]

    def finish(self, states: States) -> pa.Array:
        whole = _floats(states[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            return pa.array(_floats(states[1]) / whole * 100.0, mask=whole == 0)


def _floats(column: Any) -> np.ndarray:
    """Return the numbers of a state as floats, with 0 for null."""
    filled = column.cast(pa.float64(), safe=False).fill_null(0.0)
    numbers: np.ndarray = (
        filled.to_numpy(zero_copy_only=False) if isinstance(filled, pa.Array) else filled.to_numpy()
    )
    return numbers
