"""Aggregations for `Dataset.aggregate` and `Dataset.groupby(...).aggregate`; subclass `AggregateFnV2` for others."""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block import rows_of
from skate.data.exchange.groups import Groups
from skate.data.exchange.lists import Collected, Distinct, DistinctCount, ListValues, Quantiles
from skate.data.exchange.measures import AbsoluteMax, Counted, Measure, Moments, Plain, Share
from skate.data.exchange.sketches import Frequencies, Ranks
from skate.data.steps.columns import known

_NAME = re.compile(r"^([^(]+)(?:\(.*\))?$", re.DOTALL)


class AggregateFn:
    """An aggregation made of functions.

    Args:
        init: returns the state of a group without rows; called with the group's key, a tuple unless there is
            one key column.
        merge: combines two states.
        name: the column of the results.
        accumulate_row: returns the next state from a state and a row (a dict).
        accumulate_block: returns the next state from a state and a block (a pyarrow Table); alternative to
            `accumulate_row`.
        finalize: turns a state into a result; by default the state itself is the result.

    Raises ValueError unless exactly one of `accumulate_row` and `accumulate_block` is given, TypeError if the
    name is not a string.
    """

    #: The column that is aggregated, if it is a single one.
    on: str | None = None

    def __init__(
        self,
        init: Callable[[Any], Any],
        merge: Callable[[Any, Any], Any],
        name: str,
        accumulate_row: Callable[[Any, dict[str, Any]], Any] | None = None,
        accumulate_block: Callable[[Any, Any], Any] | None = None,
        finalize: Callable[[Any], Any] | None = None,
    ) -> None:
        if (accumulate_row is None) == (accumulate_block is None):
            raise ValueError("Exactly one of accumulate_row or accumulate_block must be provided.")
        if not isinstance(name, str):
            raise TypeError(f"name of an AggregateFn must be a string, got {name!r}")
        self.name = name
        self.init = init
        self.merge = merge
        self.accumulate_block = accumulate_block or _by_row(accumulate_row)
        self.finalize = finalize or _same

    def columns(self) -> tuple[str, ...] | None:
        """The columns that it reads; None if it may read all of them."""
        return None

    def measure(self) -> Measure | None:
        """How to compute it with whole-column operations, or None."""
        return None

    def output_field(self, input_schema: pa.Schema) -> pa.Field | None:
        """Name and type of the results for rows of a schema; None if they depend on the values."""
        return None

    def zero(self) -> Any:
        """The initial state when there are no group keys."""
        return self.init(())

    def state_of(self, key: Any, block: pa.Table) -> Any:
        """Return the state of a group from its rows in a block."""
        return self.accumulate_block(self.init(key), block)

    def together(self, state: Any, new: Any) -> Any:
        """Combine two states into one."""
        return self.merge(state, new)

    def result(self, state: Any) -> Any:
        """Turn a state into the result."""
        return self.finalize(state)


def _same(state: Any) -> Any:
    return state


def _by_row(accumulate: Callable[[Any, dict[str, Any]], Any] | None) -> Callable[[Any, pa.Table], Any]:
    assert accumulate is not None

    def accumulate_block(state: Any, block: pa.Table) -> Any:
        for row in rows_of(block):
            state = accumulate(state, row)
        return state

    return accumulate_block


