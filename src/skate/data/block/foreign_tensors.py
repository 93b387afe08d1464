"""Conversion of Ray's own Arrow types for arrays (`skate.data.extensions`) to the types of `tensors`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skate.data.block import tensors

FIXED = frozenset({"ray.data.arrow_tensor", "ray.data.arrow_tensor_v2"})
RAGGED = "ray.data.arrow_variable_shaped_tensor"


def without_foreign(table: pa.Table) -> pa.Table:
    """Convert columns with Ray's own array types to Skate's."""
    for at, field in enumerate(table.schema):
        if isinstance(field.type, pa.ExtensionType):
            name = field.type.extension_name
            if name in FIXED or name == RAGGED:
                table = table.set_column(at, field.name, _native(table.column(at), name in FIXED))
    return table


def _native(column: pa.ChunkedArray, fixed: bool) -> pa.Array:
    rows = [row for chunk in column.chunks for row in chunk.to_pylist()]
    if fixed and rows and all(row is not None for row in rows):
        return tensors.from_ndarray(np.stack(rows))
    return tensors.from_arrays(rows)
