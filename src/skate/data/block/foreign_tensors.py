"""Columns of arrays of Ray's own Arrow types (`skate.data.extensions`), turned into those of `tensors`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skate.data.block import tensors


def without_foreign(table: pa.Table) -> pa.Table:
    """The table with columns of Ray's own types of arrays turned into Skate's."""
    for at, field in enumerate(table.schema):
        if isinstance(field.type, pa.ExtensionType) and field.type.extension_name.startswith(
            "ray.data.arrow_"
        ):
            table = table.set_column(at, field.name, _native(table.column(at)))
    return table


def _native(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    from skate.data.extensions import arrow_types  # few have such columns

    rows = [row for chunk in column.chunks for row in chunk.to_pylist()]
    if isinstance(column.type, arrow_types.ArrowVariableShapedTensorType):
        return tensors.from_arrays(rows)
    if not isinstance(
        column.type, arrow_types.FixedTensorType
    ):  # Python objects, or a type of real Ray's in this process
        return column
    whole = bool(rows) and all(row is not None for row in rows)
    return tensors.from_ndarray(np.stack(rows)) if whole else tensors.from_arrays(rows)
