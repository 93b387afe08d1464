"""Columns of arrays in pandas, kept as one array whose first dimension is the rows."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype
from pandas.api.indexers import check_array_indexer

from skate.data.block import tensors

REDUCERS: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "all": np.all, "any": np.any, "min": np.min, "max": np.max, "mean": np.mean, "median": np.median,
    "prod": np.prod, "std": np.std, "var": np.var,
}  # fmt: skip
_OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "eq", "ne", "lt", "le", "gt", "ge",
)  # fmt: skip
_REFLECTED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_NAME = re.compile(r"^(?:TensorDtype|numpy\.ndarray)\(shape=(\([^)]*\)), dtype=([\w<>|=.]+)\)$")


@register_extension_dtype
class TensorDtype(ExtensionDtype):  # type: ignore[misc]
    """Arrays of one element type.

    Args:
        shape: the shape of each row's array; None for a dimension that differs between rows, or for any shape.
        dtype: the type of the elements.
    """

    base = None

    def __init__(self, shape: tuple[int | None, ...] | None, dtype: Any) -> None:
        self._shape = (None,) if shape is None else tuple(shape)
        self._dtype: np.dtype = np.dtype(dtype)

    @property
    def type(self) -> Any:
        """The class of one value."""
        return TensorArrayElement

    @property
    def element_dtype(self) -> np.dtype:
        """The type of the elements."""
        return self._dtype

    @property
    def element_shape(self) -> tuple[int | None, ...]:
        """The shape of each value."""
        return self._shape

    @property
    def is_variable_shaped(self) -> bool:
        """True if the rows may have different shapes."""
        return bool(self._shape) and all(size is None for size in self._shape)

    @property
    def name(self) -> str:
        """The dtype as text, which `construct_from_string` reads."""
        return f"TensorDtype(shape={self._shape}, dtype={self._dtype})"

    @classmethod
    def construct_from_string(cls, string: str) -> TensorDtype:
        """Read the name of a dtype. Raises TypeError for other text."""
        if not isinstance(string, str):
            raise TypeError(f"'construct_from_string' expects a string, got {type(string)}")
        found = _NAME.match(string)
        if found is None:
            raise TypeError(
                f"Cannot construct a '{cls.__name__}' from '{string}'; expected a string like "
                "'TensorDtype(shape=(1, 2, 3), dtype=int64)'."
            )
        sizes = [size.strip() for size in found[1].strip("()").split(",") if size.strip()]
        return cls(tuple(None if size == "None" else int(size) for size in sizes), np.dtype(found[2]))

    @classmethod
    def construct_array_type(cls) -> Any:
        """The class of columns of this dtype."""
        return TensorArray

    def __from_arrow__(self, array: Any) -> Any:
        return TensorArray(tensors.to_ndarray(array))

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, str):
            try:
                other = type(self).construct_from_string(other)
            except TypeError:
                return False
        return isinstance(other, TensorDtype) and (self._shape, self._dtype) == (other._shape, other._dtype)

    def __hash__(self) -> int:
        return hash((self._shape, self._dtype))

    def _get_common_dtype(self, dtypes: list[Any]) -> Any:
        if not all(isinstance(each, TensorDtype) for each in dtypes):
            return None
        if any(len(each._shape) != len(self._shape) for each in dtypes):
            return None
        common = np.result_type(*(each._dtype for each in dtypes))
        same = all(each._shape == self._shape for each in dtypes)
        return TensorDtype(self._shape if same else (None,) * len(self._shape), common)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


def create_ragged_ndarray(values: Sequence[Any]) -> np.ndarray:
    """Return an array of objects with one array per row, of any shapes."""
    made = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        made[at] = np.asarray(value)
    return made


def _plain(value: Any) -> Any:
    """Unwrap a tensor column or one of its values to a numpy array; return other values unchanged."""
    if isinstance(value, (TensorArray, TensorArrayElement)):
        return value._tensor
    if isinstance(value, pd.Series) and isinstance(value.dtype, TensorDtype):
        return value.array._tensor
    return value


class _Arithmetic:
    """The operators of arrays."""

    _tensor: np.ndarray


def _operator(name: str, reflected: bool) -> Callable[[Any, Any], Any]:
    function = getattr(operator, name)

    def apply(self: Any, other: Any) -> Any:
        if isinstance(other, (pd.Series, pd.DataFrame, pd.Index)):
            return NotImplemented  # pandas aligns the two and asks again
        other = _plain(other)
        if isinstance(other, ExtensionArray):
            other = np.asarray(other)
        made = function(other, self._tensor) if reflected else function(self._tensor, other)
        return type(self)(made)

    return apply


for _name in _OPERATORS:
    setattr(_Arithmetic, f"__{_name.strip('_')}__", _operator(_name, False))
for _name in _REFLECTED:
    setattr(_Arithmetic, f"__r{_name}__", _operator(_name, True))
_Arithmetic.__hash__ = None  # type: ignore[assignment]


class TensorArrayElement(_Arithmetic):
    """One value of a tensor column: an array that pandas treats as a scalar."""

    def __init__(self, values: np.ndarray) -> None:
        self._tensor = np.asarray(values)

    @property
    def numpy_dtype(self) -> np.dtype:
        """The type of the elements."""
        return self._tensor.dtype

    @property
    def numpy_ndim(self) -> int:
        """The number of dimensions."""
        return self._tensor.ndim

    @property
    def numpy_shape(self) -> tuple[int, ...]:
        """The shape."""
        return self._tensor.shape

    @property
    def numpy_size(self) -> int:
        """The number of elements."""
        return self._tensor.size

    def to_numpy(self) -> np.ndarray:
        """Return the array."""
        return np.asarray(self._tensor)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return (
            np.array(self._tensor, dtype=dtype, copy=bool(copy)) if copy else np.asarray(self._tensor, dtype)
        )

    def __len__(self) -> int:
        return len(self._tensor)

    def __str__(self) -> str:
        return str(self._tensor)

    def __repr__(self) -> str:
        return repr(self._tensor)


class TensorArray(_Arithmetic, ExtensionArray):  # type: ignore[misc]
    """A column of arrays.

    Args:
        values: an array whose first dimension counts the rows, or a sequence of arrays (or elements), which may
            differ in shape.

    Raises TypeError for other types.
    """

    SUPPORTED_REDUCERS = REDUCERS

    def __init__(self, values: Any) -> None:
        if isinstance(values, pd.Series):
            values = list(values)
        if isinstance(values, TensorArray):
            self._tensor = values._tensor
        elif isinstance(values, TensorArrayElement):
            self._tensor = values._tensor[np.newaxis]
        elif isinstance(values, np.ndarray):
            self._tensor = _stacked(list(values)) if values.dtype == object and len(values) else values
        elif isinstance(values, (str, np.generic)):
            self._tensor = np.array([values])
        elif isinstance(values, Sequence):
            self._tensor = _stacked([_plain(each) for each in values]) if len(values) else np.array([])
        else:
            raise TypeError(
                f"Expected a numpy.ndarray or sequence of numpy.ndarray, but received {values} of type "
                f"{type(values).__name__} instead."
            )

    # -- the pandas interface

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> TensorArray:
        made = cls(scalars)
        return cls(made._tensor.copy()) if copy else made

    @classmethod
    def _from_factorized(cls, values: np.ndarray, original: ExtensionArray) -> ExtensionArray:
        raise NotImplementedError("a column of arrays cannot be factorized; factorize another column")

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[TensorArray]) -> TensorArray:
        parts = [each._tensor for each in to_concat]
        if any(part.dtype == object for part in parts) or len({part.shape[1:] for part in parts}) > 1:
            return cls(_stacked([row for part in parts for row in part]))
        return cls(np.concatenate(parts))

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, (int, np.integer)):
            return TensorArrayElement(self._tensor[item])
        if isinstance(item, (list, ExtensionArray, np.ndarray)):
            item = check_array_indexer(self, item)
        return TensorArray(self._tensor[item])

    def __setitem__(self, key: Any, value: Any) -> None:
        key = check_array_indexer(self, key) if isinstance(key, (list, ExtensionArray, np.ndarray)) else key
        if isinstance(value, list) and value and isinstance(value[0], TensorArrayElement):
            value = [each._tensor for each in value]
        if value is None and self._tensor.dtype.kind == "f":
            value = np.nan
        self._tensor[key] = _plain(value)

    def __len__(self) -> int:
        return len(self._tensor)

    @property
    def dtype(self) -> TensorDtype:
        """The dtype, with the shape of the values."""
        if self.is_variable_shaped:
            first = self._tensor[0]
            return TensorDtype((None,) * first.ndim, first.dtype)
        return TensorDtype(self._tensor.shape[1:], self._tensor.dtype)

    @property
    def is_variable_shaped(self) -> bool:
        """True if the rows have different shapes."""
        return bool(self._tensor.dtype == object and len(self._tensor))

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return sum(row.nbytes for row in self._tensor) if self.is_variable_shaped else self._tensor.nbytes

    def isna(self) -> np.ndarray:
        """Return a mask of missing rows: None, or all elements are NaN."""
        if self._tensor.dtype == object:
            return np.array([row is None for row in self._tensor], bool)
        if self._tensor.dtype.kind != "f":
            return np.zeros(len(self), bool)
        return np.asarray(np.isnan(self._tensor).all(axis=tuple(range(1, self._tensor.ndim))))

    def take(self, indices: Any, allow_fill: bool = False, fill_value: Any = None) -> TensorArray:
        """Take rows by position; with `allow_fill`, -1 gives `fill_value` (NaN by default)."""
        indices = np.asarray(indices, dtype=np.intp)
        if not allow_fill:
            return TensorArray(self._tensor[indices])
        if (indices < -1).any():
            raise ValueError(
                "'indices' contains values less than allowed (-1), the position of a missing row"
            )
        if len(indices) and indices.max() >= len(self):
            raise IndexError(
                f"'indices' are out-of-bounds: {indices.max()} of a column with {len(self)} rows"
            )
        fill = _plain(fill_value)
        if fill is None or (not isinstance(fill, np.ndarray) and pd.isna(fill)):
            fill = np.nan
        if not (indices < 0).any():
            return TensorArray(self._tensor[indices])
        kind = (
            self._tensor.dtype
            if self._tensor.dtype == object
            else np.result_type(self._tensor.dtype, np.min_scalar_type(fill))
        )
        made = np.full((len(indices), *self._tensor.shape[1:]), fill, dtype=kind)
        made[indices >= 0] = self._tensor[indices[indices >= 0]]
        return TensorArray(made)

    def copy(self) -> TensorArray:
        """Return a copy with its own memory."""
        return TensorArray(self._tensor.copy())

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Convert to another dtype: tensors, objects (one array per row), text, or elements of another type."""
        dtype = pd.api.types.pandas_dtype(dtype)
        if isinstance(dtype, TensorDtype):
            wanted = (
                TensorArray(self._tensor.astype(dtype.element_dtype, copy=copy))
                if not self.is_variable_shaped
                else self
            )
            return wanted.copy() if copy and wanted is self else wanted
        if pd.api.types.is_object_dtype(dtype):
            return create_ragged_ndarray(list(self._tensor))
        if pd.api.types.is_string_dtype(dtype):
            text = np.array([str(row) for row in self._tensor], dtype=object)
            return (
                dtype.construct_array_type()._from_sequence(text)
                if isinstance(dtype, pd.StringDtype)
                else text
            )
        return self._tensor.astype(dtype, copy=copy)

    def to_numpy(
        self, dtype: Any = None, copy: bool = False, na_value: Any = pd.api.extensions.no_default
    ) -> np.ndarray:
        """Return the rows as one array; an array of objects if their shapes differ."""
        made = self._tensor if dtype is None else self._tensor.astype(dtype)
        if na_value is not pd.api.extensions.no_default:
            made = made.copy()
            made[self.isna()] = na_value
        return made.copy() if copy and made is self._tensor else made

    def _reduce(self, name: str, skipna: bool = True, *, keepdims: bool = False, **kwargs: Any) -> Any:
        if name not in REDUCERS:
            raise NotImplementedError(
                f"'{name}' aggregate not implemented for tensors; supported are {', '.join(sorted(REDUCERS))}"
            )
        made = TensorArrayElement(REDUCERS[name](self._tensor, axis=0))
        return TensorArray(made) if keepdims else made

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Return True if any element is true; with `axis`, reduce along it."""
        return self._folded(np.any, axis, out, keepdims)

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Return True if all elements are true; with `axis`, reduce along it."""
        return self._folded(np.all, axis, out, keepdims)

    def _folded(self, fold: Callable[..., Any], axis: Any, out: Any, keepdims: bool) -> Any:
        found = fold(self._tensor, axis=axis, out=out, keepdims=keepdims)
        return found if axis is None else TensorArray(found)

    # -- the numpy and Arrow interfaces

    @property
    def numpy_dtype(self) -> np.dtype:
        """The type of the elements."""
        return self._tensor.dtype

    @property
    def numpy_ndim(self) -> int:
        """The number of dimensions, rows included."""
        return self._tensor.ndim

    @property
    def numpy_shape(self) -> tuple[int, ...]:
        """The shape, rows first."""
        return self._tensor.shape

    @property
    def numpy_size(self) -> int:
        """The number of elements."""
        return self._tensor.size

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._tensor, dtype=dtype) if copy else np.asarray(self._tensor, dtype)

    def __arrow_array__(self, type: Any = None) -> Any:
        return (
            tensors.from_arrays(list(self._tensor))
            if self.is_variable_shaped
            else tensors.from_ndarray(self._tensor)
        )

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str]:
        return lambda each: " ".join(np.array2string(np.asarray(each), separator=", ").split())

    def __str__(self) -> str:
        return str(self._tensor)

    def __repr__(self) -> str:
        return repr(self._tensor)


def _stacked(rows: list[Any]) -> np.ndarray:
    """Return one array for rows of one shape, else an array of objects."""
    arrays = [np.asarray(row) for row in rows]
    if len({(each.shape, each.dtype == object) for each in arrays}) == 1:
        return np.stack(arrays)
    return create_ragged_ndarray(arrays)
