"""Columns that rows are grouped, sorted or joined by: found by name, and of types that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block import objects, tensors
from skate.data.steps.columns import known


def key_columns(table: pa.Table, keys: Sequence[str]) -> list[pa.ChunkedArray]:
    """Return the key columns of a block. Raises ValueError for unknown names, TypeError for types that cannot
    be keys."""
    return [comparable(table.column(known(table, key)), key) for key in keys]


def comparable(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Convert a key column to a form that Arrow can compare. Raises TypeError naming the column if its values
    have no order or equality there."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    check_type(kind, name)
    if pa.types.is_floating(kind) and not pa.types.is_float16(kind):
        return pc.add(column, pa.scalar(0, kind))  # -0.0 becomes 0.0, which it is equal to
    return column


def check_type(kind: pa.DataType, name: str) -> None:
    """Raise TypeError if values of a type cannot be keys."""
    nested = pa.types.is_nested(kind)
    if nested or tensors.is_tensor(kind) or objects.is_object(kind):
        raise TypeError(
            f"column {name!r} holds values of type {kind}, which do not work as keys of sorts, groups "
            "or joins; convert them to numbers, strings or times first"
        )


def as_names(keys: str | Sequence[str] | None, what: str) -> tuple[str, ...]:
    """Return one name or several as a tuple. Raises ValueError for values that are not names, and for duplicates."""
    if keys is None:
        return ()
    if what != "key" and not keys:
        raise ValueError(f"At least 1 column to aggregate on has to be provided, but {what} is {keys!r}")
    names = (keys,) if isinstance(keys, str) else tuple(keys) if isinstance(keys, Iterable) else ()
    if keys and not names or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"Key must be a string or a list of strings, but got {keys!r}; {what} must be the name of "
            "a column, or a list of names"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"{what} names a column twice: {list(names)}")
    return names
