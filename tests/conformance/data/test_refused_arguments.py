"""Rejected arguments of datasets, one call per case, with the phrases that programs match."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import ray
import ray.data
from ray.data.aggregate import AggregateFn

pytestmark = pytest.mark.usefixtures("cluster")


def numbers(n: int = 10, blocks: int | None = None) -> Any:
    return ray.data.range(n, override_num_blocks=blocks)


def items(values: Any) -> Any:
    return ray.data.from_items(values)


def rows(dataset: Any) -> list[Any]:
    return list(dataset.take_all())


def ids(dataset: Any) -> list[int]:
    return [row["id"] for row in dataset.take_all()]


def groups() -> Any:
    values = [("a", 1, "x"), ("b", 2, "y"), ("a", 3, None), ("b", None, "x"), ("c", 5, "z")]
    return ray.data.from_items([{"k": k, "v": v, "s": s} for k, v, s in values])


CASES: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    (
        "AggregateFn(init=lambda k:0,merge=lambda a,b:a+b,name='n')",
        lambda: AggregateFn(init=lambda k: 0, merge=lambda a, b: a + b, name="n"),
        ValueError,
        "Exactly one of accumulate_row or accumulate_block must be provided",
    ),
    (
        "AggregateFn(init=lambda k:0,merge=lambda a,b:a+b,name='n',accumulate_row=lambda a,r:a+1,",
        lambda: AggregateFn(
            init=lambda k: 0,
            merge=lambda a, b: a + b,
            name="n",
            accumulate_row=lambda a, r: a + 1,
            accumulate_block=lambda a, b: a,
        ),
        ValueError,
        "Exactly one of accumulate_row or accumulate_block must be provided",
    ),
    (
        "groups().groupby('nope')",
        lambda: groups().groupby("nope"),
        ValueError,
        "You specified the column 'nope', but there's no such column in the dataset. The dataset has columns:",
    ),
    (
        "groups().groupby(5)",
        lambda: groups().groupby(5),
        ValueError,
        "Key must be a string or a list of strings, but got 5",
    ),
    (
        "ids(numbers().sort('id',descending=[True,False]))",
        lambda: ids(numbers().sort("id", descending=[True, False])),
        ValueError,
        "Length of `descending` does not match the length of the key",
    ),
    (
        "ids(numbers().sort('nope'))",
        lambda: ids(numbers().sort("nope")),
        ValueError,
        "You specified the column 'nope', but there's no such column in the dataset. The dataset has columns:",
    ),
    (
        "ids(numbers().sort(5))",
        lambda: ids(numbers().sort(5)),
        ValueError,
        "Key must be a string or a list of strings, but got 5",
    ),
    (
        "ids(numbers().sort(None))",
        lambda: ids(numbers().sort(None)),
        ValueError,
        "The 'key' parameter cannot be None for sorting",
    ),
    (
        "numbers().sort('id',boundaries=['a'])",
        lambda: numbers().sort("id", boundaries=["a"]),
        ValueError,
        "The type of items in boundaries must be int or float",
    ),
    (
        "numbers().repartition()",
        lambda: numbers().repartition(),
        ValueError,
        "Either `num_blocks` or `target_num_rows_per_block` must be set",
    ),
    (
        "numbers().repartition(2,target_num_rows_per_block=3)",
        lambda: numbers().repartition(2, target_num_rows_per_block=3),
        ValueError,
        "Only one of `num_blocks` or `target_num_rows_per_block` must be set, but not both",
    ),
    (
        "numbers().repartition(target_num_rows_per_block=0)",
        lambda: numbers().repartition(target_num_rows_per_block=0),
        ValueError,
        "target_num_rows_per_block must be positive",
    ),
    (
        "numbers().repartition(target_num_rows_per_block=3,shuffle=True)",
        lambda: numbers().repartition(target_num_rows_per_block=3, shuffle=True),
        ValueError,
        "`shuffle` must be False when `target_num_rows_per_block` is set",
    ),
    ("numbers().split(0)", lambda: numbers().split(0), ValueError, "The number of splits 0 is not positive"),
    (
        "numbers().split(-1)",
        lambda: numbers().split(-1),
        ValueError,
        "The number of splits -1 is not positive",
    ),
    (
        "numbers().split(2,locality_hints=[1])",
        lambda: numbers().split(2, locality_hints=[1]),
        ValueError,
        "The length of locality_hints 1 doesn't equal the number of splits 2",
    ),
    (
        "numbers().split_at_indices([])",
        lambda: numbers().split_at_indices([]),
        ValueError,
        "indices must be at least of length 1",
    ),
    (
        "numbers().split_at_indices([5,2])",
        lambda: numbers().split_at_indices([5, 2]),
        ValueError,
        "indices must be sorted",
    ),
    (
        "numbers().split_at_indices([-1])",
        lambda: numbers().split_at_indices([-1]),
        ValueError,
        "indices must be positive",
    ),
    (
        "numbers().split_proportionately([])",
        lambda: numbers().split_proportionately([]),
        ValueError,
        "proportions must be at least of length 1",
    ),
    (
        "numbers().split_proportionately([.5,.5])",
        lambda: numbers().split_proportionately([0.5, 0.5]),
        ValueError,
        "proportions must sum to less than 1",
    ),
    (
        "numbers().split_proportionately([0.,.5])",
        lambda: numbers().split_proportionately([0.0, 0.5]),
        ValueError,
        "proportions must be bigger than 0",
    ),
    (
        "numbers().split_proportionately([-.1])",
        lambda: numbers().split_proportionately([-0.1]),
        ValueError,
        "proportions must be bigger than 0",
    ),
    (
        "numbers(2).split_proportionately([.1])",
        lambda: numbers(2).split_proportionately([0.1]),
        ValueError,
        "Couldn't create non-empty splits with the given proportions",
    ),
    (
        "numbers().train_test_split(0)",
        lambda: numbers().train_test_split(0),
        ValueError,
        "If `test_size` is an int, it must be bigger than 0 and smaller than the size of the dataset (10). Go",
    ),
    (
        "numbers().train_test_split(1.5)",
        lambda: numbers().train_test_split(1.5),
        ValueError,
        "If `test_size` is a float, it must be bigger than 0 and smaller than 1. Got 1.5",
    ),
    (
        "numbers().train_test_split(20)",
        lambda: numbers().train_test_split(20),
        ValueError,
        "If `test_size` is an int, it must be bigger than 0 and smaller than the size of the dataset (10). Go",
    ),
    (
        "numbers().train_test_split(-.1)",
        lambda: numbers().train_test_split(-0.1),
        ValueError,
        "If `test_size` is a float, it must be bigger than 0 and smaller than 1. Got -0.1",
    ),
    (
        "numbers().train_test_split('a')",
        lambda: numbers().train_test_split("a"),
        TypeError,
        "`test_size` must be int or float got <class 'str'>",
    ),
    (
        "numbers().train_test_split(.3,shuffle=True,stratify='id')",
        lambda: numbers().train_test_split(0.3, shuffle=True, stratify="id"),
        ValueError,
        "Cannot specify both 'shuffle=True' and 'stratify",
    ),
    (
        "numbers().train_test_split(.3,stratify='nope')",
        lambda: numbers().train_test_split(0.3, stratify="nope"),
        ValueError,
        "You specified the column 'nope', but there's no such column in the dataset. The dataset has columns:",
    ),
    (
        "numbers().streaming_train_test_split(1.5)",
        lambda: numbers().streaming_train_test_split(1.5),
        ValueError,
        "test_size must be between 0 and 1",
    ),
    (
        "numbers().streaming_train_test_split(.3,split_type='nope')",
        lambda: numbers().streaming_train_test_split(0.3, split_type="nope"),
        ValueError,
        "Invalid split type",
    ),
    (
        "numbers().streaming_train_test_split(.3,split_type='hash')",
        lambda: numbers().streaming_train_test_split(0.3, split_type="hash"),
        ValueError,
        "hash_column is required for hash split",
    ),
    (
        "numbers().streaming_train_test_split(.3,split_type='random',hash_column='id')",
        lambda: numbers().streaming_train_test_split(0.3, split_type="random", hash_column="id"),
        ValueError,
        "hash_column is not supported for random split",
    ),
    (
        "numbers().random_sample(1.5)",
        lambda: numbers().random_sample(1.5),
        ValueError,
        "Fraction must be between 0 and 1",
    ),
    (
        "numbers().random_sample(-.5)",
        lambda: numbers().random_sample(-0.5),
        ValueError,
        "Fraction must be between 0 and 1",
    ),
    (
        "numbers().random_sample(.5,seed='a')",
        lambda: numbers().random_sample(0.5, seed="a"),
        ValueError,
        "Invalid seed type: <class 'str'>",
    ),
    (
        "numbers().random_shuffle(seed='a')",
        lambda: numbers().random_shuffle(seed="a"),
        ValueError,
        "Invalid seed type: <class 'str'>",
    ),
    (
        "numbers(10,5).random_shuffle(num_blocks=2).materialize().num_blocks()",
        lambda: numbers(10, 5).random_shuffle(num_blocks=2).materialize().num_blocks(),
        DeprecationWarning,
        "`num_blocks` parameter is deprecated",
    ),
    (
        "numbers().take_all(limit=3)",
        lambda: numbers().take_all(limit=3),
        ValueError,
        "The dataset has more than the given limit of 3 records",
    ),
    ("numbers().take_batch(0)", lambda: numbers().take_batch(0), ValueError, "The dataset is empty"),
    ("numbers(0).take_batch(2)", lambda: numbers(0).take_batch(2), ValueError, "The dataset is empty"),
    (
        "numbers().take_batch(2,batch_format='nope')",
        lambda: numbers().take_batch(2, batch_format="nope"),
        ValueError,
        "The given batch format nope isn't allowed (must be one of",
    ),
    (
        "rows(numbers(2).zip(numbers(3)))",
        lambda: rows(numbers(2).zip(numbers(3))),
        ValueError,
        "Cannot zip datasets of different number of rows: 2, 3",
    ),
    (
        "rows(numbers(2).drop_columns(['nope']))",
        lambda: rows(numbers(2).drop_columns(["nope"])),
        KeyError,
        "column(s) not found in dataset schema: ['nope']. Available columns",
    ),
    (
        "rows(numbers(2).rename_columns('x'))",
        lambda: rows(numbers(2).rename_columns("x")),
        TypeError,
        "rename_columns expected names to be either List[str] or Dict[str, str], got <class 'str'>",
    ),
    (
        "rows(numbers(2).map(lambda r:r,fn_constructor_args=[3]))",
        lambda: rows(numbers(2).map(lambda r: r, fn_constructor_args=[3])),
        ValueError,
        "``fn_constructor_args`` can only be specified if providing a callable class",
    ),
    (
        "rows(numbers(2).map(lambda r:r,compute='nope'))",
        lambda: rows(numbers(2).map(lambda r: r, compute="nope")),
        ValueError,
        "the compute spec must be either TaskPoolStrategy or ActorPoolStrategy, was",
    ),
    (
        "rows(numbers(2).map(lambda r:r,concurrency='a'))",
        lambda: rows(numbers(2).map(lambda r: r, concurrency="a")),
        ValueError,
        "``concurrency`` is expected to be set as an integer or a tuple of integers, but got: a",
    ),
    (
        "rows(numbers(2).map(lambda r:r,nope=1))",
        lambda: rows(numbers(2).map(lambda r: r, nope=1)),
        ValueError,
        "Invalid option keyword nope for remote functions",
    ),
    (
        "rows(numbers(2).map(lambda r:r,num_cpus=-1))",
        lambda: rows(numbers(2).map(lambda r: r, num_cpus=-1)),
        ValueError,
        "The quantity of resource num_cpus cannot be negative",
    ),
    (
        "rows(numbers(4,1).map_batches(lambda b:b,batch_size=0))",
        lambda: rows(numbers(4, 1).map_batches(lambda b: b, batch_size=0)),
        ValueError,
        "Batch size can't be negative or 0",
    ),
    (
        "rows(numbers(4,1).map_batches(lambda b:b,batch_size=-1))",
        lambda: rows(numbers(4, 1).map_batches(lambda b: b, batch_size=-1)),
        ValueError,
        "Batch size can't be negative or 0",
    ),
    (
        "rows(numbers(4,1).map_batches(lambda b:b,batch_format='nope'))",
        lambda: rows(numbers(4, 1).map_batches(lambda b: b, batch_format="nope")),
        ValueError,
        "The given batch format nope isn't allowed",
    ),
    (
        "rows(numbers(2,1).map_batches(lambda b:b,compute=ray.data.ActorPoolStrategy(size=1)))",
        lambda: rows(numbers(2, 1).map_batches(lambda b: b, compute=ray.data.ActorPoolStrategy(size=1))),
        ValueError,
        "ActorPoolStrategy(min_size=1, max_size=1, initial_size=1, max_tasks_in_flight_per_actor=None, max_co",
    ),
    (
        "ray.data.ActorPoolStrategy(size=1,min_size=1)",
        lambda: ray.data.ActorPoolStrategy(size=1, min_size=1),
        ValueError,
        "min_size, max_size, and initial_size cannot be set at the same time as `size",
    ),
    (
        "ray.data.ActorPoolStrategy(max_tasks_in_flight_per_actor=0)",
        lambda: ray.data.ActorPoolStrategy(max_tasks_in_flight_per_actor=0),
        ValueError,
        "must be >= 1, got",
    ),
    (
        "ray.data.ActorPoolStrategy(initial_size=5,max_size=2)",
        lambda: ray.data.ActorPoolStrategy(initial_size=5, max_size=2),
        ValueError,
        "initial_size (5) must be <= max_size (2)",
    ),
    (
        "ray.data.ActorPoolStrategy(initial_size=0)",
        lambda: ray.data.ActorPoolStrategy(initial_size=0),
        ValueError,
        "initial_size (0) must be >= min_size (1)",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_refused(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        call()
