"""Aggregations as expressions of Polars, wherever both compute the same."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from skate.data.exchange.aggregate import AggregateKernel
from skate.data.exchange.lists import Distinct, DistinctCount, ListValues
from skate.data.exchange.measures import Counted, Measure, Moments, Plain
from skate.data.relational import decimals
from skate.data.relational.kinds import demand, is_text
from skate.data.relational.refusals import Unproven

#: The schemas of results, by everything they depend on.
_schemas: dict[Any, pa.Schema] = {}
_SCHEMAS_MAX = 256
#: As many rows as there are never.
_ROWS = 10**18


def result_schema(kernel: AggregateKernel, schema: pa.Schema) -> pa.Schema:
    """Return the schema of the ordinary way's result, for aggregations that `Aggregates` translates."""
    measures = [(each.name, each.on, each.measure()) for each in kernel.aggregations]
    facts = [(name, on, _facts(made)) for name, on, made in measures]
    key = (kernel.keys, tuple(facts), schema)
    found = _schemas.get(key)
    if found is None:
        # The ordinary way over no rows shows the types of its results.
        states = kernel.states(schema.empty_table())
        found = next(iter(kernel.merge([[states]], 0, None))).schema
        if len(_schemas) >= _SCHEMAS_MAX:
            _schemas.clear()
        _schemas[key] = found
    return found


def _facts(measure: Any) -> tuple[Any, ...]:
    """Return all that distinguishes a measure from others."""
    values = sorted(vars(measure).items())
    return type(measure), *(
        (name, _facts(value) if isinstance(value, Measure) else value) for name, value in values
    )


