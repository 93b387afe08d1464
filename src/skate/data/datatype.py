"""Types of columns, as `ray.data.datatype` names them: an Arrow type, a numpy dtype or a Python type."""

from __future__ import annotations

import builtins
import datetime
import decimal
import enum
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import columns, tensors

_TEMPORAL_UNITS = {"timestamp": "us", "time32": "s", "time64": "us", "duration": "us"}
_TIME_UNITS = {"time32": ("s", "ms"), "time64": ("us", "ns")}
_TEMPORAL_PYTHON = (datetime.date, datetime.time, datetime.timedelta)


#: Arrow types that have their own method here, with a description of each.
PYARROW_TYPE_DEFINITIONS = {
    "int8": (pa.int8, "an 8-bit integer"),
    "int16": (pa.int16, "a 16-bit integer"),
    "int32": (pa.int32, "a 32-bit integer"),
    "int64": (pa.int64, "a 64-bit integer"),
    "uint8": (pa.uint8, "an unsigned 8-bit integer"),
    "uint16": (pa.uint16, "an unsigned 16-bit integer"),
    "uint32": (pa.uint32, "an unsigned 32-bit integer"),
    "uint64": (pa.uint64, "an unsigned 64-bit integer"),
    "float32": (pa.float32, "a single-precision number"),
    "float64": (pa.float64, "a double-precision number"),
    "string": (pa.string, "text"),
    "bool": (pa.bool_, "true or false"),
    "binary": (pa.binary, "bytes"),
}


class TypeCategory(str, enum.Enum):
    """Families of types, for `DataType.is_of`."""

    LIST = "list"
    LARGE_LIST = "large_list"
    STRUCT = "struct"
    MAP = "map"
    TENSOR = "tensor"
    TEMPORAL = "temporal"


