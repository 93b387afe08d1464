"""Columns of Python objects that Arrow has no type for: each value pickled."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from skate import cloudpickle


class PythonObjectType(pa.ExtensionType):  # type: ignore[misc]
    """A column whose values are pickled Python objects."""

    def __init__(self) -> None:
        super().__init__(pa.large_binary(), "skate.object")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> PythonObjectType:
        return cls()

    def __arrow_ext_scalar_class__(self) -> type:
        return PythonObjectScalar

    def __reduce__(self) -> Any:
        return PythonObjectType, ()

    def __str__(self) -> str:
        return "object"


class PythonObjectScalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One pickled value of a column."""

    def as_py(self, **options: Any) -> Any:
        """The unpickled object, or None."""
        return None if self.value is None else pickle.loads(self.value.as_py())


def from_objects(values: Sequence[Any]) -> pa.ExtensionArray:
    """Build a column of any Python objects; None becomes null. Raises any error of pickling."""
    pickled = [None if value is None else cloudpickle.dumps(value, protocol=5) for value in values]
    return pa.ExtensionArray.from_storage(PythonObjectType(), pa.array(pickled, pa.large_binary()))


def to_objects(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return the objects of a pickled column."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [
        None if blob is None else pickle.loads(blob) for chunk in chunks for blob in chunk.storage.to_pylist()
    ]


def is_object(kind: pa.DataType) -> bool:
    """True if the column's values are pickled Python objects."""
    return isinstance(kind, PythonObjectType)


def register() -> None:
    """Register the type with Arrow, once per process."""
    try:
        pa.register_extension_type(PythonObjectType())
    except pa.ArrowKeyError:  # it was registered before this module was reloaded
        return


register()
