"""Columns of arrays and of Python objects, as types of pandas and Arrow."""

from __future__ import annotations

from skate.data.extensions.arrow_types import (
    ArrowConversionError,
    ArrowTensorArray,
    ArrowTensorType,
    ArrowTensorTypeV2,
    ArrowVariableShapedTensorArray,
    ArrowVariableShapedTensorType,
    FixedShapeTensorArray,
    FixedShapeTensorFormat,
    FixedShapeTensorType,
    create_arrow_fixed_shape_tensor_type,
    get_arrow_extension_tensor_types,
)
from skate.data.extensions.column_kind import column_needs_tensor_extension
from skate.data.extensions.python_objects import (
    ArrowPythonObjectArray,
    ArrowPythonObjectScalar,
    ArrowPythonObjectType,
    PythonObjectArray,
    PythonObjectDtype,
)
from skate.data.extensions.tensor_array import (
    TensorArray,
    TensorArrayElement,
    TensorDtype,
    create_ragged_ndarray,
)

__all__ = [
    "ArrowConversionError", "ArrowPythonObjectArray", "ArrowPythonObjectScalar", "ArrowPythonObjectType", "ArrowTensorArray",
    "ArrowTensorType", "ArrowTensorTypeV2", "ArrowVariableShapedTensorArray", "ArrowVariableShapedTensorType",
    "FixedShapeTensorArray", "FixedShapeTensorFormat", "FixedShapeTensorType", "PythonObjectArray", "PythonObjectDtype",
    "TensorArray", "TensorArrayElement", "TensorDtype", "column_needs_tensor_extension", "create_arrow_fixed_shape_tensor_type",
    "create_ragged_ndarray", "get_arrow_extension_tensor_types",
]  # fmt: skip
