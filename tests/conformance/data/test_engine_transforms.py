"""Rows and batches through functions, several datasets together, and how lazily all that is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray
from ray.data import ActorPoolStrategy, TaskPoolStrategy

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def quiet() -> None:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True


class AddToId:
    def __init__(self, amount: int = 1, *, factor: int = 1) -> None:
        self.amount = amount
        self.factor = factor

    def __call__(self, batch: dict[str, Any], more: int = 0) -> dict[str, Any]:
        return {"id": batch["id"] * self.factor + self.amount + more}


def ids(dataset: Any) -> list[int]:
    return [row["id"] for row in dataset.take_all()]


def test_nothing_runs_before_something_is_asked_for(tmp_path: Any) -> None:
    def touch(row: dict[str, Any]) -> dict[str, Any]:
        (tmp_path / "ran").touch()
        return row

    dataset = ray.data.range(3).map(touch)
    assert "Map(touch)" in repr(dataset)
    assert not (tmp_path / "ran").exists()
    dataset.take_all()
    assert (tmp_path / "ran").exists()


def test_map_gives_a_row_for_a_row() -> None:
    dataset = ray.data.range(4).map(lambda row: {"double": row["id"] * 2})
    assert dataset.take_all() == [{"double": 0}, {"double": 2}, {"double": 4}, {"double": 6}]


def test_map_passes_arguments_behind_the_row() -> None:
    def add(row: dict[str, Any], amount: int, *, times: int) -> dict[str, Any]:
        return {"id": row["id"] + amount * times}

    assert ids(ray.data.range(2).map(add, fn_args=[10], fn_kwargs={"times": 2})) == [20, 21]


def test_map_refuses_what_is_no_row() -> None:
    with pytest.raises(ValueError) as caught:
        ray.data.range(1).map(lambda row: row["id"]).take_all()
    assert isinstance(caught.value, ray.exceptions.RayTaskError)


def test_flat_map_gives_any_number_of_rows() -> None:
    dataset = ray.data.range(3).flat_map(lambda row: [{"id": row["id"]}] * row["id"])
    assert ids(dataset) == [1, 2, 2]


def test_flat_map_takes_generators() -> None:
    def twice(row: dict[str, Any]) -> Any:
        yield row
        yield row

    assert ids(ray.data.range(2).flat_map(twice)) == [0, 0, 1, 1]


def test_filter_by_a_function_goes_by_truth() -> None:
    assert ids(ray.data.range(5).filter(lambda row: row["id"] % 2)) == [1, 3]


def test_filter_wants_a_function_or_an_expression() -> None:
    with pytest.raises(ValueError):
        ray.data.range(5).filter()
    with pytest.raises(ValueError):
        ray.data.range(5).filter(lambda row: True, expr="id > 3")
    with pytest.raises(ValueError):
        ray.data.range(5).filter("id > 3")


def test_filter_by_a_class() -> None:
    class Above:
        def __init__(self, least: int) -> None:
            self.least = least

        def __call__(self, row: dict[str, Any]) -> bool:
            return bool(row["id"] > self.least)

    dataset = ray.data.range(5).filter(Above, fn_constructor_args=[2], compute=ActorPoolStrategy(size=1))
    assert ids(dataset) == [3, 4]


def test_a_batch_is_a_dict_of_arrays() -> None:
    def look(batch: Any) -> Any:
        assert type(batch) is dict
        assert type(batch["id"]) is np.ndarray
        return batch

    assert ids(ray.data.range(3).map_batches(look)) == [0, 1, 2]


@pytest.mark.parametrize(("batch_format", "kind"), [("pandas", pd.DataFrame), ("pyarrow", pa.Table)])
def test_batches_of_other_formats(batch_format: str, kind: type) -> None:
    def look(batch: Any) -> Any:
        assert isinstance(batch, kind), type(batch)
        return batch

    assert ids(ray.data.range(3).map_batches(look, batch_format=batch_format)) == [0, 1, 2]


def test_without_a_format_a_batch_is_the_block() -> None:
    def look(batch: Any) -> Any:
        assert isinstance(batch, pa.Table)
        return batch

    assert ids(ray.data.range(3).map_batches(look, batch_format=None)) == [0, 1, 2]


def test_unknown_formats_are_refused_at_once() -> None:
    with pytest.raises(ValueError):
        ray.data.range(1).map_batches(lambda batch: batch, batch_format="torch")


def test_without_a_size_a_batch_is_a_whole_block() -> None:
    dataset = ray.data.range(10, override_num_blocks=5)
    sizes = dataset.map_batches(lambda batch: {"n": np.array([len(batch["id"])])}).take_all()
    assert [row["n"] for row in sizes] == [2] * 5


def test_batches_are_filled_from_several_blocks() -> None:
    dataset = ray.data.range(10, override_num_blocks=5)
    sizes = dataset.map_batches(lambda batch: {"n": np.array([len(batch["id"])])}, batch_size=4).take_all()
    assert [row["n"] for row in sizes] == [4, 4, 2]


def test_a_large_block_gives_several_batches() -> None:
    dataset = ray.data.range(10, override_num_blocks=1)
    sizes = dataset.map_batches(lambda batch: {"n": np.array([len(batch["id"])])}, batch_size=4).take_all()
    assert [row["n"] for row in sizes] == [4, 4, 2]


@pytest.mark.parametrize("size", [0, -1])
def test_batches_have_a_row_at_least(size: int) -> None:
    with pytest.raises(ValueError):
        ray.data.range(1).map_batches(lambda batch: batch, batch_size=size)


def test_batches_are_read_only() -> None:
    def write(batch: dict[str, Any]) -> dict[str, Any]:
        batch["id"][0] = 7
        return batch

    with pytest.raises(ray.exceptions.RayTaskError, match="read-only"):
        ray.data.range(2).map_batches(write).take_all()


@pytest.mark.chosen_difference("arrays of a copied batch can be written to", id="D-data-copied-batches")
def test_copies_of_batches_can_be_written_to() -> None:
    def write(batch: dict[str, Any]) -> dict[str, Any]:
        batch["id"][0] = 7
        return batch

    assert ids(ray.data.range(2, override_num_blocks=1).map_batches(write, zero_copy_batch=False)) == [7, 1]


def test_a_batch_function_may_yield_batches() -> None:
    def twice(batch: dict[str, Any]) -> Any:
        yield batch
        yield {"id": batch["id"] + 10}

    assert ids(ray.data.range(2, override_num_blocks=1).map_batches(twice)) == [0, 1, 10, 11]


@pytest.mark.parametrize("made", [pd.DataFrame({"x": [1, 2]}), pa.table({"x": [1, 2]}), {"x": [1, 2]}])
def test_a_batch_function_may_return_any_kind_of_batch(made: Any) -> None:
    dataset = ray.data.range(1).map_batches(lambda batch: made)
    assert dataset.take_all() == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize("made", [None, [1, 2], 5, {"a": 1}, {"a": [1, 2], "b": [1]}], ids=repr)
def test_what_is_no_batch_is_refused(made: Any) -> None:
    with pytest.raises(ValueError) as caught:
        ray.data.range(1).map_batches(lambda batch: made).take_all()
    assert isinstance(caught.value, ray.exceptions.RayTaskError)


def test_a_class_is_constructed_with_its_arguments() -> None:
    dataset = ray.data.range(3).map_batches(
        AddToId,
        fn_constructor_args=[1],
        fn_constructor_kwargs={"factor": 10},
        fn_args=[100],
        compute=ActorPoolStrategy(size=1),
    )
    assert ids(dataset) == [101, 111, 121]


def test_a_class_needs_no_compute() -> None:
    assert ids(ray.data.range(3).map_batches(AddToId)) == [1, 2, 3]


def test_a_class_keeps_its_instance() -> None:
    class Counter:
        def __init__(self) -> None:
            self.seen = 0

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            self.seen += 1
            return {"seen": np.array([self.seen])}

    rows = (
        ray.data.range(6, override_num_blocks=6)
        .map_batches(Counter, compute=ActorPoolStrategy(size=1))
        .take_all()
    )
    assert sorted(row["seen"] for row in rows) == [1, 2, 3, 4, 5, 6]


def test_a_class_with_asynchronous_calls() -> None:
    class Later:
        async def __call__(self, batch: dict[str, Any]) -> Any:
            yield {"id": batch["id"] + 1}

    assert sorted(ids(ray.data.range(4, override_num_blocks=2).map_batches(Later))) == [1, 2, 3, 4]


def test_compute_must_fit_the_function() -> None:
    with pytest.raises(ValueError):
        ray.data.range(1).map_batches(AddToId, compute=TaskPoolStrategy(1))
    with pytest.raises(ValueError):
        ray.data.range(1).map_batches(lambda batch: batch, compute=ActorPoolStrategy(size=1))
    with pytest.raises(ValueError):
        ray.data.range(1).map_batches(lambda batch: batch, compute="actors")
    with pytest.raises(ValueError):
        ray.data.range(1).map_batches(lambda batch: batch, fn_constructor_args=[1])


@pytest.mark.parametrize("concurrency", [0, "two", (2, 1)])
def test_concurrency_is_checked(concurrency: Any) -> None:
    with pytest.raises(ValueError):
        ray.data.range(1).map_batches(AddToId, concurrency=concurrency)


def test_bounds_of_concurrency_are_for_classes() -> None:
    with pytest.raises(ValueError):
        ray.data.range(1).map_batches(lambda batch: batch, concurrency=(1, 2))


@pytest.mark.parametrize("concurrency", [1, 2, (1, 2)])
def test_concurrency_of_a_class(concurrency: Any) -> None:
    dataset = ray.data.range(4, override_num_blocks=4).map_batches(AddToId, concurrency=concurrency)
    assert sorted(ids(dataset)) == [1, 2, 3, 4]


def test_concurrency_of_a_function() -> None:
    dataset = ray.data.range(4, override_num_blocks=4).map_batches(lambda batch: batch, concurrency=1)
    assert ids(dataset) == [0, 1, 2, 3]


def test_gpus_want_a_batch_size() -> None:
    with pytest.raises(ValueError, match="batch_size"):
        ray.data.range(1).map_batches(lambda batch: batch, num_gpus=1)


def test_options_of_tasks_reach_them() -> None:
    def where(row: dict[str, Any]) -> dict[str, Any]:
        import os

        return {"word": os.environ.get("A_WORD")}

    dataset = ray.data.range(1).map(where, runtime_env={"env_vars": {"A_WORD": "here"}}, num_cpus=0.5)
    assert dataset.take_all() == [{"word": "here"}]


@pytest.mark.parametrize("sizes", [{"size": 0}, {"min_size": 0}, {"min_size": 3, "max_size": 2}])
def test_sizes_of_a_pool_are_checked(sizes: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        ActorPoolStrategy(**sizes)


def test_limit_gives_the_first_rows() -> None:
    assert ids(ray.data.range(10, override_num_blocks=3).limit(4)) == [0, 1, 2, 3]
    assert ids(ray.data.range(2).limit(4)) == [0, 1]
    assert ids(ray.data.range(2).limit(0)) == []


def test_union_has_the_rows_of_all() -> None:
    dataset = ray.data.range(2).union(ray.data.range(3), ray.data.range(1))
    assert sorted(ids(dataset)) == [0, 0, 0, 1, 1, 2]


@pytest.mark.chosen_difference("order is kept without being asked for", id="D-data-order")
def test_union_is_one_after_the_other() -> None:
    dataset = ray.data.range(2).union(ray.data.range(3), ray.data.range(1))
    assert ids(dataset) == [0, 1, 0, 1, 2, 0]


def test_zip_puts_columns_side_by_side() -> None:
    dataset = ray.data.range(3, override_num_blocks=2).zip(ray.data.range(3, override_num_blocks=3))
    assert dataset.take_all() == [{"id": 0, "id_1": 0}, {"id": 1, "id_1": 1}, {"id": 2, "id_1": 2}]


def test_zip_wants_as_many_rows() -> None:
    with pytest.raises(ValueError):
        ray.data.range(3).zip(ray.data.range(2)).take_all()


def test_random_sample_is_about_that_part() -> None:
    assert ray.data.range(50).random_sample(0).count() == 0
    assert ray.data.range(50).random_sample(1).count() == 50
    assert 300 < ray.data.range(1000).random_sample(0.5, seed=1).count() < 700
    with pytest.raises(ValueError):
        ray.data.range(1).random_sample(1.5)


def test_random_sample_with_a_seed_is_the_same_again() -> None:
    first = ids(ray.data.range(100, override_num_blocks=2).random_sample(0.5, seed=3))
    assert ids(ray.data.range(100, override_num_blocks=2).random_sample(0.5, seed=3)) == first


def test_blocks_in_random_order() -> None:
    dataset = ray.data.range(20, override_num_blocks=10).randomize_block_order(seed=4)
    found = ids(dataset)
    assert sorted(found) == list(range(20)) and found != list(range(20))


def test_mix_takes_from_all() -> None:
    dataset = ray.data.range(4).mix(ray.data.range(4))
    assert sorted(ids(dataset)) == [0, 0, 1, 1, 2, 2, 3, 3]
    with pytest.raises(ValueError):
        ray.data.range(4).mix(ray.data.range(4), weights=[0.5])


def test_mix_may_end_with_the_shortest() -> None:
    stop = ray.data.MixStoppingCondition.STOP_ON_SHORTEST
    short, long = ray.data.range(2), ray.data.range(40, override_num_blocks=20)
    assert short.mix(long, stopping_condition=stop).count() < 42


@pytest.mark.chosen_difference("order is kept without being asked for", id="D-data-order")
def test_order_is_kept_by_default() -> None:
    import time

    def late_first(batch: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.3 if batch["id"][0] == 0 else 0)  # the work of the piece
        return batch

    ray.data.DataContext.get_current().execution_options.preserve_order = False
    dataset = ray.data.range(20, override_num_blocks=10).map_batches(late_first, num_cpus=1)
    assert ids(dataset) == list(range(20))


@pytest.mark.chosen_difference("a function's exception is caught by its own type", id="D-data-errors")
def test_an_exception_is_caught_by_its_type() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        ray.data.range(3).map(lambda row: {"x": 1 // row["id"]}).take_all()
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
