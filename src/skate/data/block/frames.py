"""Blocks as pandas DataFrames.

Columns get numpy types where that is lossless. Integers and booleans with nulls, lists, structs, bytes and
similar types stay Arrow's (`pandas.ArrowDtype`); arrays and Python objects become objects.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from skate.data.block import columns, objects, tensors


class BatchFrame(pd.DataFrame):  # type: ignore[misc]
    """The DataFrame that a batch function receives. A column may be set to an array with more dimensions, one
    value per row."""

    @property
    def _constructor(self) -> type[BatchFrame]:
        return BatchFrame

    def __setitem__(self, key: Any, value: Any) -> None:
        several = getattr(value, "ndim", 1) > 1 and not isinstance(value, pd.DataFrame)
        if several and isinstance(key, str) and len(value) == len(self):
            rows = columns.object_array(list(columns.as_ndarray(value)))
            value = pd.Series(rows, index=self.index, dtype=object)
        super().__setitem__(key, value)


BatchFrame.__name__ = "DataFrame"  # functions that check the name of a batch's type expect this one


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Convert a block into a DataFrame."""
    special = {
        name: kind
        for name, kind in zip(table.column_names, table.schema.types, strict=True)
        if isinstance(kind, pa.BaseExtensionType) or _loses(table.column(name))
    }
    if not special:
        return table.to_pandas(types_mapper=_mapped)
    plain = table.drop_columns(list(special)).to_pandas(types_mapper=_mapped)
    made: dict[str, Any] = {}
    for name in table.column_names:
        kind = special.get(name)
        if kind is None:
            made[name] = plain[name]
        elif tensors.is_tensor(kind) or objects.is_object(kind):
            made[name] = pd.Series(columns.object_array(columns.to_values(table.column(name))), dtype=object)
        elif isinstance(kind, pa.BaseExtensionType):
            made[name] = table.column(name).to_pandas()
        else:
            made[name] = pd.Series(pd.arrays.ArrowExtensionArray(table.column(name)))
    return pd.DataFrame(made, columns=table.column_names)


def _loses(column: pa.ChunkedArray) -> bool:
    """True if the column's numpy type would change its values."""
    kind = column.type
    return bool(column.null_count) and (pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _mapped(kind: pa.DataType) -> Any:
    types = pa.types
    if (
        types.is_nested(kind)
        or types.is_decimal(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    ):
        return pd.ArrowDtype(kind)
    return None


def from_frame(frame: pd.DataFrame) -> pa.Table:
    """Convert a DataFrame into a block, without its index. Raises ValueError for column names that are not strings
    or occur twice.
    """
    wrong = [name for name in frame.columns if not isinstance(name, str)]
    if wrong:
        raise ValueError(
            f"column names must be strings, but this DataFrame has {wrong[0]!r} ({type(wrong[0]).__name__}); "
            f"set frame.columns = frame.columns.astype(str)"
        )
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise ValueError(f"the DataFrame has more than one column {twice[0]!r}; rename or drop one of them")
    return pa.table({name: columns.from_series(frame[name]) for name in frame.columns})
