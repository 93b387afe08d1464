"""Groups, aggregations of all rows, unique values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import ray
import ray.data
from ray.data.aggregate import (
    AbsMax,
    AggregateFn,
    AggregateFnV2,
    ApproximateQuantile,
    ApproximateTopK,
    AsList,
    Count,
    CountDistinct,
    Max,
    Mean,
    Min,
    MissingValuePercentage,
    Quantile,
    Std,
    Sum,
    Unique,
    ValueCounter,
    ZeroPercentage,
)

COLUMNS = {
    "k": ["b", "a", None, "a", "b", None],
    "x": [1, 2, 3, None, 5, 6],
    "f": [1.5, 3.0, None, 2.0, 0.0, 4.0],
    "s": ["u", "v", None, "v", "w", "x"],
}


def table() -> Any:
    return ray.data.from_arrow(pa.table(COLUMNS))


def groups() -> Any:
    return ray.data.from_items([{"k": at % 3, "x": at} for at in range(9)])


def by_key(ds: Any, name: str, key: str = "k") -> dict[Any, Any]:
    return {row[key]: row[name] for row in ds.take_all()}


@pytest.mark.parametrize(
    ("aggregation", "name", "wanted"),
    [
        (Count(), "count()", 6),
        (Count("x"), "count(x)", 6),
        (Count("x", ignore_nulls=True), "count(x)", 5),
        (Sum("x"), "sum(x)", 17),
        (Sum("x", ignore_nulls=False), "sum(x)", None),
        (Min("x"), "min(x)", 1),
        (Max("x"), "max(x)", 6),
        (Min("s"), "min(s)", "u"),
        (Max("s"), "max(s)", "x"),
        (Max("x", ignore_nulls=False), "max(x)", None),
        (AbsMax("x"), "abs_max(x)", 6),
        (Mean("x"), "mean(x)", pytest.approx(3.4)),
        (Mean("x", ignore_nulls=False), "mean(x)", None),
        (Mean("x", alias_name="middle"), "middle", pytest.approx(3.4)),
        (Std("x"), "std(x)", pytest.approx(2.073644135332772)),
        (Std("x", ddof=0), "std(x)", pytest.approx(1.8547236990991407)),
        (Quantile("x"), "quantile(x)", 3.0),
        (Quantile("x", q=0.3), "quantile(x)", pytest.approx(2.2)),
        (AsList("x"), "list(x)", [1, 2, 3, None, 5, 6]),
        (AsList("x", ignore_nulls=True), "list(x)", [1, 2, 3, 5, 6]),
        (CountDistinct("s"), "count_distinct(s)", 4),
        (CountDistinct("s", ignore_nulls=False), "count_distinct(s)", 5),
        (MissingValuePercentage("x"), "missing_pct(x)", pytest.approx(100 / 6)),
        (ZeroPercentage("f"), "zero_pct(f)", pytest.approx(20.0)),
        (ZeroPercentage("f", ignore_nulls=False), "zero_pct(f)", pytest.approx(100 / 6)),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else None,
)
def test_aggregation_of_all_rows(aggregation: Any, name: str, wanted: Any) -> None:
    assert table().aggregate(aggregation) == {name: wanted}


def test_unique_values_as_an_aggregation() -> None:
    found = table().aggregate(Unique("s"))["unique(s)"]
    assert sorted(found, key=str) == [None, "u", "v", "w", "x"]


def test_unique_values_without_null() -> None:
    assert sorted(table().aggregate(Unique("s", ignore_nulls=True))["unique(s)"]) == ["u", "v", "w", "x"]


def test_value_counter() -> None:
    found = table().aggregate(ValueCounter("s"))["value_counter(s)"]
    assert dict(zip(found["values"], found["counts"], strict=True)) == {
        "u": 1,
        "v": 2,
        None: 1,
        "w": 1,
        "x": 1,
    }


def test_several_aggregations_at_once() -> None:
    assert table().aggregate(Sum("x"), Max("f")) == {"sum(x)": 17, "max(f)": 4.0}


def test_aggregations_of_one_name() -> None:
    assert table().aggregate(Sum("x"), Sum("x")) == {"sum(x)": 17, "sum(x)_2": 17}


def test_methods_give_plain_values() -> None:
    ds = ray.data.range(10)
    assert (ds.sum("id"), ds.min("id"), ds.max("id"), ds.mean("id")) == (45, 0, 9, 4.5)
    assert ds.std("id") == pytest.approx(3.0276503540974917)


def test_methods_with_several_columns_give_a_dict() -> None:
    assert table().sum(["x", "f"]) == {"sum(x)": 17, "sum(f)": 10.5}


def test_methods_without_a_column_take_all() -> None:
    assert ray.data.range(10).sum() == 45


def test_methods_with_nulls_that_count() -> None:
    assert table().sum("x", ignore_nulls=False) is None


def test_std_with_another_ddof() -> None:
    assert ray.data.range(4).std("id", ddof=0) == pytest.approx(math.sqrt(1.25))


def test_sum_of_no_rows() -> None:
    assert ray.data.range(4).filter(lambda row: False).sum("id") is None


def test_an_aggregation_that_the_type_does_not_have() -> None:
    with pytest.raises(Exception, match="sum"):
        table().sum("s")


def test_an_aggregation_of_an_unknown_column() -> None:
    with pytest.raises(ValueError):
        table().sum("nope")


def test_group_sums() -> None:
    assert by_key(groups().groupby("k").sum("x"), "sum(x)") == {0: 9, 1: 12, 2: 15}


def test_group_counts() -> None:
    assert by_key(groups().groupby("k").count(), "count()") == {0: 3, 1: 3, 2: 3}


def test_groups_of_null() -> None:
    assert by_key(table().groupby("k").count(), "count()") == {"a": 2, "b": 2, None: 2}


def test_group_means() -> None:
    assert by_key(table().groupby("k").mean("x"), "mean(x)") == {"a": 2.0, "b": 3.0, None: 4.5}


def test_group_minima_and_maxima() -> None:
    assert by_key(table().groupby("k").min("x"), "min(x)") == {"a": 2, "b": 1, None: 3}
    assert by_key(table().groupby("k").max("x"), "max(x)") == {"a": 2, "b": 5, None: 6}


def test_group_std_of_one_value_is_nan() -> None:
    found = by_key(table().groupby("k").std("x"), "std(x)")
    assert math.isnan(found["a"])
    assert found["b"] == pytest.approx(math.sqrt(8))


def test_group_sums_with_nulls_that_count() -> None:
    found = by_key(table().groupby("k").aggregate(Sum("x", ignore_nulls=False)), "sum(x)")
    assert found == {"a": None, "b": 6, None: 9}


def test_groups_by_two_columns() -> None:
    ds = ray.data.from_items([{"a": at % 2, "b": at % 3, "x": 1} for at in range(12)])
    found = {(row["a"], row["b"]): row["sum(x)"] for row in ds.groupby(["a", "b"]).sum("x").take_all()}
    assert found == {(a, b): 2 for a in range(2) for b in range(3)}


def test_group_lists() -> None:
    assert by_key(table().groupby("k").aggregate(AsList("x")), "list(x)") == {
        "a": [2, None],
        "b": [1, 5],
        None: [3, 6],
    }


def test_several_columns_by_group() -> None:
    row = next(row for row in table().groupby("k").sum(["x", "f"]).take_all() if row["k"] == "b")
    assert row == {"k": "b", "sum(x)": 6, "sum(f)": 1.5}


def test_all_columns_by_group() -> None:
    assert set(groups().groupby("k").max().take_all()[0]) == {"k", "max(x)"}


def test_one_group_of_all() -> None:
    assert groups().groupby(None).sum("x").take_all() == [{"sum(x)": 36}]


def test_groups_of_no_rows() -> None:
    assert groups().filter(lambda row: False).groupby("k").count().take_all() == []


def test_groups_by_an_unknown_column() -> None:
    with pytest.raises(Exception, match="nope"):
        groups().groupby("nope").count().take_all()


def test_groups_want_a_positive_number_of_partitions() -> None:
    with pytest.raises(ValueError):
        groups().groupby("k", num_partitions=0)


def test_groups_with_a_number_of_partitions() -> None:
    assert by_key(groups().groupby("k", num_partitions=2).count(), "count()") == {0: 3, 1: 3, 2: 3}


def test_distinct_keys() -> None:
    assert sorted(row["k"] for row in groups().groupby("k").aggregate().take_all()) == [0, 1, 2]


def test_an_aggregation_made_of_functions() -> None:
    own = AggregateFn(
        init=lambda key: 0,
        accumulate_row=lambda state, row: state + row["x"],
        merge=lambda a, b: a + b,
        name="own",
        finalize=lambda state: -state,
    )
    assert by_key(groups().groupby("k").aggregate(own), "own") == {0: -9, 1: -12, 2: -15}


def test_an_aggregation_made_of_functions_of_blocks() -> None:
    own = AggregateFn(
        init=lambda key: 0,
        accumulate_block=lambda state, block: state + len(block),
        merge=lambda a, b: a + b,
        name="own",
    )
    assert groups().aggregate(own) == {"own": 9}


def test_an_aggregation_wants_one_way_to_accumulate() -> None:
    with pytest.raises(ValueError):
        AggregateFn(init=lambda key: 0, merge=lambda a, b: a, name="own")


class Range(AggregateFnV2):
    """The difference of the largest and the smallest value."""

    def __init__(self, on: str) -> None:
        super().__init__(f"range({on})", zero_factory=lambda: [math.inf, -math.inf], on=on, ignore_nulls=True)

    def aggregate_block(self, block: Any) -> Any:
        values = block[self.get_target_column()].to_pylist()
        return [min(values), max(values)]

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return [min(current_accumulator[0], new[0]), max(current_accumulator[1], new[1])]

    def finalize(self, accumulator: Any) -> Any:
        return accumulator[1] - accumulator[0]


def test_an_aggregation_as_a_class() -> None:
    assert by_key(groups().groupby("k").aggregate(Range("x")), "range(x)") == {0: 6, 1: 6, 2: 6}


def test_an_aggregation_as_a_class_over_all_rows() -> None:
    assert ray.data.range(50, override_num_blocks=4).aggregate(Range("id")) == {"range(id)": 49}


def test_unique() -> None:
    assert sorted(groups().unique("k")) == [0, 1, 2]


def test_unique_with_null() -> None:
    assert sorted(table().unique("k"), key=str) == [None, "a", "b"]


def test_unique_without_null() -> None:
    assert sorted(table().unique("k", ignore_nulls=True)) == ["a", "b"]


def test_map_groups_of_arrays() -> None:
    found = (
        groups()
        .groupby("k")
        .map_groups(lambda batch: {"k": batch["k"][:1], "n": np.array([len(batch["x"])])})
    )
    assert by_key(found, "n") == {0: 3, 1: 3, 2: 3}


def test_map_groups_of_frames() -> None:
    found = (
        groups()
        .groupby("k")
        .map_groups(lambda frame: frame.assign(m=frame["x"] - frame["x"].mean()), batch_format="pandas")
    )
    assert sorted((row["k"], row["m"]) for row in found.take_all()) == [
        (k, m) for k in range(3) for m in (-3.0, 0.0, 3.0)
    ]


def test_map_groups_that_yields() -> None:
    found = groups().groupby("k").map_groups(lambda batch: ({"a": [at]} for at in range(2)))
    assert sorted(row["a"] for row in found.take_all()) == [0, 0, 0, 1, 1, 1]


def test_map_groups_without_a_key() -> None:
    assert groups().groupby(None).map_groups(lambda batch: {"n": [len(batch["x"])]}).take_all() == [{"n": 9}]


def test_map_groups_with_arguments() -> None:
    found = groups().groupby("k").map_groups(lambda batch, by: {"n": batch["x"][:1] * 0 + by}, fn_args=(7,))
    assert [row["n"] for row in found.take_all()] == [7, 7, 7]


class Counter:
    """How often it was called, and with how many rows."""

    def __init__(self, start: int) -> None:
        self.start = start

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"k": batch["k"][:1], "n": [len(batch["k"]) + self.start]}


def test_map_groups_with_a_class() -> None:
    compute = ray.data.ActorPoolStrategy(size=1)
    found = groups().groupby("k").map_groups(Counter, compute=compute, fn_constructor_args=(10,))
    assert by_key(found, "n") == {0: 13, 1: 13, 2: 13}


def test_map_groups_that_returns_no_batch() -> None:
    with pytest.raises(ValueError):
        groups().groupby("k").map_groups(lambda batch: [1]).take_all()


def test_map_groups_that_raises() -> None:
    def fail(batch: Any) -> Any:
        raise RuntimeError("on purpose")

    with pytest.raises(Exception, match="on purpose"):
        groups().groupby("k").map_groups(fail).take_all()


@pytest.mark.chosen_difference("NaN is a number, and only null is missing", id="D-data-nan-sums")
def test_nan_is_a_number() -> None:
    ds = ray.data.from_items([{"x": 1.0}, {"x": math.nan}])
    assert math.isnan(ds.sum("x"))
    assert math.isnan(ds.mean("x"))


@pytest.mark.chosen_difference("small results are sorted", id="D-data-group-order")
def test_groups_come_in_the_order_of_their_keys() -> None:
    found = ray.data.from_items([{"k": key} for key in (3, 1, None, 2)]).groupby("k").count().take_all()
    assert [row["k"] for row in found] == [1, 2, 3, None]


@pytest.mark.chosen_difference("no package of sketches is needed", id="D-data-sketches")
def test_approximations_of_few_values_are_exact() -> None:
    ds = ray.data.from_items([{"x": float(at), "w": "a" if at < 60 else str(at)} for at in range(101)])
    found = ds.aggregate(ApproximateQuantile("x", [0.0, 0.5, 1.0]), ApproximateTopK("w", 1))
    assert found["approx_quantile(x)"] == [0.0, 50.0, 100.0]
    assert found["approx_topk(w)"] == [{"w": "a", "count": 60}]


@pytest.mark.chosen_difference("sums for means are floats", id="D-data-mean-overflow")
def test_means_of_large_numbers() -> None:
    assert ray.data.from_items([{"x": 2**62}] * 4).mean("x") == 2.0**62
