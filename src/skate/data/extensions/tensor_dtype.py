"""The pandas dtype of columns whose values are arrays."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from pandas.api.extensions import ExtensionDtype, register_extension_dtype

_NAME = re.compile(r"^(?:TensorDtype|numpy\.ndarray)\(shape=(\([^)]*\)), dtype=([\w<>|=.]+)\)$")


@register_extension_dtype
class TensorDtype(ExtensionDtype):  # type: ignore[misc]
    """Arrays of one element type.

    Args:
        shape: the shape of each row's array; None for a dimension that differs between rows.
        dtype: the type of the elements.
    """

    base = None

    def __init__(self, shape: tuple[int | None, ...], dtype: Any) -> None:
        self._shape = tuple(shape)
        self._dtype: np.dtype = np.dtype(dtype)

    @property
    def type(self) -> Any:
        """The type of one value."""
        from skate.data.extensions.tensor_array import TensorArrayElement  # which needs this module

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
        from skate.data.extensions.tensor_array import TensorArray  # as above

        return TensorArray

    def __from_arrow__(self, array: Any) -> Any:
        from skate.data.block import tensors
        from skate.data.extensions.tensor_array import TensorArray

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
