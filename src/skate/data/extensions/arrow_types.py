"""Arrow types for columns of arrays, named and stored as in Ray, so that files written by Ray can be read.

Skate's own columns are Arrow's `fixed_shape_tensor` and a ragged type; columns of the types here are
converted to those (`block/foreign_tensors.py`).
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

FixedShapeTensorType = pa.FixedShapeTensorType
FixedShapeTensorArray = pa.FixedShapeTensorArray


class ArrowConversionError(Exception):
    """Values that Arrow has no type for.

    Args:
        data_str: the values as text; the message includes the first 200 characters.
        column_name: their column.
        pa_type: the type to convert them to.
    """

    MAX_DATA_STR_LEN = 200

    def __init__(self, data_str: str, column_name: str | None = None, pa_type: Any = None) -> None:
        if len(data_str) > self.MAX_DATA_STR_LEN:
            data_str = data_str[: self.MAX_DATA_STR_LEN] + "..."
        what = "data" if column_name is None else f"column '{column_name}'"
        kind = "" if pa_type is None else f" (target type: {pa_type})"
        super().__init__(f"Error converting {what}{kind} to Arrow: {data_str}")


def _pandas_dtype() -> Any:
    # pandas takes 300 ms to load, so only code that uses frames should pay for it.
    from skate.data.extensions.tensor_array import TensorDtype

    return TensorDtype


class FixedShapeTensorFormat(enum.Enum):
    """The ways in which arrays of one shape are stored."""

    V1 = "v1"
    V2 = "v2"
    ARROW_NATIVE = "native"

    def to_type(self) -> Any:
        """The Arrow type for this format."""
        return {"v1": ArrowTensorType, "v2": ArrowTensorTypeV2, "native": FixedShapeTensorType}[self.value]


class ArrowTensorScalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One array of a column, as a scalar."""

    def as_py(self, **options: Any) -> Any:
        """The array of the row, or None."""
        if self.value is None:
            return None
        kind = self.type
        if isinstance(kind, ArrowVariableShapedTensorType):
            values, shape = self.value["data"].values, self.value["shape"].as_py()
        else:
            values, shape = self.value.values, kind.shape
        return values.to_numpy(zero_copy_only=False).reshape(shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.as_py(), dtype)

    def __str__(self) -> str:
        return str(self.as_py())


class FixedTensorType(pa.ExtensionType):  # type: ignore[misc]
    """Arrays of one shape, stored as one list of elements per row."""

    _NAME = ""

    def __init__(self, shape: tuple[int, ...], dtype: pa.DataType) -> None:
        self._shape = tuple(shape)
        super().__init__(self._storage(dtype), self._NAME)

    @staticmethod
    def _storage(dtype: pa.DataType) -> pa.DataType:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of each row's array."""
        return self._shape

    @property
    def value_type(self) -> pa.DataType:
        """The type of the elements."""
        return self.storage_type.value_type

    def to_pandas_dtype(self) -> Any:
        """The dtype of the column in pandas."""
        return _pandas_dtype()(self._shape, self.value_type.to_pandas_dtype())

    def __reduce__(self) -> Any:
        return type(self), (self._shape, self.value_type)

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps(self._shape).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        return cls(tuple(json.loads(serialized)), storage_type.value_type)

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and (self._shape, self.value_type) == (
            other._shape,
            other.value_type,
        )

    def __ne__(self, other: Any) -> bool:  # Arrow compares only the storage
        return not self == other

    def __hash__(self) -> int:
        return hash((self.extension_name, self._shape, self.value_type))

    def __arrow_ext_class__(self) -> type:
        return ArrowTensorArray

    def __arrow_ext_scalar_class__(self) -> type:
        return ArrowTensorScalar

    def __str__(self) -> str:
        return f"{type(self).__name__}(shape={self._shape}, dtype={self.value_type})"

    __repr__ = __str__


