"""Blocks that exist before any run, blocks that count as DataFrames, and what is shared between the calls of a class."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray
import ray.data
from ray.data import ActorPoolStrategy
from ray.data.aggregate import Count
from ray.data.dataset import MaterializedDataset
from ray.data.datatype import DataType
from ray.data.expressions import UDFExpr, col, udf
from ray.data.extensions import TensorArray, TensorDtype
from waiting import Gate

pytestmark = pytest.mark.usefixtures("cluster")


def test_values_are_blocks_at_once() -> None:
    row = {"a": 1}
    data = ray.data.from_items([row, {"a": 2}, {"a": 3}], override_num_blocks=2)
    row["a"] = 9
    assert isinstance(data, MaterializedDataset)
    assert data.num_blocks() == 2
    assert data.take_all() == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert ray.data.from_items([1, 2], override_num_blocks=5).num_blocks() == 2
    assert ray.data.from_items([]).num_blocks() == 0


def columns_of(data: Any) -> dict[str, Any]:
    schema = data.schema()
    return dict(zip(schema.names, schema.types, strict=True))


def of_columns(**columns: list[Any]) -> Any:
    return ray.data.from_arrow(pa.table(columns))


@pytest.mark.parametrize(
    ("made", "columns"),
    [
        (lambda: of_columns(a=[1]).union(of_columns(a=[2.5])), {"a": pa.float64()}),
        (lambda: of_columns(a=[1]).union(of_columns(b=[2])), {"a": pa.int64(), "b": pa.int64()}),
        (lambda: of_columns(a=[None]).union(of_columns(a=[1])).limit(1), {"a": pa.int64()}),
        (lambda: of_columns(a=[[1]]).union(of_columns(a=[[1.5]])), {"a": pa.list_(pa.float64())}),
        (lambda: of_columns(a=[1]).union(of_columns(b=[2])).filter(len), {"a": pa.int64(), "b": pa.int64()}),
        (lambda: of_columns(a=[1]).union(of_columns(a=["x"])), {"a": pa.int64()}),
        (
            lambda: ray.data.from_blocks([pa.table({"a": [1]}), pa.table({"b": [1.5]})]),
            {"a": pa.int64(), "b": pa.float64()},
        ),
        (
            lambda: ray.data.from_items([{"a": 1}, {"b": "x"}], override_num_blocks=2),
            {"a": pa.int64(), "b": pa.string()},
        ),
    ],
)
def test_a_schema_has_the_columns_of_all_blocks(made: Any, columns: dict[str, Any]) -> None:
    assert columns_of(made()) == columns


@pytest.mark.parametrize("of_nothing", [lambda: ray.data.range(0), lambda: ray.data.from_items([])])
def test_nothing_is_aggregated_without_blocks(of_nothing: Any) -> None:
    assert of_nothing().aggregate(Count()) is None
    assert ray.data.range(3).limit(0).aggregate(Count()) is None


def test_whole_blocks_are_split() -> None:
    parts = ray.data.range(20, override_num_blocks=10).split(3)
    assert [part.num_blocks() for part in parts] == [4, 3, 3]
    assert [part.count() for part in parts] == [8, 6, 6]


def test_columns_once_found_are_remembered() -> None:
    data = ray.data.range(3).map(lambda row: {"a": row["id"]})
    assert data.schema(fetch_if_missing=False) is None
    assert data.schema().names == ["a"]
    assert data.schema(fetch_if_missing=False).names == ["a"]


def test_frames_stay_frames() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [1, 2, 3]})
    data = ray.data.from_pandas(frame)

    def batch_of(dataset: Any) -> Any:
        return next(iter(dataset.iter_batches(batch_format=None)))

    for same in (
        data.filter(expr=col("a") > 0),
        data.with_column("c", col("a") + 1),
        data.select_columns(["a"]),
        data.rename_columns({"a": "z"}),
        data.repartition(2),
        data.random_shuffle(),
        data.union(data),
        data.zip(ray.data.range(3)),
        data.split(2)[0],
    ):
        assert isinstance(batch_of(same), pd.DataFrame)
    for other in (data.sort("a"), data.map(lambda row: row), data.groupby("a").count()):
        assert isinstance(batch_of(other), pa.Table)


def test_integers_of_frames_divide_into_floats() -> None:
    data = ray.data.from_pandas(pd.DataFrame({"a": [1, 2, 3]}))
    halves = data.with_column("half", col("a") / 2)
    assert [row["half"] for row in halves.take_all()] == [0.5, 1.0, 1.5]
    assert data.select_columns(["a"]).filter(expr=col("a") / 2 > 1).count() == 1
    assert [row["half"] for row in ray.data.range(3).with_column("half", col("id") / 2).take_all()] == [
        0,
        0,
        1,
    ]


def test_frames_are_those_of_pandas() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    data = ray.data.from_pandas(frame)
    batch = next(iter(data.iter_batches(batch_format="pandas")))
    for made in (data.to_pandas(), data.take_batch(batch_format="pandas"), batch):
        assert type(made) is pd.DataFrame
        pd.testing.assert_frame_equal(frame, made, check_dtype=False)


def test_tensors_of_any_shape() -> None:
    arrays = [np.zeros((2, 2)), np.ones((3, 3))]
    column = pd.Series(arrays).astype(TensorDtype(None, np.float64))
    assert isinstance(column.array, TensorArray)
    rows = ray.data.from_pandas(pd.DataFrame({"x": column})).take_all()
    assert [row["x"].shape for row in rows] == [(2, 2), (3, 3)]


class Caller:
    def __call__(self, batch: Any) -> Any:
        return {"thread": [threading.get_ident()]}


def test_calls_in_an_actor_share_a_thread() -> None:
    data = ray.data.range(8, override_num_blocks=8)
    pool = ActorPoolStrategy(size=1, max_concurrent_calls_per_actor=2)
    for options in ({"concurrency": 1, "max_concurrency": 2}, {"compute": pool}):
        assert len({row["thread"] for row in data.map_batches(Caller, **options).take_all()}) == 1


class Slow:
    def __init__(self, opened: str) -> None:
        Gate(opened).wait()

    def __call__(self, batch: Any) -> Any:
        return batch


def test_actors_are_not_awaited_forever(gate: Any) -> None:
    context = ray.data.DataContext.get_current()
    before, context.wait_for_min_actors_s = context.wait_for_min_actors_s, 1
    try:
        data = ray.data.range(4).map_batches(
            Slow, concurrency=1, fn_constructor_args=[str(gate("open").path)]
        )
        with pytest.raises(ray.exceptions.GetTimeoutError, match="Timed out while starting actors."):
            data.take_all()
    finally:
        context.wait_for_min_actors_s = before
        gate("open").open()


def test_functions_in_expressions() -> None:
    assert isinstance(col("a").abs(), UDFExpr)
    kinds = [
        each.data_type for each in (col("a").str.upper(), col("a").dt.year(), col("a").sin(), col("a").abs())
    ]
    assert kinds == [DataType.string(), DataType.int32(), DataType.float64(), DataType(object)]
    made = UDFExpr(fn=lambda x: x, args=[col("a")], kwargs={}, data_type=DataType.int64())
    assert made.args[0].structurally_equals(col("a"))
    with pytest.raises(TypeError, match="UDF expressions cannot be converted"):
        made.to_pyarrow()
    wrong = udf(DataType.int64())(lambda x: 42)
    with pytest.raises(Exception, match="returned invalid type int"):
        ray.data.range(3).with_column("x", wrong(col("id"))).take_all()


def test_types_say_what_is_wrong() -> None:
    for act, phrase in (
        (lambda: DataType("int"), "DataType supports only PyArrow DataType, NumPy dtype, or Python type"),
        (lambda: DataType.int64().to_python_type(), "is not backed by a Python type"),
        (lambda: DataType.temporal("time32", unit="us"), "time32 unit must be 's' or 'ms'"),
        (lambda: DataType.temporal("x"), "Invalid temporal_type"),
    ):
        with pytest.raises((TypeError, ValueError), match=phrase):
            act()
    assert DataType(bytearray).is_binary_type()


def test_keys_of_a_join_are_compared_on_request() -> None:
    numbers = ray.data.from_items([{"id": 1}])
    texts = ray.data.from_items([{"id": 1.0}])
    with pytest.raises(ValueError) as caught:
        numbers.join(texts, "inner", 2, on=("id",), validate_schemas=True)
    assert str(caught.value).startswith("Key columns are expected to be present and have the same types")
    with pytest.raises(ValueError) as caught:
        numbers.join(numbers, "inner", 2, on="id")
    assert str(caught.value) == "Expected tuple or list as `on` (got str)"


def test_names_of_columns_are_checked_first() -> None:
    data = ray.data.from_items([{"a": 1, "b": 2}])
    with pytest.raises(ValueError, match="received duplicate values in the 'names'"):
        data.rename_columns(["x", "y", "x"])
    with pytest.raises(ValueError, match="requires all elements in the 'names' to be strings"):
        data.rename_columns([1, "y"])
    assert repr(data.groupby("a")) == f"GroupedData(dataset={data!r}, key='a')"
