"""Aggregations as expressions of Polars, wherever both compute the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from skate.data.exchange.aggregate import AggregateKernel
from skate.data.exchange.lists import Distinct, DistinctCount, ListValues
from skate.data.exchange.measures import Counted, Measure, Moments, Plain
from skate.data.relational.kinds import demand
from skate.data.relational.refusals import Unproven

#: The schemas of results, by everything they depend on.
_schemas: dict[Any, pa.Schema] = {}
_SCHEMAS_MAX = 256


def result_schema(kernel: AggregateKernel, schema: pa.Schema) -> pa.Schema:
    """Return the schema of the ordinary way's result, for aggregations that `aggregate` translates."""
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


def aggregate(polars: Any, aggregation: Any, schema: pa.Schema, grouped: bool) -> Any:
    """Translate an aggregation, of groups or of all rows. Raises Unproven for those that may differ."""
    measure = aggregation.measure()
    if aggregation.on is None:
        if type(measure) is Counted and measure.mode == "all":
            return polars.len()
        raise Unproven(aggregation.name)
    if aggregation.on not in schema.names:
        raise Unproven(f"there is no column {aggregation.on!r}")
    kind = demand(schema.field(aggregation.on).type)
    column = polars.col(aggregation.on)
    if type(measure) is Counted:
        return {"all": polars.len(), "only_valid": column.count(), "only_null": column.null_count()}[
            measure.mode
        ]
    if type(measure) is Plain:
        return _plain(polars, measure, column, kind)
    if type(measure) is Moments:
        return _moments(polars, measure, column, kind)
    return _distinct(polars, measure, column, grouped)


def _distinct(polars: Any, measure: Any, column: Any, grouped: bool) -> Any:
    if type(measure) is ListValues:  # other values than lists are taken as they are
        measure = measure.then
    values = column.drop_nulls() if measure.ignore_nulls else column
    if type(measure) is DistinctCount:
        return values.n_unique().cast(polars.Int64)
    if type(measure) is Distinct and not grouped:  # groups lose the order of their rows
        return values.unique(maintain_order=True).implode()
    raise Unproven(f"{type(measure).__name__}")


def _plain(polars: Any, measure: Plain, column: Any, kind: pa.DataType) -> Any:
    types = pa.types
    found: Any
    if measure.function == "sum":
        if types.is_signed_integer(kind):
            found = column.cast(polars.Int64).sum()
        elif types.is_unsigned_integer(kind) or types.is_boolean(kind):
            found = column.cast(polars.UInt64).sum()
        elif types.is_floating(kind):
            found = column.cast(polars.Float64).sum()
        else:
            raise Unproven(f"the sum of {kind}")
    elif measure.function in ("min", "max"):
        if types.is_duration(kind) or types.is_decimal(kind):
            raise Unproven(f"the {measure.function} of {kind}")
        found = getattr(column, measure.function)()
    else:
        raise Unproven(measure.function)
    return _where_known(polars, measure.ignore_nulls, column, found)


def _moments(polars: Any, measure: Moments, column: Any, kind: pa.DataType) -> Any:
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise Unproven(f"the mean of {kind}")
    numbers = column.cast(polars.Float64)
    if measure.ddof is None:
        found = numbers.sum() / column.count()
    else:
        few = column.count() <= measure.ddof
        apart = numbers - numbers.mean()  # Polars loses digits of large numbers
        found = polars.when(few).then(float("nan")).otherwise(apart.std(ddof=measure.ddof))
    return _where_known(polars, measure.ignore_nulls, column, found)


def _where_known(polars: Any, ignore_nulls: bool, column: Any, found: Any) -> Any:
    """Return null for groups without values, or for those with a null if nulls are not ignored."""
    known = column.count() > 0
    return polars.when(known if ignore_nulls else known & (column.null_count() == 0)).then(found)
