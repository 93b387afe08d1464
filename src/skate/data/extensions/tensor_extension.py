"""Columns of arrays in pandas and Arrow, under Ray's name."""

from __future__ import annotations

from skate.data.exceptions import ArrowConversionError
from skate.data.extensions.arrow_types import (
    ArrowTensorArray,
    ArrowTensorType,
    ArrowTensorTypeV2,
    ArrowVariableShapedTensorArray,
    ArrowVariableShapedTensorType,
    FixedShapeTensorArray,
    FixedShapeTensorType,
    get_arrow_extension_tensor_types,
)
from skate.data.extensions.column_kind import column_needs_tensor_extension
from skate.data.extensions.tensor_array import (
    TensorArray,
    TensorArrayElement,
    TensorDtype,
    create_ragged_ndarray,
)

__all__ = [
    "ArrowConversionError", "ArrowTensorArray", "ArrowTensorType", "ArrowTensorTypeV2", "ArrowVariableShapedTensorArray",
    "ArrowVariableShapedTensorType", "FixedShapeTensorArray", "FixedShapeTensorType", "TensorArray", "TensorArrayElement",
    "TensorDtype", "column_needs_tensor_extension", "create_ragged_ndarray", "get_arrow_extension_tensor_types",
]  # fmt: skip
