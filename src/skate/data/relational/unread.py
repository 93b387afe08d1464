"""Columns that nothing uses: they stay in the schema of a frame, though they are not read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from skate.data.relational import decimals
from skate.data.relational.kinds import polars_type
from skate.data.relational.refusals import StageRefused


def with_unread(polars: Any, lazy: Any, kept: list[str], schema: pa.Schema) -> Any:
    """Return a frame of some columns with all of a schema; the others raise if they are used after all.

    Polars drops columns that nothing uses before it runs a frame.
    """
    left_out = [field for field in schema if field.name not in kept]
    if not left_out:
        return lazy
    source = polars.col(kept[0])
    unread = [
        source.map_batches(_raise, return_dtype=_held_type(polars, field.type)).alias(field.name)
        for field in left_out
    ]
    return lazy.with_columns(unread).select(schema.names)


def _held_type(polars: Any, kind: pa.DataType) -> Any:
    """Return the type of a column inside of a stage."""
    if pa.types.is_decimal(kind):
        return decimals.units_type(polars, decimals.largest_of(kind))
    return polars_type(polars, kind)


def _raise(*_: Any, **__: Any) -> Any:
    raise StageRefused("a column is used that was not read")