class AggregateFnV2(AggregateFn):  # methods here override attributes of the base class
    """An aggregation as a class: subclasses define `aggregate_block` and `combine`, and `finalize` if the state is
    not the result.

    Args:
        name: the column of the results, such as "sum(x)".
        zero_factory: returns the state of a group without rows.
        on: the column to aggregate, None for whole rows.
        ignore_nulls: True to skip nulls; False if one null makes the result null.

    A state of None means "nothing yet" if nulls are ignored, and "null" if they are not; `combine` and
    `finalize` are never called with it. Raises ValueError for an empty name.
    """

    def __init__(
        self, name: str, zero_factory: Callable[[], Any], *, on: str | None, ignore_nulls: bool
    ) -> None:
        if not name:
            raise ValueError(f"name of an aggregation must be a non-empty string, got {name!r}")
        self.on = self._target_col_name = on
        self._ignore_nulls = ignore_nulls
        self._zero_factory = zero_factory
        found = _NAME.match(name)
        self._agg_name = found.group(1) if found else name
        self.name = name

    def get_target_column(self) -> str | None:
        """The column that is aggregated, None for whole rows."""
        return self._target_col_name

    def get_agg_name(self) -> str:
        """The name without the column: "sum" for "sum(x)"."""
        return self._agg_name

    def aggregate_block(self, block: Any) -> Any:
        """Return the state of the rows of a block, a pyarrow Table."""
        raise NotImplementedError(f"{type(self).__name__} has no aggregate_block")

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        """Combine two states into one."""
        raise NotImplementedError(f"{type(self).__name__} has no combine")

    def finalize(self, accumulator: Any) -> Any:
        """Turn a state into the result; by default the state itself."""
        return accumulator

    def columns(self) -> tuple[str, ...] | None:
        return None if self.on is None else (self.on,)

    def zero(self) -> Any:
        return None if self._ignore_nulls else self._zero_factory()

    def state_of(self, key: Any, block: pa.Table) -> Any:
        if self.on is not None:
            known(block, self.on)
        state = self.aggregate_block(block)
        if self._ignore_nulls:
            return state
        return self.together(self._zero_factory(), state)

    def together(self, state: Any, new: Any) -> Any:
        if state is None or new is None:
            return (new if state is None else state) if self._ignore_nulls else None
        return self.combine(state, new)

    def result(self, state: Any) -> Any:
        return None if state is None else self.finalize(state)


class VectorizedAggregateFnV2(AggregateFnV2):
    """An aggregation that combines a whole column of states at once, in `_combine_column`."""

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return self._combine_column(pa.chunked_array([pa.array([current_accumulator, new])]))

    def _combine_column(self, accumulator_col: Any) -> Any:
        """Combine a column of states into one state."""
        raise NotImplementedError(f"{type(self).__name__} has no _combine_column")


class _Measured(AggregateFnV2):
    """Base of the aggregations of this module: a measure, and the three methods derived from it."""

    def __init__(
        self, word: str, on: str | None, ignore_nulls: bool, alias_name: str | None, measure: Measure
    ) -> None:
        super().__init__(alias_name or f"{word}({on or ''})", _nothing, on=on, ignore_nulls=True)
        self._ignore_nulls = ignore_nulls
        self._measure = measure

    def measure(self) -> Measure | None:
        own = next(each for each in type(self).__mro__ if each.__module__ == __name__)
        same = all(
            getattr(type(self), method) is getattr(own, method)
            for method in ("aggregate_block", "combine", "finalize")
        )
        return self._measure if same else None

    #: Arrow kernels whose results have the type of this one's; None if the type depends on the values.
    _typed_by: str | None = None

    def output_field(self, input_schema: pa.Schema) -> pa.Field | None:
        if self._typed_by is None or self.on not in input_schema.names:
            return None
        with contextlib.suppress(pa.ArrowNotImplementedError):
            kind = getattr(pc, self._typed_by)(pa.array([], input_schema.field(self.on).type)).type
            return pa.field(self.name, kind)
        return None

    def aggregate_block(self, block: Any) -> Any:
        column = None if self.on is None else block.column(self.on)
        return _unpacked(self._measure.start(column, Groups(block, ())))

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        pairs = zip(_packed(current_accumulator), _packed(new), strict=True)
        states = [pa.array(pair) for pair in pairs]
        return _unpacked(self._measure.merge(states, Groups(pa.table({"": states[0]}), ())))

    def finalize(self, accumulator: Any) -> Any:
        if not isinstance(accumulator, list) and not isinstance(self._measure, Collected):
            return accumulator
        return self._measure.finish([pa.array([state]) for state in _packed(accumulator)])[0].as_py()


