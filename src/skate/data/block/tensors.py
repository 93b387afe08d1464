"""Columns of arrays.

Arrays of one shape and a plain number type are stored as Arrow's own `fixed_shape_tensor` and read without a
copy. Arrays of different shapes use a type of our own: the numbers of all rows in one buffer, and a shape per
row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

#: The kinds of numpy dtypes that Arrow's own tensor type can hold.
_NUMBERS = "biuf"


class RaggedTensorType(pa.ExtensionType):  # type: ignore[misc]
    """The type of a column of arrays with one number type, each with its own shape."""

    def __init__(self, value_type: pa.DataType) -> None:
        self.value_type = value_type
        storage = pa.struct([("data", pa.large_list(value_type)), ("shape", pa.list_(pa.int64()))])
        super().__init__(storage, "skate.ragged_tensor")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> RaggedTensorType:
        return cls(storage_type.field("data").type.value_type)

    def __arrow_ext_scalar_class__(self) -> type:
        return RaggedTensorScalar

    def __reduce__(self) -> Any:
        return RaggedTensorType, (self.value_type,)

    def __str__(self) -> str:
        return f"ragged tensor<{self.value_type}>"


class RaggedTensorScalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One array of a ragged column."""

    def as_py(self, **options: Any) -> Any:
        """The array of the row, or None."""
        if self.value is None:
            return None
        return _one(self.value["data"].values, self.value["shape"].as_py(), self.type.value_type)


def is_tensor(kind: pa.DataType) -> bool:
    """True if the column's values are arrays."""
    return isinstance(kind, (pa.FixedShapeTensorType, RaggedTensorType))


def shape_of(kind: pa.DataType) -> tuple[int, ...] | None:
    """The shape of each row's array, or None if shapes differ or the column does not hold arrays."""
    return tuple(kind.shape) if isinstance(kind, pa.FixedShapeTensorType) else None


def type_name(kind: pa.DataType) -> str:
    """Name a type as schemas print it: columns of arrays of one shape by their shape."""
    if isinstance(kind, pa.FixedShapeTensorType):
        return f"ArrowTensorTypeV2(shape={tuple(kind.shape)}, dtype={kind.value_type})"
    return str(kind)


def from_ndarray(values: np.ndarray) -> pa.Array:
    """A column with one array a row from an array with one more dimension. Raises TypeError for types that
    Arrow lacks."""
    kind = _arrow_type(values.dtype)
    shape = values.shape[1:]
    if kind is None:
        raise TypeError(f"arrays of {values.dtype} cannot be stored in a column")
    if values.dtype.kind not in _NUMBERS:
        return ragged(list(values), kind)
    if 0 in shape or not len(values):  # Arrow's own type cannot record the number of rows of empty arrays
        if not len(values) and 0 not in shape:
            storage = pa.array([], pa.list_(kind, int(np.prod(shape))))
            return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(kind, shape), storage)
        return ragged(list(values), kind)
    flat = np.ascontiguousarray(values).reshape(-1)
    storage = pa.FixedSizeListArray.from_arrays(pa.array(flat, kind), int(np.prod(shape)))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(kind, shape), storage)


def from_arrays(values: Sequence[Any]) -> pa.Array:
    """Build a column from one array (or None) per row. Raises TypeError if they have no common number type."""
    arrays = [None if value is None else np.asarray(value) for value in values]
    present = [each for each in arrays if each is not None]
    dtypes = {each.dtype for each in present}
    if len({each.kind in _NUMBERS for each in dtypes}) > 1:
        raise TypeError(f"arrays of {', '.join(map(str, dtypes))} cannot be stored in one column")
    dtype = np.result_type(*dtypes) if present else np.dtype("float64")
    kind = _arrow_type(dtype)
    if kind is None:
        raise TypeError(f"arrays of {dtype} cannot be stored in a column")
    shapes = {each.shape for each in present}
    plain = dtype.kind in _NUMBERS and len(shapes) == 1 and len(present) == len(arrays)
    if plain and 0 not in next(iter(shapes)):
        return from_ndarray(np.stack(present).astype(dtype, copy=False))
    return ragged([None if each is None else each.astype(dtype, copy=False) for each in arrays], kind)


