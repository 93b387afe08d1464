"""Rejected mistakes, with the type and the phrases that programs match."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import ray
from ray.data import RandomSeedConfig

pytestmark = pytest.mark.usefixtures("cluster")


class Passing:
    def __call__(self, batch: Any) -> Any:
        return batch


def same(value: Any) -> Any:
    return value


def two() -> Any:
    return ray.data.range(3).add_column("b", lambda frame: frame["id"])


Case = tuple[str, type[Exception], str, Callable[[Any], Any]]

COLUMNS: list[Case] = [
    (
        "select twice",
        ValueError,
        "select_columns expected unique column names",
        lambda ds: ds.select_columns(["id", "id"]),
    ),
    (
        "select a number",
        ValueError,
        "requires all elements of 'cols' to be strings",
        lambda ds: ds.select_columns([1]),
    ),
    (
        "select no list",
        TypeError,
        "requires 'cols' to be a string or a list of strings",
        lambda ds: ds.select_columns(5),
    ),
    (
        "drop unknown",
        KeyError,
        "column(s) not found in dataset schema: ['x']",
        lambda ds: ds.drop_columns(["x"]),
    ),
    (
        "drop twice",
        ValueError,
        "drop_columns expects unique column names",
        lambda ds: ds.drop_columns(["id", "id"]),
    ),
    (
        "rename by short list",
        ValueError,
        "length match current schema names",
        lambda ds: ds.rename_columns(["x", "y"]),
    ),
    ("rename nothing", ValueError, "received 'names' with no entries", lambda ds: ds.rename_columns({})),
    ("rename by empty list", ValueError, "with at least one column name", lambda ds: ds.rename_columns([])),
    (
        "rename to one name",
        ValueError,
        "duplicate values in the 'names'",
        lambda ds: two().rename_columns({"id": "x", "b": "x"}),
    ),
    (
        "rename by two alike",
        ValueError,
        "duplicate values in the 'names'",
        lambda ds: two().rename_columns(["x", "x"]),
    ),
    (
        "rename by number",
        TypeError,
        "to be either List[str] or Dict[str, str]",
        lambda ds: ds.rename_columns(5),
    ),
    (
        "rename to a number",
        ValueError,
        "keys and values in the 'names' to be strings",
        lambda ds: ds.rename_columns({"id": 5}),
    ),
    ("add no function", ValueError, "`fn` must be callable, got 5", lambda ds: ds.add_column("x", 5)),
    (
        "add of no format",
        ValueError,
        "batch_format argument must be",
        lambda ds: ds.add_column("x", same, batch_format="torch"),
    ),
]

GROUPS: list[Case] = [
    (
        "by a function",
        ValueError,
        "Key must be a string or a list of strings",
        lambda ds: ds.groupby(lambda row: 1),
    ),
    ("by a number", ValueError, "Key must be a string or a list of strings", lambda ds: ds.groupby(3)),
    (
        "by a list with a number",
        ValueError,
        "Key must be a string or a list of strings",
        lambda ds: ds.groupby(["id", 3]),
    ),
    (
        "by an unknown column",
        ValueError,
        "You specified the column 'x', but there's no such column",
        lambda ds: ds.groupby("x"),
    ),
    (
        "by one unknown of two",
        ValueError,
        "there's no such column in the dataset",
        lambda ds: ds.groupby(["id", "x"]),
    ),
    ("sum of unknown", ValueError, "there's no such column in the dataset", lambda ds: ds.sum("x")),
    (
        "sum in groups of unknown",
        ValueError,
        "there's no such column",
        lambda ds: ds.groupby("id").sum("x").take_all(),
    ),
    (
        "sum of a function",
        ValueError,
        "Key must be a string or a list of strings",
        lambda ds: ds.sum(lambda row: 1),
    ),
    ("unique of unknown", ValueError, "there's no such column in the dataset", lambda ds: ds.unique("x")),
    (
        "unique of nothing",
        ValueError,
        "At least 1 column to aggregate on has to be provided",
        lambda ds: ds.unique([]),
    ),
    (
        "sort by nothing",
        ValueError,
        "The 'key' parameter cannot be None for sorting",
        lambda ds: ds.sort(None),
    ),
    (
        "sort by unknown",
        ValueError,
        "there's no such column in the dataset",
        lambda ds: ds.sort("x").take_all(),
    ),
    (
        "sort by a function",
        ValueError,
        "Key must be a string or a list of strings",
        lambda ds: ds.sort(lambda row: 1),
    ),
    (
        "sort two ways by one",
        ValueError,
        "Length of `descending` does not match",
        lambda ds: ds.sort(["id"], [True, False]),
    ),
    ("stratify by unknown", ValueError, "no such column", lambda ds: ds.train_test_split(0.5, stratify="x")),
    ("join of no type", ValueError, "Invalid join type: 'x'", lambda ds: ds.join(ds, "x", 2)),
    (
        "join on text",
        ValueError,
        "Expected tuple or list as `on`",
        lambda ds: ds.join(ds, "inner", 2, on="id"),
    ),
]

ROWS: list[Case] = [
    ("sample below nothing", ValueError, "Fraction must be between 0 and 1", lambda ds: ds.random_sample(-1)),
    ("sample above all", ValueError, "Fraction must be between 0 and 1", lambda ds: ds.random_sample(10)),
    (
        "sample of nothing",
        ValueError,
        "Cannot sample from an empty Dataset",
        lambda ds: ray.data.range(0).random_sample(0.5),
    ),
    ("seed of text", ValueError, "Invalid seed type", lambda ds: RandomSeedConfig.create_seed_config("x")),
    (
        "seed config of text",
        ValueError,
        "Seed must be an integer or None",
        lambda ds: RandomSeedConfig(seed="x"),
    ),
    ("take too many", ValueError, "more than the given limit of 2 records", lambda ds: ds.take_all(limit=2)),
    ("batch of nothing", ValueError, "The dataset is empty", lambda ds: ray.data.range(0).take_batch()),
    (
        "batch of none left",
        ValueError,
        "The dataset is empty",
        lambda ds: ds.filter(lambda row: False).take_batch(2),
    ),
    (
        "batch of no format",
        ValueError,
        "The given batch format x isn't allowed",
        lambda ds: ds.take_batch(1, batch_format="x"),
    ),
    (
        "batches of no format",
        ValueError,
        "The given batch format x isn't allowed",
        lambda ds: list(ds.iter_batches(batch_format="x")),
    ),
    (
        "shuffle without a size",
        ValueError,
        "Must specify a batch_size if using a local shuffle",
        lambda ds: list(ds.iter_batches(batch_size=None, local_shuffle_buffer_size=3)),
    ),
    (
        "map of no format",
        ValueError,
        "The given batch format x isn't allowed",
        lambda ds: ds.map_batches(same, batch_format="x"),
    ),
    (
        "no batch size",
        ValueError,
        "Batch size can't be negative or 0",
        lambda ds: ds.map_batches(same, batch_size=0),
    ),
    (
        "GPUs without a size",
        ValueError,
        "You must provide `batch_size` to `map_batches` when requesting GPUs",
        lambda ds: ds.map_batches(same, num_gpus=1),
    ),
    ("length", AttributeError, "Use `ds.count()` to compute the length", len),
    ("a loop over it", TypeError, "objects aren't iterable", iter),
    ("an item of it", TypeError, "'Dataset' object is not subscriptable", lambda ds: ds["id"]),
    (
        "filter by nothing",
        ValueError,
        "Exactly one of 'fn' or 'expr' must be provided",
        lambda ds: ds.filter(),
    ),
    (
        "filter by both",
        ValueError,
        "Exactly one of 'fn' or 'expr' must be provided",
        lambda ds: ds.filter(same, expr="id > 1"),
    ),
    (
        "filter by text as a function",
        ValueError,
        "fn must be a UserDefinedFunction, but got str instead",
        lambda ds: ds.filter("id > 1"),
    ),
    (
        "filter by half a text",
        ValueError,
        "Invalid syntax in the expression",
        lambda ds: ds.filter(expr="id >"),
    ),
    (
        "filter by an unknown function",
        ValueError,
        "Unsupported function: fn",
        lambda ds: ds.filter(expr="fn(id)").take_all(),
    ),
    (
        "repartition into what",
        ValueError,
        "Either `num_blocks` or `target_num_rows_per_block` must be set",
        lambda ds: ds.repartition(),
    ),
    (
        "repartition into both",
        ValueError,
        "Only one of `num_blocks` or `target_num_rows_per_block` must be set",
        lambda ds: ds.repartition(2, target_num_rows_per_block=3),
    ),
    (
        "repartition by rows and shuffle",
        ValueError,
        "`shuffle` must be False when `target_num_rows_per_block` is set",
        lambda ds: ds.repartition(target_num_rows_per_block=2, shuffle=True),
    ),
    (
        "repartition into no rows",
        ValueError,
        "target_num_rows_per_block must be positive",
        lambda ds: ds.repartition(target_num_rows_per_block=0),
    ),
    (
        "blocks below nothing",
        ValueError,
        "must either be -1 or a positive integer",
        lambda ds: ray.data.range(3, override_num_blocks=-5),
    ),
]


def check(case: Case) -> None:
    _, kind, words, act = case
    pattern = words if "|" in words else re.escape(words)
    with pytest.raises(kind, match=pattern):
        act(ray.data.range(3))


def ids(cases: list[Case]) -> list[str]:
    return [case[0] for case in cases]


@pytest.mark.parametrize("case", COLUMNS, ids=ids(COLUMNS))
def test_columns_that_are_not_there_or_no_names(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", GROUPS, ids=ids(GROUPS))
def test_keys_and_aggregations_of_what_is_not_there(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", ROWS, ids=ids(ROWS))
def test_rows_and_batches_that_cannot_be(case: Case) -> None:
    check(case)