def _nothing() -> None:
    return None


def _unpacked(states: list[Any]) -> Any:
    """Return the states of one group as Python values, without a list around a single one."""
    found = [state[0].as_py() for state in states]
    return found if len(found) > 1 else found[0]


def _packed(state: Any) -> list[Any]:
    return state if isinstance(state, list) and not (state and isinstance(state[0], list)) else [state]


class Count(_Measured):
    """The number of rows, or of values of a column; with `ignore_nulls` nulls are not counted."""

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = False, alias_name: str | None = None
    ) -> None:
        mode = "only_valid" if ignore_nulls else "all"
        super().__init__("count", on, ignore_nulls, alias_name, Counted(mode))

    def output_field(self, input_schema: pa.Schema) -> pa.Field | None:
        return pa.field(self.name, pa.int64(), nullable=False)


class Sum(_Measured):
    """The sum of a column."""

    _typed_by = "sum"

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        super().__init__("sum", on, ignore_nulls, alias_name, Plain("sum", ignore_nulls))


class Min(_Measured):
    """The smallest value of a column."""

    _typed_by = "min"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] = _nothing,
    ) -> None:
        super().__init__("min", on, ignore_nulls, alias_name, Plain("min", ignore_nulls))


class Max(_Measured):
    """The largest value of a column."""

    _typed_by = "max"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] = _nothing,
    ) -> None:
        super().__init__("max", on, ignore_nulls, alias_name, Plain("max", ignore_nulls))


class AbsMax(_Measured):
    """The largest absolute value of a column."""

    _typed_by = "abs"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] = _nothing,
    ) -> None:
        super().__init__("abs_max", on, ignore_nulls, alias_name, AbsoluteMax(ignore_nulls))


class Mean(_Measured):
    """The mean of a column."""

    _typed_by = "mean"

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        super().__init__("mean", on, ignore_nulls, alias_name, Moments(ignore_nulls))


class Std(_Measured):
    """The standard deviation of a column. The sum of squares is divided by the number of values minus `ddof`.

    Blocks are combined with the method of Chan, Golub and LeVeque, which stays exact for large values with
    little spread.
    """

    _typed_by = "mean"

    def __init__(
        self,
        on: str | None = None,
        ddof: int = 1,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
    ) -> None:
        super().__init__("std", on, ignore_nulls, alias_name, Moments(ignore_nulls, ddof))


class Quantile(_Measured):
    """The `q` quantile (0 to 1) of a column, interpolated linearly between two values.

    Exact: all values of a group are collected in one place. `ApproximateQuantile` needs no such memory.
    """

    def __init__(
        self,
        on: str | None = None,
        q: float = 0.5,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
    ) -> None:
        if not 0 <= q <= 1:
            raise ValueError(f"q of a Quantile must be between 0 and 1, got {q}")
        self._q = q
        super().__init__("quantile", on, ignore_nulls, alias_name, Quantiles(q, ignore_nulls))


class AsList(_Measured):
    """All values of a column as a list, in the order of the rows."""

    def __init__(self, on: str, alias_name: str | None = None, ignore_nulls: bool = False) -> None:
        super().__init__("list", on, ignore_nulls, alias_name, Collected(ignore_nulls))


class Unique(_Measured):
    """The distinct values of a column as a list, in order of first appearance.

    `encode_lists` chooses how a column of lists is treated: True or FLATTEN for the distinct values inside the
    lists, HASH for hashes of the distinct lists, None for the distinct lists themselves.
    """

    class ListEncodingMode(str, enum.Enum):
        """How `Unique` treats columns of lists."""

        FLATTEN = "FLATTEN"
        HASH = "HASH"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = False,
        alias_name: str | None = None,
        encode_lists: bool | ListEncodingMode | None = None,
    ) -> None:
        mode = encode_lists
        if isinstance(mode, bool):
            mode = Unique.ListEncodingMode.FLATTEN if mode else None
        measure = ListValues(None if mode is None else mode.value, Distinct(ignore_nulls))
        super().__init__("unique", on, ignore_nulls, alias_name, measure)


