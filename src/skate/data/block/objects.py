"""Columns of Python objects that Arrow has no type for: each value pickled."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from skate import cloudpickle

#: Environment variable that allows reading pickles from files and databases.
TRUST = "RAY_DATA_AUTOLOAD_PICKLE_OBJECT_SCALAR"
#: Types of columns whose values are unpickled when they are read.
_NAMES = ("skate.object", "ray.data.arrow_pickled_object")


class PythonObjectType(pa.ExtensionType):  # type: ignore[misc]
    """A column whose values are pickled Python objects."""

    def __init__(self) -> None:
        super().__init__(pa.large_binary(), _NAMES[0])

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


def refuse_pickles(table: pa.Table, source: str) -> pa.Table:
    """Return a table of a file or a database. Raises ValueError if a column holds pickles of more than sets, lists,
    dicts, text and numbers, unless the environment variable allows them: to unpickle others is to run their code.
    """
    refused = [
        field.name
        for number, field in enumerate(table.schema)
        if _holds_objects(field.type) and not _is_plain(table.column(number))
    ]
    if refused and os.environ.get(TRUST, "0").lower() not in ("1", "true"):
        raise ValueError(
            f"{source} has columns of pickled Python objects ('{_NAMES[1]}' or '{_NAMES[0]}'): {refused}. "
            "Reading them requires unpickling, which can execute any code. Read other columns with columns=[...], or, "
            f"if you trust the source, set {TRUST}=1 for all processes (runtime_env={{'env_vars': ...}})"
        )
    return table


class _Plain(pickle.Unpickler):
    """Reads pickles that name no class and no function."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}")


def _is_plain(column: pa.ChunkedArray) -> bool:
    """True if no pickle of the column names a class or function."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return bool(column.null_count == len(column))
    blobs = (blob for chunk in column.chunks for blob in chunk.storage.to_pylist() if blob is not None)
    try:
        for blob in blobs:
            _Plain(io.BytesIO(blob)).load()
    except Exception:  # damaged pickles raise errors of any type
        return False
    return True


def _holds_objects(kind: pa.DataType) -> bool:
    """True if the type, or one within it, is that of pickled objects."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.extension_name in _NAMES or _holds_objects(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _holds_objects(kind.value_type)
    return any(_holds_objects(kind.field(at).type) for at in range(kind.num_fields))


def register() -> None:
    """Register the type with Arrow, once per process."""
    try:
        pa.register_extension_type(PythonObjectType())
    except pa.ArrowKeyError:  # it was registered before this module was reloaded
        return


register()
