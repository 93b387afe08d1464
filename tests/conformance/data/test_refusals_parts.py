"""Invalid splits and pools, with the type and the phrases that programs match."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import ray
from ray.data import ActorPoolStrategy, TaskPoolStrategy

pytestmark = pytest.mark.usefixtures("cluster")


class Passing:
    def __call__(self, batch: Any) -> Any:
        return batch


def same(value: Any) -> Any:
    return value


def two() -> Any:
    return ray.data.range(3).add_column("b", lambda frame: frame["id"])


Case = tuple[str, type[Exception], str, Callable[[Any], Any]]

PARTS: list[Case] = [
    ("no parts", ValueError, "The number of splits 0 is not positive", lambda ds: ds.split(0)),
    (
        "hints for others",
        ValueError,
        "The length of locality_hints 1 doesn't equal",
        lambda ds: ds.split(2, locality_hints=[1]),
    ),
    (
        "shares of all",
        ValueError,
        "proportions must sum to less than 1",
        lambda ds: ds.split_proportionately([0.5, 0.5]),
    ),
    (
        "shares below nothing",
        ValueError,
        "proportions must be bigger than 0",
        lambda ds: ds.split_proportionately([-0.5]),
    ),
    (
        "no shares",
        ValueError,
        "proportions must be at least of length 1",
        lambda ds: ds.split_proportionately([]),
    ),
    (
        "shares of too few",
        ValueError,
        "Couldn't create non-empty splits",
        lambda ds: ds.split_proportionately([0.9] + [0.001] * 90),
    ),
    (
        "two shares of one row",
        ValueError,
        "Couldn't create non-empty",
        lambda ds: ray.data.range(1).split_proportionately([0.5]),
    ),
    ("indices that fall", ValueError, "indices must be sorted", lambda ds: ds.split_at_indices([5, 2])),
    ("indices below 0", ValueError, "indices must be positive", lambda ds: ds.split_at_indices([-1])),
    ("no indices", ValueError, "indices must be at least of length 1", lambda ds: ds.split_at_indices([])),
    (
        "test nothing",
        ValueError,
        "If `test_size` is an int, it must be bigger than 0",
        lambda ds: ds.train_test_split(0),
    ),
    (
        "test more than all",
        ValueError,
        "smaller than the size of the dataset (3). Got 11",
        lambda ds: ds.train_test_split(11),
    ),
    (
        "test all of it",
        ValueError,
        "If `test_size` is a float, it must be bigger than 0",
        lambda ds: ds.train_test_split(1.0),
    ),
    (
        "test text",
        TypeError,
        "`test_size` must be int or float got <class 'str'>",
        lambda ds: ds.train_test_split("x"),
    ),
    (
        "stratify and shuffle",
        ValueError,
        "Cannot specify both 'shuffle=True' and 'stratify'",
        lambda ds: ds.train_test_split(0.5, stratify="id", shuffle=True),
    ),
    (
        "stream all of it",
        ValueError,
        "test_size must be between 0 and 1",
        lambda ds: ds.streaming_train_test_split(1),
    ),
    (
        "stream by what",
        ValueError,
        "Invalid split type",
        lambda ds: ds.streaming_train_test_split(0.5, split_type="x"),
    ),
    (
        "stream by hash of what",
        ValueError,
        "hash_column is required for hash split",
        lambda ds: ds.streaming_train_test_split(0.5, split_type="hash"),
    ),
    (
        "stream by hash with a seed",
        ValueError,
        "seed is not supported for hash split",
        lambda ds: ds.streaming_train_test_split(0.5, split_type="hash", hash_column="id", seed=1),
    ),
    (
        "stream at random by a column",
        ValueError,
        "hash_column is not supported for random split",
        lambda ds: ds.streaming_train_test_split(0.5, hash_column="id"),
    ),
    (
        "lineage of values",
        ValueError,
        "Lineage-based serialization is not supported",
        lambda ds: ray.data.from_items([1]).serialize_lineage(),
    ),
    (
        "lineage of a frame",
        ValueError,
        "Lineage-based serialization is not supported",
        lambda ds: ray.data.from_pandas(pd.DataFrame({"a": [1]})).serialize_lineage(),
    ),
    (
        "lineage of blocks",
        ValueError,
        "Lineage-based serialization is not supported",
        lambda ds: ds.materialize().serialize_lineage(),
    ),
]

POOLS: list[Case] = [
    (
        "in flight",
        ValueError,
        "max_tasks_in_flight_per_actor must be >= 1",
        lambda ds: ActorPoolStrategy(max_tasks_in_flight_per_actor=0),
    ),
    (
        "calls",
        ValueError,
        "max_concurrent_calls_per_actor must be >= 1",
        lambda ds: ActorPoolStrategy(max_concurrent_calls_per_actor=0),
    ),
    ("fewest", ValueError, "min_size must be >= 1", lambda ds: ActorPoolStrategy(min_size=0)),
    ("most", ValueError, "min_size must be <= max_size", lambda ds: ActorPoolStrategy(max_size=0)),
    ("size", ValueError, "size must be >= 1", lambda ds: ActorPoolStrategy(size=0)),
    (
        "size and bounds",
        ValueError,
        "min_size, max_size, and initial_size cannot be set at the same time as `size`",
        lambda ds: ActorPoolStrategy(size=1, min_size=1),
    ),
    (
        "bounds that cross",
        ValueError,
        "min_size must be <= max_size",
        lambda ds: ActorPoolStrategy(min_size=3, max_size=1),
    ),
    (
        "first above most",
        ValueError,
        "initial_size (3) must be <= max_size (2)",
        lambda ds: ActorPoolStrategy(min_size=1, max_size=2, initial_size=3),
    ),
    ("tasks", ValueError, "`size` must be >= 1", lambda ds: TaskPoolStrategy(size=0)),
    ("tasks below", ValueError, "`size` must be >= 1", lambda ds: TaskPoolStrategy(size=-1)),
    (
        "a class in tasks",
        ValueError,
        "can't schedule callable classes with the task pool strategy",
        lambda ds: ds.map_batches(Passing, compute=TaskPoolStrategy(1)),
    ),
    (
        "a function in actors",
        ValueError,
        "can't schedule regular functions with the actor pool strategy",
        lambda ds: ds.map_batches(same, compute=ActorPoolStrategy(size=1)),
    ),
    (
        "a constructor's arguments",
        ValueError,
        "can only be specified if providing a callable class",
        lambda ds: ds.map(same, fn_constructor_args=[1]),
    ),
    ("no concurrency", ValueError, "`size` must be >= 1", lambda ds: ds.map(same, concurrency=0)),
    (
        "a range for a function",
        ValueError,
        "is not a callable class",
        lambda ds: ds.map(same, concurrency=(1, 2)),
    ),
    (
        "a range that falls",
        ValueError,
        "min_size must be <= max_size",
        lambda ds: ds.map_batches(Passing, concurrency=(3, 2)),
    ),
    (
        "text",
        ValueError,
        "to be set as an integer or a tuple of integers, but got: x",
        lambda ds: ds.map(same, concurrency="x"),
    ),
    (
        "below nothing",
        ValueError,
        "size` must be >= 1|size must be >= 1",
        lambda ds: ds.map_batches(Passing, concurrency=-1),
    ),
    (
        "four numbers",
        ValueError,
        "to be set as a tuple of integers, but got: (1, 2, 3, 4)",
        lambda ds: ds.map_batches(Passing, concurrency=(1, 2, 3, 4)),
    ),
]


def check(case: Case) -> None:
    _, kind, words, act = case
    pattern = words if "|" in words else re.escape(words)
    with pytest.raises(kind, match=pattern):
        act(ray.data.range(3))


def ids(cases: list[Case]) -> list[str]:
    return [case[0] for case in cases]


@pytest.mark.parametrize("case", PARTS, ids=ids(PARTS))
def test_parts_that_cannot_be(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", POOLS, ids=ids(POOLS))
def test_pools_that_cannot_be(case: Case) -> None:
    check(case)
