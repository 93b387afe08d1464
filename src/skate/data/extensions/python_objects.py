"""Columns of any Python objects, in Arrow (as pickles) and in pandas."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype, take


class ArrowPythonObjectScalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One object."""

    def as_py(self, **options: Any) -> Any:
        """The unpickled object, or None."""
        if not isinstance(self.value, pa.LargeBinaryScalar) or not self.value.is_valid:
            return None
        return pickle.loads(self.value.as_buffer().to_pybytes())


class ArrowPythonObjectType(pa.ExtensionType):  # type: ignore[misc]
    """Objects as pickles; read only columns that you trust."""

    def __init__(self) -> None:
        super().__init__(pa.large_binary(), "ray.data.arrow_pickled_object")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> ArrowPythonObjectType:
        return cls()

    def __arrow_ext_class__(self) -> type:
        return ArrowPythonObjectArray

    def __arrow_ext_scalar_class__(self) -> type:
        return ArrowPythonObjectScalar

    def to_pandas_dtype(self) -> Any:
        """The dtype of the column in pandas."""
        return PythonObjectDtype()

    def __reduce__(self) -> Any:
        return type(self), ()


class ArrowPythonObjectArray(pa.ExtensionArray):  # type: ignore[misc]
    """A column of objects in Arrow."""

    @classmethod
    def from_objects(cls, objects: Iterable[Any]) -> Any:
        """Build a column from objects, which are pickled."""
        from skate import cloudpickle  # the objects may be of any type

        data = [None if each is None else cloudpickle.dumps(each, protocol=5) for each in objects]
        return pa.ExtensionArray.from_storage(ArrowPythonObjectType(), pa.array(data, pa.large_binary()))

    def to_numpy(self, zero_copy_only: bool = False, writable: bool = False) -> np.ndarray:
        """Return an array of the objects."""
        return _objects(self.to_pylist())


@register_extension_dtype
class PythonObjectDtype(ExtensionDtype):  # type: ignore[misc]
    """The dtype of a column of objects in pandas."""

    @classmethod
    def construct_from_string(cls, string: str) -> PythonObjectDtype:
        """Read the name of the dtype. Raises TypeError for other text."""
        if string != "python_object()":
            raise TypeError(f"Cannot construct a '{cls.__name__}' from '{string}'")
        return cls()

    @property
    def type(self) -> Any:
        """The type of one value."""
        return object

    @property
    def name(self) -> str:
        """The dtype as text."""
        return "python_object()"

    @classmethod
    def construct_array_type(cls) -> Any:
        """The class of columns of this dtype."""
        return PythonObjectArray

    def __from_arrow__(self, array: Any) -> Any:
        return PythonObjectArray(array.to_pylist())


class PythonObjectArray(ExtensionArray):  # type: ignore[misc]
    """A column of objects in pandas."""

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = _objects(list(values))

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> PythonObjectArray:
        return cls(scalars)

    @classmethod
    def _concat_same_type(cls, to_concat: Any) -> PythonObjectArray:
        return cls(np.concatenate([each.values for each in to_concat]))

    def __getitem__(self, item: Any) -> Any:
        found = self.values[item]
        return found if isinstance(item, (int, np.integer)) else PythonObjectArray(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.values[key] = value

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, PythonObjectArray):
            return self.values == other.values
        return self.values == other

    def to_numpy(
        self, dtype: Any = None, copy: bool = False, na_value: Any = pd.api.extensions.no_default
    ) -> np.ndarray:
        """Return an array of the objects."""
        made = self.values.copy() if copy or na_value is not pd.api.extensions.no_default else self.values
        if na_value is not pd.api.extensions.no_default:
            made[self.isna()] = na_value
        return made if dtype is None else made.astype(dtype)

    @property
    def dtype(self) -> PythonObjectDtype:
        """The dtype."""
        return PythonObjectDtype()

    @property
    def nbytes(self) -> int:
        """The size of the references in bytes."""
        return self.values.nbytes

    def isna(self) -> np.ndarray:
        """Return a mask of the rows that are None or NaN."""
        return np.array(
            [each is None or (isinstance(each, float) and each != each) for each in self.values], bool
        )

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> PythonObjectArray:
        """Return the rows at the given positions."""
        return PythonObjectArray(take(self.values, indices, allow_fill=allow_fill, fill_value=fill_value))

    def copy(self) -> PythonObjectArray:
        """Return a copy with its own references."""
        return PythonObjectArray(self.values)

    def __arrow_array__(self, type: Any = None) -> Any:
        return ArrowPythonObjectArray.from_objects(self.values)


def _objects(values: list[Any]) -> np.ndarray:
    made = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        made[at] = value
    return made


def register() -> None:
    """Register the type with Arrow, once per process."""
    try:
        pa.register_extension_type(ArrowPythonObjectType())
    except pa.ArrowKeyError:
        return


register()
