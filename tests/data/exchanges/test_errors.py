"""Rejected arguments, when they are rejected, and the messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from skate.data import Dataset
from skate.data.aggregate import AggregateFn, AggregateFnV2, ApproximateQuantile, Count, Quantile, Sum
from tests.data.exchanges.tables import dataset_of

TABLE = pa.table({"name": ["a", "b"], "value": [1, 2], "many": [[1], [2]]})


@pytest.fixture(params=["at once", "partitions"])
def ds(request: Any) -> Dataset:
    return dataset_of([TABLE, TABLE], request.param)


UNKNOWN: list[Callable[[Dataset], Any]] = [
    lambda ds: ds.sort("valu"),
    lambda ds: ds.groupby("valu"),
    lambda ds: ds.unique("valu"),
    lambda ds: ds.repartition(2, keys=["valu"]),
    lambda ds: ds.sum("valu"),
    lambda ds: ds.join(ds, "inner", 1, on=("valu",)),
    lambda ds: ds.groupby("name").sum("valu").take_all(),
    lambda ds: ds.map(lambda row: row).sort("valu").take_all(),
    lambda ds: ds.map(lambda row: row).groupby("valu").count().take_all(),
]


@pytest.mark.parametrize("act", UNKNOWN)
def test_an_unknown_column_names_the_nearest(ds: Dataset, act: Callable[[Dataset], Any]) -> None:
    with pytest.raises(ValueError, match="the column 'valu'.*did you mean 'value'"):
        act(ds)


REFUSED: list[tuple[type[Exception], str, Callable[[Dataset], Any]]] = [
    (ValueError, "Either `num_blocks` or", lambda ds: ds.repartition()),
    (ValueError, "but not both", lambda ds: ds.repartition(1, target_num_rows_per_block=1)),
    (ValueError, "num_blocks must be >= 0, got -1", lambda ds: ds.repartition(-1)),
    (ValueError, "`shuffle` must be", lambda ds: ds.repartition(target_num_rows_per_block=1, shuffle=True)),
    (ValueError, "must be positive, got 0", lambda ds: ds.repartition(target_num_rows_per_block=0)),
    (DeprecationWarning, r"repartition\(3, shuffle=True\)", lambda ds: ds.random_shuffle(num_blocks=3)),
    (ValueError, "seed must be an integer", lambda ds: ds.random_shuffle(seed="a")),
    (ValueError, "one or several columns", lambda ds: ds.sort(None)),
    (ValueError, "one or several columns", lambda ds: ds.sort([])),
    (ValueError, "names a column twice", lambda ds: ds.sort(["name", "name"])),
    (ValueError, "Length of `descending`", lambda ds: ds.sort(["name", "value"], descending=[True])),
    (ValueError, "boundaries require a single key", lambda ds: ds.sort(["name", "value"], boundaries=[1])),
    (TypeError, "'many'.*do not work as keys", lambda ds: ds.sort("many")),
    (TypeError, "'many'.*do not work as keys", lambda ds: ds.groupby("many").count().take_all()),
    (ValueError, "num_partitions must be >= 1", lambda ds: ds.groupby("name", num_partitions=0)),
    (ValueError, "at least one aggregation", lambda ds: ds.aggregate()),
    (TypeError, r"skate.data.aggregate, such as Sum\('x'\)", lambda ds: ds.aggregate("value")),
    (TypeError, r"sum\(name\) cannot be computed: column 'name'.*string", lambda ds: ds.sum("name")),
    (TypeError, r"mean\(many\) cannot be computed", lambda ds: ds.groupby("name").mean("many").take_all()),
    (ValueError, "Supported join types are: inner", lambda ds: ds.join(ds, "outer", 1)),
    (ValueError, "tuple or list as `on`", lambda ds: ds.join(ds, "inner", 1, on="name")),
    (
        ValueError,
        "on and right_on must have the same number",
        lambda ds: _join(ds, on=("name",), right_on=("name", "value")),
    ),
    (ValueError, "both sides.*'many', 'value'", lambda ds: _join(ds, on=("name",))),
    (
        TypeError,
        "'name' of type string and 'value' of type int64",
        lambda ds: _join(ds, ("name",), ("value",), "_r"),
    ),
    (TypeError, "do not work as keys of sorts, groups or joins", lambda ds: _join(ds, ("many",), None, "_r")),
    (ValueError, "several columns called 'value_r'", lambda ds: _clash(ds)),
    (ValueError, "q of a Quantile", lambda ds: Quantile("value", q=2)),
    (ValueError, "quantiles must be between", lambda ds: ApproximateQuantile("value", [-1])),
    (
        ValueError,
        "Exactly one of accumulate_row or",
        lambda ds: AggregateFn(lambda k: 0, lambda a, b: a, "own"),
    ),
    (ValueError, "name of an aggregation", lambda ds: AggregateFnV2("", int, on=None, ignore_nulls=True)),
    (
        ValueError,
        "column_name must be a non-empty string",
        lambda ds: ds.groupby("name").with_column("", None),
    ),
    (TypeError, "expr must be an expression", lambda ds: ds.groupby("name").with_column("x", 3)),
]


def _join(ds: Dataset, on: Any, right_on: Any = None, suffix: str | None = None) -> Any:
    return ds.join(ds, "inner", 1, on=on, right_on=right_on, right_suffix=suffix).take_all()


def _clash(ds: Dataset) -> Any:
    left = dataset_of([pa.table({"id": [1], "value": [1], "value_r": [2]})], "at once")
    right = dataset_of([pa.table({"id": [1], "value": [1]})], "at once")
    return left.join(right, "inner", 1, right_suffix="_r").take_all()


@pytest.mark.parametrize(("kind", "words", "act"), REFUSED)
def test_what_is_refused(
    ds: Dataset, kind: type[Exception], words: str, act: Callable[[Dataset], Any]
) -> None:
    with pytest.raises(kind, match=words):
        act(ds)


def test_a_join_of_unknown_schemas_is_refused_when_it_runs(ds: Dataset) -> None:
    later = ds.map(lambda row: row)
    made = later.join(later, "inner", 1, on=("name",), right_on=("value",), right_suffix="_r")
    with pytest.raises(TypeError, match="cannot be joined"):
        made.take_all()
    with pytest.raises(ValueError, match="have the same types"):
        later.join(
            later, "inner", 1, on=("name",), right_on=("value",), right_suffix="_r", validate_schemas=True
        )


def test_an_aggregation_of_ones_own_that_raises(ds: Dataset) -> None:
    class Broken(AggregateFnV2):
        def aggregate_block(self, block: Any) -> Any:
            raise LookupError("mine")

        def combine(self, current_accumulator: Any, new: Any) -> Any:
            return new

    with pytest.raises(LookupError, match="mine"):
        ds.aggregate(Broken("broken", int, on="value", ignore_nulls=True))


def test_aggregations_of_one_name_get_a_number(ds: Dataset) -> None:
    assert ds.aggregate(Sum("value"), Sum("value"), Count()) == {
        "sum(value)": 6,
        "sum(value)_2": 6,
        "count()": 4,
    }