def ragged(arrays: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Build a column of arrays of any shapes, of one number type."""
    flat = [None if each is None else each.reshape(-1) for each in arrays]
    if pa.types.is_string(kind):
        flat = [None if each is None else each.tolist() for each in flat]
    data = pa.array(flat, pa.large_list(kind))
    shape = pa.array([None if each is None else list(each.shape) for each in arrays], pa.list_(pa.int64()))
    mask = pa.array([each is None for each in arrays], pa.bool_())
    storage = pa.StructArray.from_arrays([data, shape], ["data", "shape"], mask=mask)
    return pa.ExtensionArray.from_storage(RaggedTensorType(kind), storage)


def to_ndarray(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Return all rows as one array, without a copy if possible; an array of objects if the shapes differ or
    rows are null."""
    kind = column.type
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    chunks = [chunk for chunk in chunks if len(chunk)]
    if isinstance(kind, pa.FixedShapeTensorType) and not column.null_count:
        if not chunks:
            return np.empty((0, *kind.shape), kind.value_type.to_pandas_dtype())
        parts = [_dense(chunk, kind) for chunk in chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    rows = to_arrays(column)
    if rows and all(row is not None and row.shape == rows[0].shape for row in rows):
        # Arrays of one shape that Arrow's own type still cannot hold: of text, of times, empty ones.
        if 0 in rows[0].shape or rows[0].dtype.kind not in _NUMBERS:
            return np.stack(rows)
    out = np.empty(len(rows), dtype=object)
    for at, value in enumerate(rows):
        out[at] = value
    return out


def to_arrays(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return one array (or None) per row."""
    kind = column.type
    found: list[Any] = []
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if isinstance(kind, pa.FixedShapeTensorType):
            valid = chunk.is_valid().to_pylist() if chunk.null_count else None
            filled = _dense(chunk, kind)
            found += (
                list(filled)
                if valid is None
                else [row if ok else None for row, ok in zip(filled, valid, strict=True)]
            )
        else:
            data = chunk.storage.field("data")
            shapes = chunk.storage.field("shape").to_pylist()
            valid = chunk.is_valid().to_pylist()
            for at, (shape, ok) in enumerate(zip(shapes, valid, strict=True)):
                found.append(_one(data[at].values, shape, kind.value_type) if ok else None)
    return found


def _dense(chunk: pa.Array, kind: pa.FixedShapeTensorType) -> np.ndarray:
    """Return the numbers of a chunk in their shape; the content of null rows is undefined."""
    width = int(np.prod(kind.shape))
    storage = chunk.storage
    flat = storage.values.slice(storage.offset * width, len(chunk) * width)
    numbers: np.ndarray = flat.to_numpy(zero_copy_only=False)
    return numbers.reshape(len(chunk), *kind.shape)


def _one(values: pa.Array, shape: list[int], kind: pa.DataType) -> np.ndarray:
    if pa.types.is_string(kind):
        return np.array([] if values is None else values.to_pylist(), dtype=str).reshape(shape)
    if values is None:
        return np.empty(shape, kind.to_pandas_dtype())
    numbers: np.ndarray = values.to_numpy(zero_copy_only=False)
    return numbers.reshape(shape)


def _arrow_type(dtype: np.dtype) -> pa.DataType | None:
    if dtype.kind == "U":
        return pa.string()
    if dtype.kind not in _NUMBERS + "mM":
        return None
    try:
        return pa.from_numpy_dtype(dtype)
    except pa.ArrowNotImplementedError:  # float128 and the like
        return None


def register() -> None:
    """Register the type with Arrow, once per process."""
    try:
        pa.register_extension_type(RaggedTensorType(pa.float64()))
    except pa.ArrowKeyError:  # it was registered before this module was reloaded
        return


register()
