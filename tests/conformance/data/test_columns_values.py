"""Which values columns hold, and what batches of each format show of them."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pytest
import ray
import ray.data

pytestmark = pytest.mark.usefixtures("cluster")

VALUES: dict[str, list[Any]] = {
    "whole numbers": [1, None, 3],
    "doubles": [1.5, None, -0.0],
    "text": ["a", None, "é"],
    "bytes": [b"a", b"", None],
    "truth": [True, None, False],
    "nothing": [None, None],
    "dates": [dt.date(2024, 1, 1), None],
    "times": [dt.datetime(2024, 1, 1, 12), None],
    "durations": [dt.timedelta(seconds=3), None],
    "decimals": [decimal.Decimal("1.20"), None],
    "lists": [[1, 2], [], None],
    "lists of text": [["a"], ["b", "c"]],
    "nested lists": [[[1], [2, 3]], [[]]],
    "structs": [{"p": 1, "q": "x"}, {"p": 2, "q": None}],
    "lists of structs": [[{"p": 1}], []],
    "mixed": [1, "a"],
    "large numbers": [2**70, 1],
    "complex numbers": [1 + 2j, 2j],
    "classes": [int, dict],
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_come_back(kind: str) -> None:
    given = VALUES[kind]
    data = ray.data.from_items([{"x": value} for value in given], override_num_blocks=1)
    assert [row["x"] for row in data.take_all()] == given
    again = data.map_batches(lambda table: table, batch_format="pyarrow")
    assert [row["x"] for row in again.take_all()] == given


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32", "float64", "bool"])
def test_arrays_of_one_shape(dtype: str) -> None:
    given = [np.full((2, 3), i, dtype) for i in range(3)]
    batch = ray.data.from_items([{"x": each} for each in given], override_num_blocks=1).take_batch(3)["x"]
    assert (batch.dtype, batch.shape) == (np.dtype(dtype), (3, 2, 3))
    assert np.array_equal(batch, np.stack(given))


def test_arrays_of_several_shapes() -> None:
    given = [np.zeros((2, 2)), np.ones((1, 3))]
    data = ray.data.from_items([{"x": each} for each in given], override_num_blocks=1)
    batch = data.take_batch(2)["x"]
    assert batch.dtype == object
    for found, each in zip(batch, given, strict=True):
        assert np.array_equal(found, each)


def test_nulls_in_a_batch_of_arrays() -> None:
    rows = [{"i": 1, "b": True, "s": "a"}, {"i": None, "b": None, "s": None}]
    batch = ray.data.from_items(rows, override_num_blocks=1).take_batch(2)
    assert batch["i"].dtype == np.float64
    assert np.isnan(batch["i"][1])
    assert batch["b"].tolist() == [True, None]
    assert batch["s"].tolist() == ["a", None]


def test_lists_in_a_batch_are_arrays_one_a_row() -> None:
    batch = ray.data.from_items([{"x": [1, 2]}, {"x": [3]}], override_num_blocks=1).take_batch(2)["x"]
    assert batch.dtype == object
    assert [row.tolist() for row in batch] == [[1, 2], [3]]


def test_whole_numbers_with_nulls_stay_whole_in_pandas() -> None:
    frame = ray.data.from_items([{"x": 2**53 + 1}, {"x": None}], override_num_blocks=1).take_batch(
        2, batch_format="pandas"
    )
    assert frame["x"][0] == 2**53 + 1
    assert frame["x"].isna().tolist() == [False, True]


def test_an_index_is_no_column() -> None:
    def indexed(frame: Any) -> Any:
        return frame.set_index("id", drop=False).rename_axis("k")

    assert ray.data.range(2).map_batches(indexed, batch_format="pandas").take_all() == [{"id": 0}, {"id": 1}]


@pytest.mark.chosen_difference("sets stay sets", id="D-data-sets")
def test_sets_stay_sets() -> None:
    assert ray.data.from_items([{"x": {1, 2}}]).take_all() == [{"x": {1, 2}}]


@pytest.mark.chosen_difference("times keep their zone", id="D-data-time-zones")
def test_times_keep_their_zone() -> None:
    given = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    found = ray.data.from_items([{"x": given}]).take_all()[0]["x"]
    assert found == given
    assert found.utcoffset() == dt.timedelta(0)


@pytest.mark.chosen_difference("a frame takes arrays of more dimensions", id="D-data-frame-arrays")
def test_a_frame_takes_an_array_of_two_dimensions_as_a_column() -> None:
    def widen(frame: Any) -> Any:
        frame["x"] = np.ones((len(frame), 3))
        return frame

    batch = ray.data.range(4).map_batches(widen, batch_format="pandas").take_batch(4)
    assert batch["x"].shape == (4, 3)


@pytest.mark.chosen_difference("numpy's dtypes where nothing is lost", id="D-data-frame-dtypes")
def test_frames_have_numpys_dtypes() -> None:
    frame = ray.data.range(2).take_batch(2, batch_format="pandas")
    assert frame["id"].dtype == np.int64
    assert frame["id"].values.reshape(-1, 1).tolist() == [[0], [1]]


@pytest.mark.chosen_difference("dates of numpy stay dates", id="D-data-dates")
@pytest.mark.parametrize("unit", ["Y", "M", "D"])
def test_dates_of_numpy_are_dates(unit: str) -> None:
    days = np.array(["2024-01-01"], dtype=f"datetime64[{unit}]")
    made = ray.data.range(1).map_batches(lambda batch: {"day": days})
    assert made.take_all() == [{"day": dt.date(2024, 1, 1)}]
    assert made.map_batches(lambda batch: batch).take_all() == [{"day": dt.date(2024, 1, 1)}]


@pytest.mark.parametrize("unit", ["h", "m", "s", "ms", "us"])
def test_times_of_numpy_are_times(unit: str) -> None:
    times = np.array(["2024-01-01T05"], dtype=f"datetime64[{unit}]")
    made = ray.data.range(1).map_batches(lambda batch: {"time": times})
    assert made.take_all() == [{"time": dt.datetime(2024, 1, 1, 5)}]