class Aggregates:
    """Translates aggregations of one frame, of groups or of all rows.

    Polars aggregates few simple expressions, each once; the results are computed from those, a row per group.

    Args:
        largest: the largest absolute values of some decimals, in units of their last digit.
        rows: how many rows the frame has at most; None if that is unknown.
    """

    def __init__(
        self, polars: Any, schema: pa.Schema, grouped: bool, largest: Mapping[str, int], rows: int | None
    ) -> None:
        self.polars = polars
        self.schema = schema
        self.grouped = grouped
        self._largest = largest
        self._rows = _ROWS if rows is None else rows
        self._made: dict[tuple[Any, ...], Any] = {}
        #: The largest absolute values of results that are decimals, by name.
        self.largest: dict[str, int] = {}

    @property
    def made(self) -> list[Any]:
        """The expressions to aggregate, which the results of `result` refer to."""
        return list(self._made.values())

    def _aggregated(self, expression: Any, *facts: Any) -> Any:
        """Return the column of an aggregated expression, which the facts determine."""
        name = f"a{list(self._made).index(facts) if facts in self._made else len(self._made)}"
        self._made.setdefault(facts, expression.alias(name))
        return self.polars.col(name)

    def result(self, aggregation: Any) -> Any:
        """Translate an aggregation. Raises Unproven for those that may differ."""
        measure = aggregation.measure()
        if aggregation.on is None:
            if type(measure) is Counted and measure.mode == "all":
                return self._aggregated(self.polars.len(), "len")
            raise Unproven(aggregation.name)
        if aggregation.on not in self.schema.names:
            raise Unproven(f"there is no column {aggregation.on!r}")
        kind, types = demand(self.schema.field(aggregation.on).type), pa.types
        if type(measure) is Counted:
            return self._counted(aggregation.on, measure.mode)
        if type(measure) is Plain:
            if types.is_decimal(kind):
                self.largest[aggregation.name] = self._largest_result(aggregation.on, measure, kind)
            return self._plain(aggregation.on, measure, kind)
        if type(measure) is Moments:
            return self._moments(aggregation.on, measure, kind)
        return self._distinct(aggregation.on, measure)

    def _counted(self, on: str, mode: str) -> Any:
        if mode == "all":
            return self._aggregated(self.polars.len(), "len")
        column = self.polars.col(on)
        counted = column.count() if mode == "only_valid" else column.null_count()
        return self._aggregated(counted, mode, on)

    def _plain(self, on: str, measure: Plain, kind: pa.DataType) -> Any:
        polars, types, function = self.polars, pa.types, measure.function
        column = polars.col(on)
        found: Any
        if function == "sum":
            if types.is_signed_integer(kind):
                found = column.cast(polars.Int64).sum()
            elif types.is_unsigned_integer(kind) or types.is_boolean(kind):
                found = column.cast(polars.UInt64).sum()
            elif types.is_floating(kind):
                return self._where_known(on, measure.ignore_nulls, self._sum_of_floats(on))
            elif types.is_decimal(kind):
                return self._where_known(on, measure.ignore_nulls, self._sum_of_decimals(on, kind))
            else:
                raise Unproven(f"the sum of {kind}")
        elif function in ("min", "max"):
            if types.is_duration(kind):
                raise Unproven(f"the {function} of {kind}")
            found = getattr(column, function)()
        else:
            raise Unproven(function)
        return self._where_known(on, measure.ignore_nulls, self._aggregated(found, function, on))

    def _largest_result(self, on: str, measure: Plain, kind: pa.DataType) -> int:
        largest = min(decimals.largest_of(kind), self._largest.get(on, decimals.largest_of(kind)))
        return largest * self._rows if measure.function == "sum" else largest

    def _sum_of_decimals(self, on: str, kind: pa.DataType) -> Any:
        """Return the sum in units. Raises Unproven if it may have too many digits."""
        largest = self._largest.get(on, decimals.largest_of(kind)) * self._rows
        units = self.polars.col(on).cast(decimals.units_type(self.polars, largest))
        return self._aggregated(units.sum(), "sum", on)

    def _sum_of_floats(self, on: str) -> Any:
        return self._aggregated(self.polars.col(on).cast(self.polars.Float64).sum(), "float sum", on)

    def _moments(self, on: str, measure: Moments, kind: pa.DataType) -> Any:
        types = pa.types
        if not any(
            each(kind) for each in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        ):
            raise Unproven(f"the mean of {kind}")
        count = self._counted(on, "only_valid")
        if measure.ddof is None:
            found = self._sum_for_mean(on, kind) / count
        else:
            numbers = self.polars.col(on).cast(self.polars.Float64)
            if types.is_decimal(kind):
                numbers = numbers / 10.0**kind.scale
            apart = numbers - numbers.mean()  # Polars loses digits of large numbers
            spread = self._aggregated(apart.std(ddof=measure.ddof), "std", on, measure.ddof)
            found = self.polars.when(count <= measure.ddof).then(float("nan")).otherwise(spread)
        return self._where_known(on, measure.ignore_nulls, found)

    def _sum_for_mean(self, on: str, kind: pa.DataType) -> Any:
        if not pa.types.is_decimal(kind):
            return self._sum_of_floats(on)
        with contextlib.suppress(Unproven):
            return self._sum_of_decimals(on, kind).cast(self.polars.Float64) / 10.0**kind.scale
        return self._sum_of_floats(on) / 10.0**kind.scale

    def _where_known(self, on: str, ignore_nulls: bool, found: Any) -> Any:
        """Return null for groups without values, or for those with a null if nulls are not ignored."""
        known = self._counted(on, "only_valid") > 0
        if not ignore_nulls:
            known = known & (self._counted(on, "only_null") == 0)
        return self.polars.when(known).then(found)

    def distinct_texts(self, aggregations: Sequence[Any], lazy: Any) -> Any | None:
        """Return a frame of the list of all distinct texts, if nothing else is asked for; otherwise None.

        Polars looks for the first row of each in several threads; for all else it has only one.
        """
        if len(aggregations) != 1:
            return None
        (only,) = aggregations
        measure = only.measure()
        measure = measure.then if type(measure) is ListValues else measure
        if type(measure) is not Distinct or not is_text(self.schema.field(only.on).type):
            return None
        column = self.polars.col(only.on)
        rows = lazy.select(only.on)
        if measure.ignore_nulls:
            rows = rows.filter(column.is_not_null())
        row = "row" if only.on != "row" else "r"
        first = rows.with_row_index(row).group_by(only.on).agg(self.polars.col(row).min()).sort(row)
        return first.select(column.implode().alias(only.name))

    def _distinct(self, on: str, measure: Any) -> Any:
        if type(measure) is ListValues:  # other values than lists are taken as they are
            measure = measure.then
        column = self.polars.col(on)
        values = column.drop_nulls() if measure.ignore_nulls else column
        if type(measure) is DistinctCount:
            counted = values.n_unique().cast(self.polars.Int64)
            return self._aggregated(counted, "distinct count", on, measure.ignore_nulls)
        if type(measure) is Distinct and not self.grouped:  # groups lose the order of their rows
            listed = values.unique(maintain_order=True).implode()
            return self._aggregated(listed, "distinct", on, measure.ignore_nulls)
        raise Unproven(type(measure).__name__)
