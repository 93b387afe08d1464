"""Conversions of rows of Parquet files: arrays from bytes, arrays in Ray's format, requested types, a hash for each row."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import columns, tensors

_RAY_TENSORS = (b"ray.data.arrow_tensor", b"ray.data.arrow_tensor_v2")
_RAY_RAGGED = b"ray.data.arrow_variable_shaped_tensor"


def with_raw_tensors(table: pa.Table, kinds: dict[str, tuple[Any, tuple[int, ...]]]) -> pa.Table:
    """Convert the named binary columns, which hold raw arrays, to arrays."""
    for name, (dtype, shape) in kinds.items():
        at = table.schema.get_field_index(name)
        if at < 0:
            continue
        values = table.column(at).to_pylist()
        arrays = [None if value is None else np.frombuffer(value, dtype).reshape(shape) for value in values]
        table = table.set_column(at, name, columns.from_values(arrays))
    return table


def with_ray_tensors(table: pa.Table) -> pa.Table:
    """Restore columns of arrays written by Ray, which Arrow reads as the lists in which they are stored."""
    for at, field in enumerate(table.schema):
        kind = (field.metadata or {}).get(b"ARROW:extension:name")
        if kind is None or isinstance(field.type, pa.BaseExtensionType):
            continue
        if kind in _RAY_TENSORS:
            declared = json.loads(field.metadata[b"ARROW:extension:metadata"])
            shape = declared if isinstance(declared, list) else declared.get("shape")
            values = table.column(at).combine_chunks()
            flat = values.flatten().to_numpy(zero_copy_only=False)
            table = table.set_column(at, field.name, tensors.from_ndarray(flat.reshape(len(values), *shape)))
        elif kind == _RAY_RAGGED:
            rows = table.column(at).to_pylist()
            arrays = [None if row is None else np.array(row["data"]).reshape(row["shape"]) for row in rows]
            table = table.set_column(at, field.name, columns.from_values(arrays))
    return table


def row_hashes(path: str, start: int, rows: int) -> pa.Array:
    """Return a number for each row that depends only on the file's path and the row's position (splitmix64)."""
    data = path.encode()
    seed = zlib.crc32(data) | zlib.crc32(data[::-1]) << 32
    with np.errstate(over="ignore"):
        mixed = np.arange(start, start + rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
            seed
        )
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return pa.array(mixed, pa.uint64())


def in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert a table to the columns and types that the user requested."""
    made = {}
    for field in schema:
        if field.name in table.column_names:
            made[field.name] = table.column(field.name).cast(field.type)
        else:
            made[field.name] = pa.nulls(table.num_rows, field.type)
    return pa.table(made, schema=schema)
