"""Semantics of datasets, numbered as in the inventory of Ray's interface (DATA-1 to DATA-19)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray
import ray.data
from ray.data import ActorPoolStrategy, DataContext
from ray.data.expressions import col
from ray.exceptions import RayTaskError

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def settings() -> Any:
    """Settings that a test may change."""
    context = DataContext.get_current()
    before = (context.execution_options.preserve_order, context.max_errored_blocks)
    context.execution_options.preserve_order = True
    yield context
    context.execution_options.preserve_order, context.max_errored_blocks = before


def ids(dataset: Any, column: str = "id") -> list[Any]:
    return [row[column] for row in dataset.take_all()]


def test_data_1_nothing_runs_before_something_is_consumed(tmp_path: Path) -> None:
    def mark(row: dict[str, Any]) -> dict[str, Any]:
        (tmp_path / str(row["id"])).touch()
        return row

    ds = ray.data.range(3).map(mark).filter(lambda row: True)
    assert "mark" in repr(ds)
    assert not list(tmp_path.iterdir())
    assert ds.count() == 3
    assert len(list(tmp_path.iterdir())) == 3


def test_data_2_rows_are_dicts() -> None:
    assert ray.data.from_items([1, 2]).take_all() == [{"item": 1}, {"item": 2}]
    with pytest.raises(RayTaskError) as caught:
        ray.data.range(2).map(lambda row: row["id"]).take_all()
    assert "dict" in str(caught.value)


def test_data_3_batches() -> None:
    forms = {"default": dict, "numpy": dict, "pandas": pd.DataFrame, "pyarrow": pa.Table, None: pa.Table}
    for form, kind in forms.items():
        assert isinstance(ray.data.range(4).take_batch(4, batch_format=form), kind)
    with pytest.raises(ValueError, match="polars"):
        ray.data.range(1).map_batches(lambda batch: batch, batch_format="polars")
    with pytest.raises(ValueError, match="batch_size"):
        ray.data.range(1).map_batches(lambda batch: batch, num_gpus=1)
    sizes = ray.data.range(9, override_num_blocks=1).map_batches(lambda batch: {"n": [len(batch["id"])]})
    assert ids(sizes, "n") == [9]


def test_data_4_batches_are_read_only() -> None:
    def write(batch: dict[str, Any]) -> dict[str, Any]:
        batch["id"][0] = 7
        return batch

    with pytest.raises(RayTaskError, match="read-only"):
        ray.data.range(2).map_batches(write).take_all()


@pytest.mark.parametrize(
    "make",
    [
        lambda batch: {"id": batch["id"] + 1},
        lambda batch: pd.DataFrame({"id": batch["id"] + 1}),
        lambda batch: pa.table({"id": batch["id"] + 1}),
        lambda batch: ({"id": batch["id"][at : at + 1] + 1} for at in range(3)),
    ],
    ids=["dict", "frame", "table", "generator"],
)
def test_data_5_a_function_may_return_any_batch(make: Any) -> None:
    assert ids(ray.data.range(3, override_num_blocks=1).map_batches(make)) == [1, 2, 3]


@pytest.mark.parametrize(
    "made", [[1, 2], None, {"a": np.arange(2), "b": np.arange(3)}], ids=["list", "none", "lengths"]
)
def test_data_5_what_is_no_batch(made: Any) -> None:
    with pytest.raises(RayTaskError):
        ray.data.range(2).map_batches(lambda batch: made).take_all()


@pytest.mark.chosen_difference("a function's exception keeps its type", id="D-data-errors")
def test_data_5_an_exception_is_caught_by_its_type() -> None:
    def fail(row: dict[str, Any]) -> dict[str, Any]:
        return {"id": 1 / row["id"]}

    with pytest.raises(ZeroDivisionError) as caught:
        ray.data.range(2).map(fail).take_all()
    assert isinstance(caught.value, RayTaskError)


class Times:
    def __init__(self, factor: int, plus: int = 0) -> None:
        self.factor = factor
        self.plus = plus

    def __call__(self, batch: dict[str, Any], more: int = 0) -> dict[str, Any]:
        return {"id": batch["id"] * self.factor + self.plus + more}


@pytest.mark.parametrize(
    "compute",
    [None, ActorPoolStrategy(size=1), ActorPoolStrategy(min_size=1, max_size=2)],
    ids=["none", "size", "bounds"],
)
def test_data_6_classes_run_in_actors(compute: Any) -> None:
    ds = ray.data.range(3).map_batches(
        Times,
        compute=compute,
        fn_constructor_args=(10,),
        fn_constructor_kwargs={"plus": 1},
        fn_kwargs={"more": 5},
    )
    assert sorted(ids(ds)) == [6, 16, 26]


@pytest.mark.chosen_difference("the order of rows is kept without asking", id="D-data-order")
def test_data_7_order_is_kept_by_default(settings: DataContext) -> None:
    settings.execution_options.preserve_order = False

    def slow_first(batch: dict[str, Any]) -> dict[str, Any]:
        if 0 in batch["id"]:
            threading.Event().wait(0.3)
        return batch

    assert ids(ray.data.range(40, override_num_blocks=8).map_batches(slow_first)) == list(range(40))


def test_data_7_order_is_kept_if_asked_for() -> None:
    assert ids(ray.data.range(40, override_num_blocks=8).map(lambda row: row)) == list(range(40))


@pytest.mark.parametrize(
    "keep",
    [{"fn": lambda row: row["id"] % 2}, {"expr": "id == 1 or id == 3"}, {"expr": col("id").is_in([1, 3])}],
    ids=["truth", "text", "expression"],
)
def test_data_8_filters(keep: dict[str, Any]) -> None:
    assert ids(ray.data.range(4).filter(**keep)) == [1, 3]


def test_data_9_transforms() -> None:
    ds = ray.data.range(3)
    assert ids(ds.flat_map(lambda row: [row] * row["id"])) == [1, 2, 2]
    assert sorted(ids(ds.union(ds))) == [0, 0, 1, 1, 2, 2]
    assert ids(ds.limit(2)) == [0, 1]
    assert ids(ds.sort("id", descending=True)) == [2, 1, 0]
    zipped = ds.zip(ray.data.from_items([{"x": each} for each in "abc"])).take_all()
    assert zipped == [{"id": 0, "x": "a"}, {"id": 1, "x": "b"}, {"id": 2, "x": "c"}]
    with pytest.raises(ValueError):
        ds.zip(ray.data.range(4)).take_all()


def test_data_10_splits() -> None:
    assert sum(part.count() for part in ray.data.range(10).split(3)) == 10
    assert [part.count() for part in ray.data.range(10).split(3, equal=True)] == [3, 3, 3]
    train, test = ray.data.range(10).train_test_split(0.3)
    assert (train.count(), test.count()) == (7, 3)


def test_data_11_the_last_batch_is_kept_unless_dropped() -> None:
    lengths = [len(batch["id"]) for batch in ray.data.range(300).iter_batches()]
    assert lengths == [256, 44]
    assert [len(b["id"]) for b in ray.data.range(300).iter_batches(batch_size=256, drop_last=True)] == [256]


def test_data_12_torch_batches() -> None:
    torch = pytest.importorskip("torch")
    batches = list(ray.data.range(5).iter_torch_batches(batch_size=4))
    assert [type(batch["id"]) for batch in batches] == [torch.Tensor] * 2
    assert batches[0]["id"].tolist() == [0, 1, 2, 3]
    collated = ray.data.range(2).iter_torch_batches(batch_size=2, collate_fn=lambda batch: sorted(batch))
    assert list(collated) == [["id"]]


@pytest.mark.chosen_difference("text is a list", id="D-data-torch-lists")
def test_data_12_a_column_of_text_is_a_list() -> None:
    pytest.importorskip("torch")
    (batch,) = ray.data.from_items([{"s": "a", "x": 1}, {"s": "b", "x": 2}]).iter_torch_batches()
    assert batch["s"] == ["a", "b"]
    assert batch["x"].tolist() == [1, 2]


def test_data_13_arrays() -> None:
    fixed = ray.data.from_numpy(np.arange(12).reshape(3, 2, 2))
    assert fixed.take(1)[0]["data"].tolist() == [[0, 1], [2, 3]]
    ragged = ray.data.range(3).map(lambda row: {"a": np.ones(row["id"] + 1)}).take_all()
    assert [row["a"].shape for row in ragged] == [(1,), (2,), (3,)]


def test_data_14_rows_of_several_schemas() -> None:
    found = ray.data.from_items([{"a": 1}, {"b": 2}], override_num_blocks=2).take_all()
    plain = [{name: value for name, value in row.items() if value is not None} for row in found]
    assert plain == [{"a": 1}, {"b": 2}]


@pytest.mark.chosen_difference("a set comes back as a set", id="D-data-sets")
def test_data_14_sets() -> None:
    assert ray.data.from_items([{"s": {1, 2}}]).take_all() == [{"s": {1, 2}}]


def test_data_15_a_dataset_is_no_list() -> None:
    ds: Any = ray.data.range(3)
    with pytest.raises(AttributeError, match="count"):
        len(ds)
    with pytest.raises(TypeError, match="iter_rows"):
        iter(ds)
    with pytest.raises(TypeError):
        ds[0]
    with pytest.raises(NotImplementedError):
        ds.map(lambda row: row).num_blocks()


def test_data_16_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ray.data.read_parquet(str(tmp_path / "missing.parquet"))
    out = tmp_path / "out"
    for _ in range(2):
        ray.data.range(6, override_num_blocks=3).write_parquet(str(out))
    assert len(list(out.glob("*.parquet"))) == 6
    assert ray.data.read_parquet(str(out)).count() == 12
    one = tmp_path / "one"
    ray.data.range(6, override_num_blocks=3).write_parquet(str(one), min_rows_per_file=6)
    assert len(list(one.glob("*.parquet"))) == 1


def test_data_17_a_result_comes_before_the_last_block_is_made(tmp_path: Path) -> None:
    def mark(batch: dict[str, Any]) -> dict[str, Any]:
        (tmp_path / str(batch["id"][0])).touch()
        return {"x": np.zeros((len(batch["id"]), 100_000))}

    flow = iter(ray.data.range(400, override_num_blocks=100).map_batches(mark).iter_batches(batch_size=4))
    assert next(flow)["x"].shape == (4, 100_000)
    assert len(list(tmp_path.iterdir())) < 100
    del flow


def test_data_18_streaming_splits_are_consumed_together_and_again() -> None:
    parts = ray.data.range(20, override_num_blocks=4).streaming_split(2, equal=True)

    @ray.remote(num_cpus=0)  # the dataset needs the CPUs
    def consume(part: Any) -> list[list[int]]:
        return [[row["id"] for row in part.iter_rows()] for _ in range(2)]

    found = ray.get([consume.remote(part) for part in parts])
    for epoch in range(2):
        assert sorted(found[0][epoch] + found[1][epoch]) == list(range(20))
        assert len(found[0][epoch]) == 10


def test_data_19_failed_blocks_fail_the_run_unless_some_may(settings: DataContext) -> None:
    def fail(batch: dict[str, Any]) -> dict[str, Any]:
        if 3 in batch["id"]:
            raise ValueError("a bad block")
        return batch

    with pytest.raises(RayTaskError, match="a bad block"):
        ray.data.range(4, override_num_blocks=2).map_batches(fail).take_all()
    settings.max_errored_blocks = 1
    assert ids(ray.data.range(4, override_num_blocks=2).map_batches(fail)) == [0, 1]


def test_data_19_functions_may_be_tried_again(settings: DataContext, tmp_path: Path) -> None:
    def flaky(row: dict[str, Any]) -> dict[str, Any]:
        mark = tmp_path / "failed"
        if row["id"] == 2 and not mark.exists():
            mark.touch()
            raise ConnectionError("try again")
        return row

    settings.max_map_retries, settings.retried_map_errors = 1, ["try again"]
    try:
        assert sorted(ids(ray.data.range(4).map(flaky))) == [0, 1, 2, 3]
    finally:
        settings.max_map_retries, settings.retried_map_errors = 0, False
