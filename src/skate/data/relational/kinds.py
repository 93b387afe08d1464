"""The types whose values Arrow and Polars compare, order and compute with alike."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa

from skate.data.relational.refusals import Unproven

_ANY = "any"


def supported(kind: pa.DataType) -> bool:
    """True if values of a type pass through Polars unchanged, and are equal and ordered there as in Arrow."""
    types = pa.types
    if types.is_decimal128(kind):
        return bool(0 <= kind.scale <= kind.precision)
    return bool(
        types.is_integer(kind)
        or kind in (pa.float32(), pa.float64())
        or types.is_boolean(kind)
        or kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
        or types.is_date32(kind)
        or types.is_timestamp(kind)
        or types.is_duration(kind)
    )


def without_seconds(table: pa.Table) -> pa.Table:
    """Return a table with milliseconds for whole seconds, which Polars does not have. Raises ArrowInvalid for those
    that have none.
    """
    for at, field in enumerate(table.schema):
        kind = field.type
        if pa.types.is_timestamp(kind) and kind.unit == "s":
            table = table.set_column(at, field.name, table.column(at).cast(pa.timestamp("ms", kind.tz)))
        elif pa.types.is_duration(kind) and kind.unit == "s":
            table = table.set_column(at, field.name, table.column(at).cast(pa.duration("ms")))
    return table


def demand(kind: pa.DataType) -> pa.DataType:
    """Return a type. Raises Unproven unless it is supported."""
    if not supported(kind):
        raise Unproven(f"values of type {kind}")
    return kind


def polars_types(polars: Any, schema: pa.Schema) -> dict[str, Any]:
    """Return the types of Polars for supported columns of a schema."""
    return {field.name: polars_type(polars, field.type) for field in schema if supported(field.type)}


@functools.cache
def polars_type(polars: Any, kind: pa.DataType) -> Any:
    """Return the type of Polars for a supported type."""
    table = pa.schema([pa.field(_ANY, demand(kind))]).empty_table()
    return polars.from_arrow(table).schema[_ANY]


def is_text(kind: pa.DataType) -> bool:
    """True for text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