class DataType:
    """A column's type. Raises TypeError unless given an Arrow type, numpy dtype or Python class."""

    __slots__ = ("_physical_dtype",)

    def __init__(self, _physical_dtype: Any) -> None:
        if not isinstance(_physical_dtype, (pa.DataType, np.dtype, type)):
            raise TypeError(
                "DataType supports only PyArrow DataType, NumPy dtype, or Python type, got "
                f"{_physical_dtype!r}; use DataType.from_dtype() for names"
            )
        self._physical_dtype = _physical_dtype

    # -- the underlying type

    def is_arrow_type(self) -> builtins.bool:
        """True for a pyarrow type."""
        return isinstance(self._physical_dtype, pa.DataType)

    def is_numpy_type(self) -> builtins.bool:
        """True for a numpy dtype."""
        return isinstance(self._physical_dtype, np.dtype)

    def is_python_type(self) -> builtins.bool:
        """True for a Python class."""
        return isinstance(self._physical_dtype, type)

    def to_arrow_dtype(self, values: Sequence[Any] | None = None) -> pa.DataType:
        """Return the Arrow type; for a Python class it is inferred from `values`."""
        kind = self._physical_dtype
        if isinstance(kind, pa.DataType):
            return kind
        if isinstance(kind, np.dtype):
            return pa.string() if kind.kind in "UT" else pa.from_numpy_dtype(kind)
        if not values:
            known = _of_python(kind)
            if known is None:
                raise AssertionError(
                    f"the Arrow type of {self!r} depends on the values; pass examples as `values`"
                )
            return known
        return columns.from_values(values).type

    def to_numpy_dtype(self) -> np.dtype:
        """Return the dtype of an array of such values; object if numpy has no other."""
        kind = self._physical_dtype
        made: np.dtype[Any] = np.dtype(object)
        if isinstance(kind, np.dtype):
            made = kind
        elif isinstance(kind, type):
            made = np.dtype(kind) if kind in (int, float, builtins.bool, complex) else made
        elif not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_nested(kind)):
            try:
                made = np.dtype(kind.to_pandas_dtype())
            except (NotImplementedError, TypeError):
                pass
        return made

    def to_python_type(self) -> type:
        """Return the Python class. Raises ValueError for Arrow and numpy types."""
        if not isinstance(self._physical_dtype, type):
            raise ValueError(
                f"{self!r} is not backed by a Python type; see to_arrow_dtype() and to_numpy_dtype()"
            )
        return self._physical_dtype

    # -- conversions to DataType

    @classmethod
    def from_arrow(cls, arrow_type: pa.DataType) -> DataType:
        """Return the DataType of a pyarrow type."""
        return cls(arrow_type)

    @classmethod
    def from_numpy(cls, numpy_dtype: np.dtype | str) -> DataType:
        """Return the DataType of a numpy dtype or its name."""
        return cls(np.dtype(numpy_dtype))

    @classmethod
    def from_dtype(cls, dtype: Any) -> DataType | None:
        """Return the DataType of anything that names a type, or None."""
        if isinstance(dtype, DataType):
            return dtype
        if isinstance(dtype, type) and issubclass(dtype, np.generic):
            return cls(np.dtype(dtype))
        if isinstance(dtype, (pa.DataType, np.dtype, type)):
            return cls(dtype)
        if dtype is None:
            return None
        kind = getattr(dtype, "pyarrow_dtype", None) or getattr(dtype, "numpy_dtype", None)  # of pandas
        if kind is not None:
            return cls(kind)
        if getattr(dtype, "name", None) in ("string", "str"):
            return cls(pa.string())
        try:
            return cls(np.dtype(dtype))
        except TypeError:
            return None

    @classmethod
    def infer_dtype(cls, value: Any) -> DataType:
        """Return the type of a value: numpy values keep their dtype, others get the Arrow type of a column of them."""
        if isinstance(value, (np.ndarray, np.generic)):
            return cls(value.dtype)
        try:
            return cls(pa.scalar(value).type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            return cls(type(value))

    # -- factories of nested types

    @classmethod
    def list(cls, value_type: DataType) -> DataType:
        """Return the type of lists of a value type."""
        return cls(pa.list_(value_type.to_arrow_dtype()))

    @classmethod
    def large_list(cls, value_type: DataType) -> DataType:
        """Return the type of lists with 64-bit offsets."""
        return cls(pa.large_list(value_type.to_arrow_dtype()))

    @classmethod
    def fixed_size_list(cls, value_type: DataType, list_size: int) -> DataType:
        """Return the type of lists of a fixed length."""
        return cls(pa.list_(value_type.to_arrow_dtype(), list_size))

    @classmethod
    def struct(cls, fields: Sequence[tuple[str, DataType]]) -> DataType:
        """Return the type of structs with the given named fields."""
        return cls(pa.struct([(name, kind.to_arrow_dtype()) for name, kind in fields]))

    @classmethod
    def map(cls, key_type: DataType, value_type: DataType) -> DataType:
        """Return the type of maps from a key type to a value type."""
        return cls(pa.map_(key_type.to_arrow_dtype(), value_type.to_arrow_dtype()))

    @classmethod
    def tensor(cls, shape: tuple[int, ...], dtype: DataType) -> DataType:
        """Return the type of arrays of a fixed shape."""
        return cls(pa.fixed_shape_tensor(dtype.to_arrow_dtype(), shape))

    @classmethod
    def variable_shaped_tensor(cls, dtype: DataType, ndim: int = 2) -> DataType:
        """Return the type of arrays that each have their own shape; `ndim` is ignored, because any is allowed here."""
        return cls(tensors.RaggedTensorType(dtype.to_arrow_dtype()))

    @classmethod
    def temporal(cls, temporal_type: str, unit: str | None = None, tz: str | None = None) -> DataType:
        """Return timestamp (with `unit` and `tz`), date32, date64, time32, time64 or duration; the units are
        s, ms, us, ns."""
        if temporal_type in ("date32", "date64"):
            return cls(getattr(pa, temporal_type)())
        if temporal_type not in _TEMPORAL_UNITS:
            raise ValueError(
                f"Invalid temporal_type {temporal_type!r}: it must be one of date32, date64, {', '.join(_TEMPORAL_UNITS)}"
            )
        unit = unit or _TEMPORAL_UNITS[temporal_type]
        if temporal_type == "timestamp":
            return cls(pa.timestamp(unit, tz=tz))
        units = _TIME_UNITS.get(temporal_type, (unit,))
        if unit not in units:
            raise ValueError(f"{temporal_type} unit must be {' or '.join(map(repr, units))}, got {unit!r}")
        return cls(getattr(pa, temporal_type)(unit))

    # -- families

    def is_of(self, category: TypeCategory | str) -> builtins.bool:
        """True if the type belongs to a category; False for unknown categories."""
        try:
            wanted = TypeCategory(category)
        except ValueError:
            return False
        if wanted is TypeCategory.LARGE_LIST:
            return self._arrow(pa.types.is_large_list)
        return bool(getattr(self, f"is_{wanted.value}_type")())

    def _arrow(self, *tests: Any) -> builtins.bool:
        kind = self._physical_dtype
        return isinstance(kind, pa.DataType) and any(test(kind) for test in tests)

    def _kind(self, letters: str, *python: type) -> builtins.bool:
        kind = self._physical_dtype
        if isinstance(kind, np.dtype):
            return kind.kind in letters
        return isinstance(kind, type) and kind in python

    def is_list_type(self) -> builtins.bool:
        """True for lists of any kind."""
        types = pa.types
        return self._arrow(types.is_list, types.is_large_list, types.is_fixed_size_list)

    def is_tensor_type(self) -> builtins.bool:
        """True for arrays, of one shape or of many."""
        return self._arrow(tensors.is_tensor)

    def is_struct_type(self) -> builtins.bool:
        """True for structs."""
        return self._arrow(pa.types.is_struct)

    def is_map_type(self) -> builtins.bool:
        """True for maps."""
        return self._arrow(pa.types.is_map)

    def is_nested_type(self) -> builtins.bool:
        """True for lists, structs and maps."""
        return self._arrow(pa.types.is_nested)

    def is_null_type(self) -> builtins.bool:
        """True for the type of a column of nulls."""
        return self._arrow(pa.types.is_null) or self._physical_dtype is type(None)

    def is_boolean_type(self) -> builtins.bool:
        """True for booleans."""
        return self._arrow(pa.types.is_boolean) or self._kind("b", builtins.bool)

    def is_integer_type(self) -> builtins.bool:
        """True for integers of any width."""
        return self._arrow(pa.types.is_integer) or self._kind("iu", int)

    def is_uint64_type(self) -> builtins.bool:
        """True for unsigned 64-bit integers."""
        return self._arrow(pa.types.is_uint64) or self._physical_dtype == np.dtype("uint64")

    def is_floating_type(self) -> builtins.bool:
        """True for floating-point numbers of any width."""
        return self._arrow(pa.types.is_floating) or self._kind("f", float)

    def is_numerical_type(self) -> builtins.bool:
        """True for numbers: integers, floating-point or decimal."""
        exact = self._arrow(pa.types.is_decimal) or self._physical_dtype is decimal.Decimal
        return self.is_integer_type() or self.is_floating_type() or exact or self._kind("c", complex)

    def is_string_type(self) -> builtins.bool:
        """True for strings."""
        return self._arrow(pa.types.is_string, pa.types.is_large_string) or self._kind("UT", str)

    def is_binary_type(self) -> builtins.bool:
        """True for bytes of any layout."""
        types = pa.types
        return self._arrow(types.is_binary, types.is_large_binary, types.is_fixed_size_binary) or self._kind(
            "S", bytes, bytearray
        )

    def is_temporal_type(self) -> builtins.bool:
        """True for dates, times of day, timestamps and durations."""
        if self._arrow(pa.types.is_temporal) or self._kind("mM"):
            return True
        return isinstance(self._physical_dtype, type) and issubclass(self._physical_dtype, _TEMPORAL_PYTHON)

    # -- as a value

    def __eq__(self, other: object) -> builtins.bool:
        same = isinstance(other, DataType) and type(self._physical_dtype) is type(other._physical_dtype)
        return same and bool(self._physical_dtype == other._physical_dtype)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._physical_dtype)

    def __reduce__(self) -> Any:
        return DataType, (self._physical_dtype,)

    def __repr__(self) -> str:
        kind = self._physical_dtype
        if isinstance(kind, type):
            return f"DataType(python:{kind.__name__})"
        return f"DataType({'arrow' if isinstance(kind, pa.DataType) else 'numpy'}:{kind})"


def _of_python(kind: type) -> pa.DataType | None:
    """Return the type that a column of such values always has."""
    return {int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary(), bool: pa.bool_()}.get(
        kind
    )


def _plain(name: str, made: Any, what: str) -> None:
    kind = made()

    def make(cls: type[DataType]) -> DataType:
        return cls(kind)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = (
        f"Create a DataType representing {what}.\n\nReturns:\n    DataType with PyArrow {name} type"
    )
    setattr(DataType, name, classmethod(make))


for _name, (_made, _what) in PYARROW_TYPE_DEFINITIONS.items():
    _plain(_name, _made, _what)
