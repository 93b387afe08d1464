"""Errors of functions: the same for every operation; full pools; expressions with classes."""

from __future__ import annotations

import os
import re
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import ray
from ray.data import ActorPoolStrategy
from ray.data.datatype import DataType
from ray.data.expressions import col, udf
from ray.exceptions import RayTaskError, UserCodeException
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("cluster")


def fail(value: Any) -> Any:
    raise KeyError("boom")


class Failing:
    def __call__(self, value: Any) -> Any:
        raise KeyError("boom")


@pytest.mark.parametrize(
    "act",
    [
        lambda ds: ds.map(fail).take_all(),
        lambda ds: ds.flat_map(fail).take_all(),
        lambda ds: ds.filter(fail).count(),
        lambda ds: ds.map_batches(fail).materialize(),
        lambda ds: ds.map_batches(Failing).take_all(),
        lambda ds: ds.add_column("x", fail).take_all(),
        lambda ds: list(ds.map(fail).iter_batches()),
    ],
)
def test_an_error_of_a_function_is_one_of_user_code(act: Any) -> None:
    with pytest.raises(UserCodeException) as caught:
        act(ray.data.range(1))
    assert isinstance(caught.value, RayTaskError)
    title, *trace = str(caught.value).splitlines()
    assert "boom" in str(caught.value) and re.search(r"(Map|Filter|Batches)\(", title)
    assert any(f'File "{__file__}"' in line for line in trace)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert not [frame for frame in frames if "/execution/" in frame.filename]


@pytest.mark.parametrize(
    "act",
    [
        lambda ds: ds.map(lambda row: 5).take_all(),
        lambda ds: ds.flat_map(lambda row: [5]).take_all(),
        lambda ds: ds.map_batches(lambda batch: 5).take_all(),
    ],
)
def test_a_wrong_result_is_no_error_of_user_code(act: Any) -> None:
    with pytest.raises(ValueError) as caught:
        act(ray.data.range(1))
    assert not isinstance(caught.value, UserCodeException)


# -- groups


@pytest.mark.parametrize(
    ("given", "kind"),
    [({}, pd.DataFrame), ({"batch_format": "default"}, pd.DataFrame), ({"batch_format": "pandas"}, pd.DataFrame),
     ({"batch_format": "numpy"}, dict), ({"batch_format": "pyarrow"}, pa.Table), ({"batch_format": None}, pa.Table)],
)  # fmt: skip
def test_a_group_is_a_frame_unless_another_format_is_asked_for(given: dict[str, Any], kind: type) -> None:
    def look(group: Any) -> Any:
        assert isinstance(group, kind), type(group)
        return {"ok": [True]}

    assert ray.data.range(3).groupby("id").map_groups(look, **given).take_all() == [{"ok": True}] * 3


def test_a_group_as_a_frame_can_be_given_a_column() -> None:
    dataset = ray.data.from_items([{"g": 1, "v": 2}, {"g": 1, "v": 4}, {"g": 2, "v": 5}])
    found = (
        dataset.groupby("g").map_groups(lambda frame: frame.assign(off=frame.v - frame.v.mean())).take_all()
    )
    assert sorted(row["off"] for row in found) == [-1.0, 0.0, 1.0]


def test_the_name_of_a_batchs_type() -> None:
    dataset = ray.data.range(1).map_batches(
        lambda batch: {"n": [type(batch).__name__]}, batch_format="pandas"
    )
    assert dataset.take_all() == [{"n": "DataFrame"}]


def test_groups_with_options_of_their_tasks() -> None:
    def variable(group: Any) -> Any:
        return {"v": [os.environ.get("OF_A_GROUP", "not set")]}

    grouped = ray.data.range(1).groupby("id")
    made = grouped.map_groups(
        variable, ray_remote_args_fn=lambda: {"runtime_env": {"env_vars": {"OF_A_GROUP": "69"}}}
    )
    assert made.take_all() == [{"v": "69"}]


# -- little data, slow functions


