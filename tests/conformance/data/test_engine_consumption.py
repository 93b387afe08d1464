"""Data taken out of a dataset, and parts of one."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def quiet() -> None:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True


def ids(dataset: Any) -> list[int]:
    return [row["id"] for row in dataset.take_all()]


def none(rows: int = 4) -> Any:
    return ray.data.range(rows).filter(lambda row: False)


def test_take() -> None:
    assert ray.data.range(30).take(3) == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert len(ray.data.range(30).take()) == 20
    assert ray.data.range(2).take(5) == [{"id": 0}, {"id": 1}]
    assert ray.data.range(2).take(0) == []


def test_take_all_may_be_bounded() -> None:
    assert len(ray.data.range(3).take_all(limit=3)) == 3
    with pytest.raises(ValueError):
        ray.data.range(4).take_all(limit=3)


def test_take_batch() -> None:
    assert ray.data.range(9).take_batch(3)["id"].tolist() == [0, 1, 2]
    assert isinstance(ray.data.range(9).take_batch(3, batch_format="pandas"), pd.DataFrame)
    assert isinstance(ray.data.range(9).take_batch(3, batch_format="pyarrow"), pa.Table)
    with pytest.raises(ValueError):
        none().take_batch(3)


def test_show_prints_rows(capsys: Any) -> None:
    ray.data.range(5).show(2)
    assert capsys.readouterr().out == "{'id': 0}\n{'id': 1}\n"


def test_count() -> None:
    assert ray.data.range(7).count() == 7
    assert ray.data.range(7).filter(lambda row: row["id"] > 2).count() == 4
    assert ray.data.range(7).limit(3).count() == 3
    assert none().count() == 0


def test_schema_of_what_is_read_and_of_what_is_made() -> None:
    assert ray.data.range(3).schema().names == ["id"]
    made = ray.data.range(3).map(lambda row: {"a": 1, "b": "x"}).schema()
    assert made.names == ["a", "b"]
    assert made.types == [pa.int64(), pa.string()]
    assert isinstance(made.base_schema, pa.Schema)


def test_schema_is_not_fetched_where_it_must_not_be() -> None:
    assert ray.data.range(3).map(lambda row: row).schema(fetch_if_missing=False) is None
    assert ray.data.range(3).map(lambda row: row).columns(fetch_if_missing=False) is None


def test_columns() -> None:
    assert ray.data.range(3).columns() == ["id"]
    assert none().columns() == ["id"]


def test_an_empty_dataset_has_no_schema() -> None:
    empty = ray.data.from_items([])
    assert empty.count() == 0
    assert empty.take() == []
    assert empty.schema() is None


def test_rows_one_after_the_other() -> None:
    assert list(ray.data.range(3).iter_rows()) == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_batches_one_after_the_other() -> None:
    sizes = [len(batch["id"]) for batch in ray.data.range(10).iter_batches(batch_size=4)]
    assert sizes == [4, 4, 2]
    sizes = [len(batch["id"]) for batch in ray.data.range(10).iter_batches(batch_size=4, drop_last=True)]
    assert sizes == [4, 4]
    assert len(next(iter(ray.data.range(1000).iter_batches()))["id"]) == 256


def test_batches_can_be_iterated_over_again() -> None:
    batches = ray.data.range(10).iter_batches(batch_size=4)
    assert len(list(batches)) == 3
    assert len(list(batches)) == 3


def test_whole_blocks_as_batches() -> None:
    dataset = ray.data.range(10, override_num_blocks=5)
    assert [len(batch["id"]) for batch in dataset.iter_batches(batch_size=None)] == [2] * 5


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_batches_are_made_ready_beforehand(prefetch: int) -> None:
    found = [
        number
        for batch in ray.data.range(50, override_num_blocks=7).iter_batches(
            batch_size=8, prefetch_batches=prefetch
        )
        for number in batch["id"].tolist()
    ]
    assert found == list(range(50))


def test_batches_of_an_unknown_format_are_refused() -> None:
    with pytest.raises(ValueError):
        list(ray.data.range(1).iter_batches(batch_format="torch"))


def test_a_local_shuffle_gives_every_row_once() -> None:
    def read(seed: int) -> list[int]:
        batches = ray.data.range(100).iter_batches(
            batch_size=10, local_shuffle_buffer_size=50, local_shuffle_seed=seed
        )
        return [number for batch in batches for number in batch["id"].tolist()]

    assert sorted(read(1)) == list(range(100))
    assert read(1) == read(1) != list(range(100))


def test_a_local_shuffle_wants_a_batch_size() -> None:
    with pytest.raises(ValueError):
        list(ray.data.range(1).iter_batches(batch_size=None, local_shuffle_buffer_size=5))


def test_errors_come_to_who_iterates() -> None:
    def fail(row: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("on purpose")

    with pytest.raises(ray.exceptions.RayTaskError, match="on purpose"):
        list(ray.data.range(3).map(fail).iter_batches())


def test_an_iterator_goes_to_other_processes() -> None:
    iterator = ray.data.range(10).iterator()

    @ray.remote
    def total(iterator: Any) -> int:
        return sum(int(batch["id"].sum()) for batch in iterator.iter_batches(batch_size=3))

    assert ray.get(total.options(num_cpus=0).remote(iterator)) == 45
    assert iterator.schema().names == ["id"]
    assert iterator.materialize().count() == 10


def test_a_dataset_can_be_pickled() -> None:
    dataset = pickle.loads(pickle.dumps(ray.data.range(5)))
    assert dataset.count() == 5


def test_a_materialized_dataset_is_not_computed_again(tmp_path: Any) -> None:
    def note(row: dict[str, Any]) -> dict[str, Any]:
        with open(tmp_path / "log", "a") as log:
            log.write("x")
        return row

    held = ray.data.range(4).map(note).materialize()
    assert held.count() == 4 and ids(held) == [0, 1, 2, 3] and held.take(1) == [{"id": 0}]
    assert (tmp_path / "log").read_text() == "xxxx"


def test_only_a_materialized_dataset_knows_its_blocks() -> None:
    dataset = ray.data.range(10, override_num_blocks=5)
    with pytest.raises(NotImplementedError):
        dataset.num_blocks()
    assert dataset.materialize().num_blocks() == 5


def test_size_in_bytes() -> None:
    assert ray.data.range(10).materialize().size_bytes() == 80


def test_a_dataset_is_no_collection() -> None:
    dataset = ray.data.range(3)
    with pytest.raises(AttributeError):
        len(dataset)
    with pytest.raises(TypeError):
        iter(dataset)
    with pytest.raises(TypeError):
        dataset[0]
    assert bool(dataset)


def test_frames() -> None:
    frame = ray.data.range(3).to_pandas()
    assert frame["id"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError):
        ray.data.range(3).to_pandas(limit=2)


def test_refs_to_blocks() -> None:
    dataset = ray.data.range(6, override_num_blocks=2)
    assert [table.num_rows for table in ray.get(dataset.to_arrow_refs())] == [3, 3]
    assert [len(frame) for frame in ray.get(dataset.to_pandas_refs())] == [3, 3]
    assert [batch.tolist() for batch in ray.get(dataset.to_numpy_refs(column="id"))] == [[0, 1, 2], [3, 4, 5]]
    bundles = list(dataset.iter_internal_ref_bundles())
    assert sum(bundle.num_rows() for bundle in bundles) == 6
    entries = [entry for bundle in bundles for entry in bundle.blocks]
    assert [ray.get(entry.ref).num_rows for entry in entries] == [3, 3]
    assert [entry.metadata.num_rows for entry in entries] == [3, 3]


def test_split() -> None:
    assert [part.count() for part in ray.data.range(10).split(3)] == [4, 4, 2]
    assert [part.count() for part in ray.data.range(10).split(3, equal=True)] == [3, 3, 3]
    with pytest.raises(ValueError):
        ray.data.range(10).split(0)


def test_split_at_indices() -> None:
    parts = ray.data.range(10, override_num_blocks=4).split_at_indices([2, 5])
    assert [ids(part) for part in parts] == [[0, 1], [2, 3, 4], [5, 6, 7, 8, 9]]
    assert [part.count() for part in ray.data.range(10).split_at_indices([20])] == [10, 0]
    for wrong in ([], [5, 2], [-1]):
        with pytest.raises(ValueError):
            ray.data.range(10).split_at_indices(wrong)


def test_split_proportionately() -> None:
    parts = ray.data.range(10).split_proportionately([0.2, 0.5])
    assert [part.count() for part in parts] == [2, 5, 3]
    for wrong in ([], [0.5, 0.5], [-0.5]):
        with pytest.raises(ValueError):
            ray.data.range(10).split_proportionately(wrong)


def test_train_test_split() -> None:
    train, test = ray.data.range(10).train_test_split(0.3)
    assert (ids(train), ids(test)) == ([0, 1, 2, 3, 4, 5, 6], [7, 8, 9])
    train, test = ray.data.range(10).train_test_split(4)
    assert (train.count(), test.count()) == (6, 4)
    train, test = ray.data.range(10).train_test_split(0.3, shuffle=True, seed=1)
    assert sorted(ids(train) + ids(test)) == list(range(10)) and test.count() == 3
    for wrong in (1.5, 0.0, 20):
        with pytest.raises(ValueError):
            ray.data.range(10).train_test_split(wrong)
    with pytest.raises(TypeError):
        ray.data.range(10).train_test_split("half")


def test_a_stratified_split_keeps_shares() -> None:
    dataset = ray.data.from_items([{"kind": number % 2, "n": number} for number in range(20)])
    train, test = dataset.train_test_split(0.4, stratify="kind")
    assert sorted(row["kind"] for row in test.take_all()) == [0] * 4 + [1] * 4
    assert train.count() == 12


def test_a_streaming_split_into_two_parts_leaves_nothing_out() -> None:
    train, test = ray.data.range(200).streaming_train_test_split(0.25, seed=3)
    assert sorted(ids(train) + ids(test)) == list(range(200))
    assert 20 < test.count() < 80


@ray.remote(num_cpus=0)
class Consumer:
    def epochs(self, iterator: Any, count: int) -> list[list[int]]:
        return [
            [number for batch in iterator.iter_batches(batch_size=3) for number in batch["id"].tolist()]
            for _ in range(count)
        ]


def test_a_streaming_split_deals_rows_out_once_an_epoch() -> None:
    iterators = ray.data.range(30, override_num_blocks=6).streaming_split(2)
    consumers = [Consumer.remote() for _ in iterators]
    calls = [each.epochs.remote(it, 2) for each, it in zip(consumers, iterators, strict=True)]
    first, second = ray.get(calls)
    for one, other in zip(first, second, strict=True):
        assert sorted(one + other) == list(range(30))


def test_an_equal_streaming_split_gives_all_the_same_number() -> None:
    iterators = ray.data.range(31, override_num_blocks=5).streaming_split(3, equal=True)
    consumers = [Consumer.remote() for _ in iterators]
    calls = [each.epochs.remote(it, 1) for each, it in zip(consumers, iterators, strict=True)]
    parts = [part[0] for part in ray.get(calls)]
    assert [len(part) for part in parts] == [10, 10, 10]
    assert len({number for part in parts for number in part}) == 30


def test_names() -> None:
    dataset = ray.data.range(3)
    assert dataset.name is None
    dataset.set_name("numbers")
    assert dataset.name == "numbers"
    assert dataset.map(lambda row: row).name == "numbers"


def test_settings_are_those_of_when_it_was_made() -> None:
    context = ray.data.DataContext.get_current()
    before = context.target_max_block_size
    dataset = ray.data.range(3)
    context.target_max_block_size = 12345678
    try:
        assert dataset.context.target_max_block_size == before
        assert ray.data.range(3).context.target_max_block_size == 12345678
    finally:
        context.target_max_block_size = before


def test_failed_blocks_may_be_left_out() -> None:
    def fail(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 3:
            raise ValueError
        return row

    context = ray.data.DataContext.get_current()
    context.max_errored_blocks = 1
    try:
        dataset = ray.data.range(10, override_num_blocks=5).map(fail)
        assert ids(dataset) == [0, 1, 4, 5, 6, 7, 8, 9]
    finally:
        context.max_errored_blocks = 0


def test_stats_tell_of_the_operators() -> None:
    dataset = ray.data.range(10).map_batches(lambda batch: batch).materialize()
    assert "MapBatches" in dataset.stats()


def test_explain_prints_the_plan(capsys: Any) -> None:
    ray.data.range(3).map(lambda row: row).explain()
    printed = capsys.readouterr().out
    assert "Logical" in printed and "Physical" in printed and "Map(<lambda>)" in printed


def test_lineage_as_bytes() -> None:
    dataset = ray.data.range(5).map(lambda row: {"id": row["id"] + 1})
    assert dataset.has_serializable_lineage()
    again = ray.data.Dataset.deserialize_lineage(dataset.serialize_lineage())
    assert ids(again) == [1, 2, 3, 4, 5]


def test_arrays_in_rows() -> None:
    dataset = ray.data.range(2).map(lambda row: {"x": np.full((2, 2), row["id"])})
    assert [row["x"].tolist() for row in dataset.take_all()] == [[[0, 0], [0, 0]], [[1, 1], [1, 1]]]