class ArrowTensorType(FixedTensorType):
    """Arrays of one shape with 32-bit offsets."""

    OFFSET_DTYPE = pa.int32()
    _NAME = "ray.data.arrow_tensor"

    @staticmethod
    def _storage(dtype: pa.DataType) -> pa.DataType:
        return pa.list_(dtype)


class ArrowTensorTypeV2(FixedTensorType):
    """Arrays of one shape with 64-bit offsets."""

    OFFSET_DTYPE = pa.int64()
    _NAME = "ray.data.arrow_tensor_v2"

    @staticmethod
    def _storage(dtype: pa.DataType) -> pa.DataType:
        return pa.large_list(dtype)


class ArrowVariableShapedTensorType(pa.ExtensionType):  # type: ignore[misc]
    """Arrays with the same number of dimensions, each with its own shape."""

    OFFSET_DTYPE = pa.int64()

    def __init__(self, dtype: pa.DataType, ndim: int) -> None:
        self._ndim = ndim
        storage = pa.struct([("data", pa.large_list(dtype)), ("shape", pa.list_(pa.int64()))])
        super().__init__(storage, "ray.data.arrow_variable_shaped_tensor")

    @property
    def ndim(self) -> int:
        """The number of dimensions of each value."""
        return self._ndim

    @property
    def shape(self) -> tuple[None, ...]:
        """A tuple with None for each dimension."""
        return (None,) * self._ndim

    @property
    def value_type(self) -> pa.DataType:
        """The type of the elements."""
        return self.storage_type.field("data").type.value_type

    def to_pandas_dtype(self) -> Any:
        """The dtype of the column in pandas."""
        return _pandas_dtype()(self.shape, self.value_type.to_pandas_dtype())

    def __reduce__(self) -> Any:
        return type(self), (self.value_type, self._ndim)

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps(self._ndim).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        return cls(storage_type.field("data").type.value_type, json.loads(serialized))

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and (self._ndim, self.value_type) == (other._ndim, other.value_type)

    def __ne__(self, other: Any) -> bool:  # Arrow compares only the storage
        return not self == other

    def __hash__(self) -> int:
        return hash((self.extension_name, self._ndim, self.value_type))

    def __arrow_ext_class__(self) -> type:
        return ArrowVariableShapedTensorArray

    def __arrow_ext_scalar_class__(self) -> type:
        return ArrowTensorScalar

    def __str__(self) -> str:
        return f"ArrowVariableShapedTensorType(ndim={self._ndim}, dtype={self.value_type})"

    __repr__ = __str__


class ArrowTensorArray(pa.ExtensionArray):  # type: ignore[misc]
    """A column of arrays of one shape."""

    @classmethod
    def from_numpy(cls, arr: Any, *, column_name: str | None = None) -> Any:
        """Build a column from an array with rows first, or from one array per row (also of different shapes).

        Raises ValueError for values that are not arrays, ArrowConversionError for elements without an Arrow type.
        """
        arr = _rows(arr)
        if arr.dtype == object:
            return ArrowVariableShapedTensorArray.from_numpy(arr)
        if arr.ndim == 1:
            return pa.array(arr)
        flat = pa.array(np.ascontiguousarray(arr).reshape(-1))
        width = int(np.prod(arr.shape[1:]))
        offsets = pa.array(np.arange(len(arr) + 1, dtype=np.int64) * width)
        storage = pa.LargeListArray.from_arrays(offsets, flat)
        return pa.ExtensionArray.from_storage(ArrowTensorTypeV2(arr.shape[1:], flat.type), storage)

    def to_numpy(self, zero_copy_only: bool = True) -> np.ndarray:
        """Return all rows as one array."""
        return np.stack(self.to_pylist()) if len(self) else np.empty((0, *self.type.shape))

    to_numpy_ndarray = to_numpy

    def to_var_shaped_tensor_array(self, ndim: int) -> Any:
        """Convert to a column whose rows may differ in shape, with at least `ndim` dimensions."""
        rows = [row.reshape((1,) * (ndim - row.ndim) + row.shape) for row in self.to_pylist()]
        return ArrowVariableShapedTensorArray.from_numpy(rows)