class Meeting:
    """Returns a batch once two actors have been given one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        (self.folder / str(os.getpid())).touch()
        wait_for(lambda: len(list(self.folder.iterdir())) == 2, 60.0, "a batch in the other actor")
        return {
            "pid": np.full(len(batch["id"]), os.getpid()),
            "rows": np.full(len(batch["id"]), len(batch["id"])),
        }


def test_a_pool_is_filled_by_little_data(tmp_path: Path) -> None:
    pool = ActorPoolStrategy(size=2)
    found = (
        ray.data.range(40, override_num_blocks=1)
        .repartition(4)
        .map_batches(Meeting, fn_constructor_args=[tmp_path], batch_size=10, compute=pool, num_cpus=0.5)
    )
    rows = found.take_all()
    assert len({row["pid"] for row in rows}) == 2
    assert {row["rows"] for row in rows} == {10}


def test_a_slow_function_gets_more_than_one_process() -> None:
    def slow(row: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.05)  # the work under test is slow
        return {"id": row["id"], "pid": os.getpid()}

    rows = ray.data.range(24).map(slow).take_all()
    assert sorted(row["id"] for row in rows) == list(range(24))
    assert len({row["pid"] for row in rows}) > 1


# -- expressions


@udf(return_dtype=DataType.int64())
class Add:
    def __init__(self, amount: int) -> None:
        self.amount = amount

    def __call__(self, values: Any) -> Any:
        return pc.add(values, self.amount)


@udf(return_dtype=DataType.int64())
class AddLater:
    def __init__(self, amount: int) -> None:
        self.amount = amount

    async def __call__(self, values: Any) -> Any:
        return pc.add(values, self.amount)


@pytest.mark.parametrize("made", [Add, AddLater])
@pytest.mark.parametrize("compute", [None, "pool"])
def test_a_class_in_an_expression(made: Any, compute: str | None) -> None:
    pool = ActorPoolStrategy(size=1) if compute else None
    dataset = ray.data.range(2).with_column("r", made(5)(col("id")), compute=pool)
    assert dataset.take_all() == [{"id": 0, "r": 5}, {"id": 1, "r": 6}]


def test_two_instances_of_a_class_in_expressions() -> None:
    dataset = ray.data.range(1).with_columns({"r": Add(5)(col("id")), "s": Add(6)(col("id"))})
    assert dataset.take_all() == [{"id": 0, "r": 5, "s": 6}]
    nested = ray.data.range(2).with_column("r", Add(5)(Add(1)(col("id") + 1)) * 2)
    assert [row["r"] for row in nested.take_all()] == [14, 16]


def test_a_plain_expression_in_a_pool() -> None:
    dataset = ray.data.range(2).with_column("r", col("id") + 1, compute=ActorPoolStrategy(size=1))
    assert [row["r"] for row in dataset.take_all()] == [1, 2]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("sepal.length > 5.0", [6.0]),
        ("sepal.length in [4.0]", [4.0]),
        ("sepal.length > 3 and sepal.length < 5", [4.0]),
    ],
)
def test_names_with_dots_in_a_filter(text: str, kept: list[float]) -> None:
    dataset = ray.data.from_items([{"sepal.length": 4.0}, {"sepal.length": 6.0}])
    assert [row["sepal.length"] for row in dataset.filter(expr=text).take_all()] == kept
    assert [row["sepal.length"] for row in dataset.map(lambda row: row).filter(expr=text).take_all()] == kept


# -- parts


def test_consumers_of_a_split_hold_their_own_rows() -> None:
    iterators = ray.data.range(10).streaming_split(2, equal=True)
    counts: dict[int, int] = {}

    def hold(number: int) -> None:
        counts[number] = iterators[number].materialize().count()

    threads = [threading.Thread(target=hold, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert counts == {0: 5, 1: 5}


@pytest.mark.parametrize(
    ("blocks", "rows", "sizes"), [(3, 4, [4, 4, 2]), (7, 4, [4, 4, 2]), (1, 3, [3, 3, 3, 1])]
)
def test_strict_blocks_have_just_so_many_rows(blocks: int, rows: int, sizes: list[int]) -> None:
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    dataset = ray.data.range(10, override_num_blocks=blocks)
    refs = dataset.repartition(target_num_rows_per_block=rows, strict=True).to_arrow_refs()
    assert [each.num_rows for each in ray.get(refs)] == sizes


@pytest.mark.parametrize(
    ("rows", "blocks", "sizes"),
    [(10, 4, [2, 3, 2, 3]), (10, 5, [2] * 5), (3, 5, [1, 1, 1, 0, 0]), (20, 3, [6, 7, 7])],
)
def test_rows_of_repartitioned_blocks(rows: int, blocks: int, sizes: list[int]) -> None:
    dataset = ray.data.range(rows, override_num_blocks=2).repartition(blocks)
    assert [each.num_rows for each in ray.get(dataset.to_arrow_refs())] == sizes