class CountDistinct(_Measured):
    """The number of distinct values of a column."""

    ListEncodingMode = Unique.ListEncodingMode

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__("count_distinct", on, ignore_nulls, alias_name, DistinctCount(ignore_nulls))


class MissingValuePercentage(_Measured):
    """The percentage of rows in which a column is null or NaN."""

    def __init__(self, on: str, alias_name: str | None = None) -> None:
        super().__init__("missing_pct", on, False, alias_name, Share("missing"))


class ZeroPercentage(_Measured):
    """The percentage of values of a column that are zero; of all rows if nulls are not ignored."""

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__("zero_pct", on, ignore_nulls, alias_name, Share("zero", ignore_nulls))


class ValueCounter(AggregateFnV2):
    """How often each value of a column occurs: {"values": [...], "counts": [...]}, in order of first appearance."""

    def __init__(self, on: str, alias_name: str | None = None) -> None:
        super().__init__(alias_name or f"value_counter({on})", _nothing, on=on, ignore_nulls=True)

    def aggregate_block(self, block: Any) -> Any:
        return Frequencies.of(block.column(self.on))

    def combine(self, current_accumulator: Any, new_accumulator: Any) -> Any:
        return current_accumulator.with_others(new_accumulator)

    def finalize(self, accumulator: Any) -> Any:
        pairs = accumulator.pairs()
        return {"values": [value for value, _ in pairs], "counts": [count for _, count in pairs]}


class ApproximateTopK(AggregateFnV2):
    """The `k` most frequent values with their counts, as [{column: value, "count": number}, ...]; nulls are ignored.

    Keeps up to c = 0.75 * 2 ** `log_capacity` values (after Misra and Gries). Counts are exact for at most c
    distinct values; with more, each is too low by at most 1/c of the rows.
    """

    def __init__(
        self,
        on: str,
        k: int,
        log_capacity: int = 15,
        alias_name: str | None = None,
        encode_lists: bool = False,
    ) -> None:
        self.k = k
        self._capacity = max(1, 3 * (1 << log_capacity) // 4)
        self._encode_lists = encode_lists
        super().__init__(alias_name or f"approx_topk({on})", _nothing, on=on, ignore_nulls=True)

    def aggregate_block(self, block: Any) -> Any:
        column = block.column(self.on)
        if self._encode_lists and pa.types.is_list(column.type):
            column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
        return Frequencies.of(column.drop_null()).cut(self._capacity)

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return current_accumulator.with_others(new).cut(self._capacity)

    def finalize(self, accumulator: Any) -> Any:
        pairs = sorted(accumulator.pairs(), key=lambda pair: -pair[1])[: self.k]
        return [{self.on: value, "count": count} for value, count in pairs]


class ApproximateQuantile(AggregateFnV2):
    """Approximate `quantiles` of a column, as a list; nulls are ignored.

    Keeps a few thousand values (`quantile_precision` times 8), each representing equally many others. The
    quantiles are off by less than one percent, however many rows there are.
    """

    def __init__(
        self,
        on: str,
        quantiles: list[float],
        quantile_precision: int = 800,
        alias_name: str | None = None,
    ) -> None:
        for q in quantiles:
            if not 0 <= q <= 1:
                raise ValueError(f"quantiles must be between 0 and 1, got {q}")
        self._quantiles = list(quantiles)
        self._kept = 8 * quantile_precision
        super().__init__(alias_name or f"approx_quantile({on})", _nothing, on=on, ignore_nulls=True)

    def aggregate_block(self, block: Any) -> Any:
        numbers = block.column(self.on).cast(pa.float64(), safe=False).drop_null().to_numpy()
        return Ranks.of(numbers).cut(self._kept) if len(numbers) else None

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return current_accumulator.with_others(new).cut(self._kept)

    def finalize(self, accumulator: Any) -> Any:
        return accumulator.at(self._quantiles)