class ArrowVariableShapedTensorArray(pa.ExtensionArray):  # type: ignore[misc]
    """A column of arrays of several shapes."""

    SHAPES_ARRAY_TYPE = pa.list_(pa.int64())

    @classmethod
    def from_numpy(cls, arr: Any) -> Any:
        """Build a column from one array per row. Raises ValueError if they are not arrays or have different
        numbers of dimensions.
        """
        if not isinstance(arr, (list, tuple, np.ndarray)):
            raise ValueError(
                "ArrowVariableShapedTensorArray can only be constructed from an ndarray or a list/tuple of ndarrays, got "
                f"{type(arr)}"
            )
        if not len(arr):
            raise ValueError("Creating empty ragged tensor arrays is not supported.")
        if any(row is None for row in arr):
            raise ArrowConversionError(str(arr))
        rows = [np.asarray(row) for row in arr]
        ndims = {row.ndim for row in rows}
        if len(ndims) > 1:
            raise ValueError(
                "ArrowVariableShapedTensorArray only supports tensor elements that all have the same number of dimensions, "
                f"got dimensions {sorted(ndims)}"
            )
        dtype = np.result_type(*rows)
        values = pa.array(
            [row.astype(dtype, copy=False).reshape(-1) for row in rows],
            pa.large_list(pa.from_numpy_dtype(dtype)),
        )
        shapes = pa.array([list(row.shape) for row in rows], cls.SHAPES_ARRAY_TYPE)
        storage = pa.StructArray.from_arrays([values, shapes], ["data", "shape"])
        kind = ArrowVariableShapedTensorType(values.type.value_type, ndims.pop())
        return pa.ExtensionArray.from_storage(kind, storage)

    def to_numpy(self, zero_copy_only: bool = True) -> np.ndarray:
        """Return an array of objects, one array per row."""
        return _objects(self.to_pylist())

    def to_var_shaped_tensor_array(self, ndim: int) -> Any:
        """Return the column with at least `ndim` dimensions per value."""
        rows = [row.reshape((1,) * (ndim - row.ndim) + row.shape) for row in self.to_pylist()]
        return ArrowVariableShapedTensorArray.from_numpy(rows)


def _rows(arr: Any) -> Any:
    if not isinstance(arr, np.ndarray):
        arr = list(arr) if isinstance(arr, Iterable) else [arr]
        if not arr or not isinstance(arr[0], np.ndarray):
            raise ValueError(f"Must give ndarray or iterable of ndarrays, got {type(arr)} {arr!r:.200}")
        same = len({(each.shape, each.dtype) if isinstance(each, np.ndarray) else None for each in arr}) == 1
        arr = np.stack(arr) if same else _objects(arr)
    elif (
        arr.dtype == object
        and len(arr)
        and len({np.shape(each) for each in arr}) == 1
        and isinstance(arr[0], np.ndarray)
    ):
        arr = np.stack(list(arr))
    return arr


def _objects(rows: list[Any]) -> np.ndarray:
    made = np.empty(len(rows), dtype=object)
    for at, row in enumerate(rows):
        made[at] = row
    return made


def get_arrow_extension_fixed_shape_tensor_types() -> tuple[type, ...]:
    """The types of columns of arrays of one shape."""
    return (ArrowTensorType, ArrowTensorTypeV2, FixedShapeTensorType)


def get_arrow_extension_tensor_types() -> tuple[type, ...]:
    """The types of columns of arrays."""
    return (*get_arrow_extension_fixed_shape_tensor_types(), ArrowVariableShapedTensorType)


def create_arrow_fixed_shape_tensor_type(shape: tuple[int, ...], dtype: pa.DataType) -> pa.DataType:
    """The type of a column of arrays of one shape."""
    return ArrowTensorTypeV2(shape, dtype)
