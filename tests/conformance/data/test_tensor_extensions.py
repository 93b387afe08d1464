"""Columns of arrays and of objects as types of pandas and Arrow."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray
from ray.data import extensions
from ray.data.extensions import (
    ArrowConversionError,
    ArrowPythonObjectArray,
    ArrowTensorArray,
    ArrowTensorType,
    ArrowTensorTypeV2,
    ArrowVariableShapedTensorArray,
    ArrowVariableShapedTensorType,
    PythonObjectArray,
    TensorArray,
    TensorArrayElement,
    TensorDtype,
    column_needs_tensor_extension,
)
from ray.data.extensions.tensor_extension import create_ragged_ndarray

pytestmark = pytest.mark.usefixtures("cluster")
FIXED = np.arange(12).reshape(3, 2, 2)
RAGGED = [np.ones((2, 2)), np.zeros((3, 2))]
INT64 = np.dtype("int64")


@pytest.mark.parametrize(
    "name", ["TensorArray", "TensorDtype", "ArrowTensorType", "ArrowVariableShapedTensorType"]
)
def test_both_modules_have_the_types(name):
    assert getattr(extensions, name) is getattr(extensions.tensor_extension, name)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (None, None)])
def test_a_dtype_is_read_from_its_name(shape):
    dtype = TensorDtype(shape, INT64)
    assert TensorDtype.construct_from_string(str(dtype)) == dtype
    assert str(dtype) == f"TensorDtype(shape={shape}, dtype=int64)"
    assert (dtype.element_shape, dtype.element_dtype, dtype.type) == (shape, INT64, TensorArrayElement)


@pytest.mark.parametrize("text", ["x", "TensorDtype", "int64"])
def test_other_text_is_no_dtype(text):
    with pytest.raises(TypeError, match="Cannot construct a 'TensorDtype' from"):
        TensorDtype.construct_from_string(text)


def test_a_dtype_is_not_read_from_a_number():
    with pytest.raises(TypeError, match="'construct_from_string' expects a string"):
        TensorDtype.construct_from_string(5)


@pytest.mark.parametrize("wrong", [5, None, {"a": 1}])
def test_what_is_no_array_is_refused(wrong):
    with pytest.raises(
        TypeError, match="Expected a numpy.ndarray or sequence of numpy.ndarray, but received"
    ):
        TensorArray(wrong)


def test_a_column_knows_its_shape():
    column = TensorArray(FIXED)
    assert (len(column), column.dtype, column.is_variable_shaped) == (3, TensorDtype((2, 2), INT64), False)
    assert (column.numpy_shape, column.numpy_ndim, column.numpy_size) == ((3, 2, 2), 3, 12)
    assert (column.numpy_dtype, column.nbytes) == (INT64, 96)


def test_a_column_of_several_shapes_knows_only_its_dimensions():
    column = TensorArray(RAGGED)
    assert (column.dtype, column.is_variable_shaped) == (TensorDtype((None, None), np.dtype("float64")), True)
    assert [row.shape for row in column.to_numpy()] == [(2, 2), (3, 2)]


@pytest.mark.parametrize(
    "item", [slice(1, None), [0, 2], np.array([True, False, True]), slice(0, 0)], ids=str
)
def test_rows_are_taken_as_from_an_array(item):
    assert (TensorArray(FIXED)[item].to_numpy() == FIXED[item]).all()


def test_one_row_is_an_element():
    element = TensorArray(FIXED)[1]
    assert isinstance(element, TensorArrayElement)
    assert (np.asarray(element) == FIXED[1]).all()
    assert (element.numpy_shape, element.numpy_ndim, element.numpy_size) == ((2, 2), 2, 4)


@pytest.mark.parametrize("name", ["sum", "mean", "min", "max", "std", "var", "median", "prod", "all", "any"])
def test_reductions_go_over_the_rows(name):
    found = TensorArray(FIXED)._reduce(name)
    assert np.allclose(found.to_numpy(), getattr(np, name)(FIXED, axis=0))


def test_an_unknown_reduction_is_refused():
    with pytest.raises(NotImplementedError, match="aggregate not implemented"):
        TensorArray(FIXED)._reduce("skew")


@pytest.mark.parametrize(
    "apply", [lambda x: x + 1, lambda x: 2 * x, lambda x: x == x, lambda x: x < 5, lambda x: x - x]
)
def test_operators_are_those_of_the_array(apply):
    assert (apply(TensorArray(FIXED)).to_numpy() == apply(FIXED)).all()


def test_a_missing_row_is_nan():
    column = TensorArray(np.array([[1.0, 2.0], [np.nan, np.nan]]))
    assert list(column.isna()) == [False, True]


def test_a_column_stands_in_a_frame():
    frame = pd.DataFrame({"a": TensorArray(FIXED), "b": [1, 2, 3]})
    assert frame["a"].dtype == TensorDtype((2, 2), INT64)
    both = pd.concat([frame, frame], ignore_index=True)
    assert both["a"].dtype == frame["a"].dtype
    assert (both["a"].to_numpy() == np.concatenate([FIXED, FIXED])).all()
    assert frame["a"].isna().tolist() == [False] * 3
    assert "1], [" in str(frame)


def test_a_column_as_objects_and_as_numbers():
    objects = TensorArray(FIXED).astype(object)
    assert objects.dtype == object
    assert (objects[2] == FIXED[2]).all()


def test_frames_with_tensors_become_datasets():
    frame = pd.DataFrame({"a": TensorArray(FIXED), "b": [1, 2, 3]})
    data = ray.data.from_pandas(frame)
    assert (np.stack([row["a"] for row in data.take_all()]) == FIXED).all()
    batch = data.map_batches(lambda each: {"a": each["a"] + 1}, batch_format="numpy").take_batch(3)
    assert (batch["a"] == FIXED + 1).all()


@pytest.mark.parametrize("kind", [ArrowTensorType, ArrowTensorTypeV2])
def test_arrow_types_of_one_shape(kind):
    made = kind((2, 3), pa.int64())
    assert (made.shape, made.value_type) == ((2, 3), pa.int64())
    assert str(made) == f"{kind.__name__}(shape=(2, 3), dtype=int64)"
    assert made == kind((2, 3), pa.int64()) and made != kind((3, 2), pa.int64())
    assert hash(made) == hash(kind((2, 3), pa.int64()))
    assert pickle.loads(pickle.dumps(made)) == made


def test_the_arrow_type_of_several_shapes():
    made = ArrowVariableShapedTensorType(pa.int64(), 2)
    assert (made.ndim, made.shape, made.value_type) == (2, (None, None), pa.int64())
    assert str(made) == "ArrowVariableShapedTensorType(ndim=2, dtype=int64)"


def test_arrow_columns_of_arrays():
    column = ArrowTensorArray.from_numpy(FIXED)
    assert tuple(column.type.shape) == (2, 2)
    assert (column.to_numpy() == FIXED).all()
    assert (column.to_pylist()[1] == FIXED[1]).all()


def test_arrow_columns_of_arrays_of_several_shapes():
    column = ArrowVariableShapedTensorArray.from_numpy(RAGGED)
    assert column.type.ndim == 2
    assert [row.shape for row in column.to_numpy()] == [(2, 2), (3, 2)]


def test_a_flat_array_is_a_plain_column():
    assert ArrowTensorArray.from_numpy(np.array([1, 2])).type == pa.int64()


@pytest.mark.parametrize("wrong", [[], [1, 2]])
def test_lists_of_no_arrays_are_refused(wrong):
    with pytest.raises(ValueError, match="Must give ndarray or iterable of ndarrays, got"):
        ArrowTensorArray.from_numpy(wrong)


@pytest.mark.parametrize("values", [FIXED, RAGGED], ids=["fixed", "ragged"])
def test_tables_with_tensors_become_datasets(values):
    column = ArrowTensorArray if values is FIXED else ArrowVariableShapedTensorArray
    table = pa.table({"a": column.from_numpy(values)})
    rows = ray.data.from_arrow(table).take_all()
    assert [(row["a"] == value).all() for row, value in zip(rows, values, strict=True)] == [True] * len(
        values
    )


def test_a_function_may_return_a_table_with_tensors():
    def tensors(table):
        return pa.table({"a": ArrowTensorArray.from_numpy(np.ones((table.num_rows, 2, 2)))})

    batch = ray.data.range(4).map_batches(tensors, batch_format="pyarrow").take_batch(4)
    assert batch["a"].shape == (4, 2, 2)


def test_tensors_go_through_parquet(tmp_path):
    data = ray.data.from_pandas(pd.DataFrame({"a": TensorArray(FIXED.astype("float32")), "b": [1, 2, 3]}))
    data.write_parquet(str(tmp_path))
    batch = ray.data.read_parquet(str(tmp_path)).sort("b").take_batch(3)
    assert (batch["a"] == FIXED).all() and batch["a"].dtype == np.float32


@pytest.mark.parametrize(
    ("values", "needed"), [([np.ones(2)], True), ([1], False), ([], False), (["a"], False)]
)
def test_columns_of_objects_that_are_arrays(values, needed):
    assert column_needs_tensor_extension(pd.Series(values, dtype=object)) is needed


def test_a_ragged_array_keeps_each_row():
    made = create_ragged_ndarray([np.ones(2), np.ones(3)])
    assert made.dtype == object and [len(row) for row in made] == [2, 3]


def test_python_objects_in_arrow():
    column = ArrowPythonObjectArray.from_objects([{1: 2}, "a"])
    assert column.to_pylist() == [{1: 2}, "a"]
    assert column[0].as_py() == {1: 2}


def test_python_objects_in_pandas():
    column = PythonObjectArray([1, "a", None])
    assert list(column.isna()) == [False, False, True]
    assert (column[0], list(column[1:]), len(column)) == (1, ["a", None], 3)
    assert str(column.dtype) == "python_object()"
    assert list(column.take([1])) == ["a"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            lambda: ArrowConversionError("d", "c", pa.int64()),
            "Error converting column 'c' (target type: int64) to Arrow: d",
        ),
        (lambda: ArrowConversionError("x" * 300), "Error converting data to Arrow: " + "x" * 200 + "..."),
    ],
)
def test_the_text_of_conversion_errors(error, text):
    assert str(error()) == text
