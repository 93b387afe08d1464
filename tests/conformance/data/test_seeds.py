"""A seed gives the rows that it gives on Ray: by NumPy's generators, from the seed and the number of the task."""

from __future__ import annotations

from typing import Any

import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def in_order() -> None:
    ray.data.DataContext.get_current().execution_options.preserve_order = True


def rows(dataset: Any) -> list[int]:
    return [row["id"] for row in dataset.take_all()]


@pytest.mark.parametrize(
    ("blocks", "fraction", "seed", "found"),
    [
        (1, 0.3, 1, [4, 5, 7, 10, 11, 12, 15, 18]),
        (2, 0.3, 1, [4, 5, 7, 13, 15, 16]),
        (1, 0.5, 42, [1, 4, 10, 11, 14, 15, 17, 18]),
    ],
)
def test_a_sample_of_a_seed(blocks: int, fraction: float, seed: int, found: list[int]) -> None:
    dataset = ray.data.range(20, override_num_blocks=blocks).random_sample(fraction, seed=seed)
    assert rows(dataset) == found
    assert rows(dataset) == found


@pytest.mark.parametrize(
    ("blocks", "found"), [(1, [6, 5, 1, 0, 2, 4, 9, 7, 8, 3]), (2, [4, 1, 5, 2, 8, 7, 3, 6, 0, 9])]
)
def test_a_shuffle_of_a_seed(blocks: int, found: list[int]) -> None:
    assert rows(ray.data.range(10, override_num_blocks=blocks).random_shuffle(seed=1)) == found


def test_blocks_in_the_order_of_a_seed() -> None:
    dataset = ray.data.range(10, override_num_blocks=10).randomize_block_order(seed=1)
    assert rows(dataset) == [8, 4, 7, 0, 1, 2, 5, 9, 6, 3]


def test_a_split_that_shuffles_by_a_seed() -> None:
    parts = ray.data.range(10, override_num_blocks=1).train_test_split(0.3, shuffle=True, seed=1)
    assert list(map(rows, parts)) == [[6, 5, 1, 0, 2, 4, 9], [7, 8, 3]]


def test_a_streaming_split_of_a_seed() -> None:
    parts = ray.data.range(10, override_num_blocks=1).streaming_train_test_split(0.3, seed=1)
    first = list(map(rows, parts))
    assert sorted(sum(first, [])) == list(range(10))
    assert list(map(rows, parts)) == first
    assert first == [[1, 4, 5, 7, 9], [0, 2, 3, 6, 8]]


def test_a_streaming_split_by_hash() -> None:
    parts = ray.data.range(8).streaming_train_test_split(0.25, split_type="hash", hash_column="id")
    assert list(map(rows, parts)) == [[0, 2, 3, 4, 5, 6], [1, 7]]


def test_batches_shuffled_by_a_seed() -> None:
    batches = ray.data.range(10, override_num_blocks=1).iter_batches(
        batch_size=5, local_shuffle_buffer_size=10, local_shuffle_seed=1
    )
    assert sorted(int(each) for batch in batches for each in batch["id"]) == list(range(10))


def test_another_sample_in_each_run_where_that_is_asked_for() -> None:
    config = ray.data.RandomSeedConfig(seed=1, reseed_after_execution=True)
    dataset = ray.data.range(200, override_num_blocks=1).random_sample(0.5, seed=config)
    assert rows(dataset) != rows(dataset)


def test_a_shuffle_of_a_seed_of_more_than_one_partition() -> None:
    dataset = ray.data.range_tensor(1000, shape=(1 << 14,), override_num_blocks=8).random_shuffle(seed=3)
    found = rows(dataset.map_batches(lambda batch: {"id": batch["data"][:, 0]}))
    assert sorted(found) == list(range(1000))
    assert (found[:8], found[-4:]) == ([480, 802, 33, 173, 550, 470, 79, 806], [52, 960, 240, 750])


def test_a_shuffle_of_a_seed_counts_blocks_without_rows() -> None:
    dataset = ray.data.range(32, override_num_blocks=8).filter(lambda row: row["id"] > 21)
    assert rows(dataset.random_shuffle(seed=1)) == [23, 24, 30, 26, 28, 27, 25, 29, 22, 31]


@pytest.mark.chosen_difference("as many blocks as were asked for", id="D-data-range-blocks")
def test_a_range_has_as_many_blocks_as_were_asked_for() -> None:
    dataset = ray.data.range(10, override_num_blocks=3)
    assert dataset.materialize().num_blocks() == 3
    assert rows(dataset.random_shuffle(seed=1)) == rows(dataset.random_shuffle(seed=1))
