"""Rewrites of plans: what is read, what moves and what must stay in place, with the same rows as a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skate.data
from skate.data.expressions import col, random
from skate.data.plan import explain
from skate.data.plan.rules import optimized


@pytest.fixture
def parquet(tmp_path: Path) -> Any:
    table = pa.table(
        {"a": list(range(100)), "b": [str(i) for i in range(100)], "c": [i / 2 for i in range(100)]}
    )
    pq.write_table(table, tmp_path / "x.parquet")
    return skate.data.read_parquet(str(tmp_path))


def plan_of(dataset: Any) -> list[str]:
    return [line.lstrip("+- |") for line in explain.tree(optimized(dataset._plan)).splitlines()]


def test_only_columns_that_are_needed_are_read(parquet: Any) -> None:
    chosen = parquet.select_columns(["c", "a"])
    assert plan_of(chosen) == ["SelectColumns", "ReadParquet(columns=['a', 'c'])"]
    assert chosen.take(1) == [{"c": 0.0, "a": 0}]


def test_columns_that_are_dropped_are_not_read(parquet: Any) -> None:
    rest = parquet.drop_columns(["b"])
    assert plan_of(rest)[-1] == "ReadParquet(columns=['a', 'c'])"
    assert rest.take(1) == [{"a": 0, "c": 0.0}]


def test_conditions_go_into_the_reader_with_the_columns_they_need(parquet: Any) -> None:
    kept = parquet.filter(expr=col("a") > 10).filter(expr=col("c") < 7).select_columns(["b"])
    assert plan_of(kept) == [
        "SelectColumns",
        "ReadParquet(columns=['b'], where=(col('a') > 10) & (col('c') < 7))",
    ]
    assert kept.take_all() == [{"b": "11"}, {"b": "12"}, {"b": "13"}]


def test_what_a_reader_might_take_otherwise_stays_behind_it(parquet: Any) -> None:
    kept = parquet.filter(expr=(col("a") > 10) & (col("a") % 7 == 0))
    assert plan_of(kept) == ["Filter(col('a') % 7 == 0)", "ReadParquet(where=col('a') > 10)"] or plan_of(
        kept
    )[0].startswith("Filter")
    assert [row["a"] for row in kept.take_all()] == [a for a in range(11, 100) if a % 7 == 0]


def test_random_conditions_do_not_move(parquet: Any) -> None:
    drawn = parquet.random_shuffle(seed=1).filter(expr=random(seed=1) < 0.5)
    assert plan_of(drawn)[0].startswith("Filter")


def test_a_condition_goes_before_a_sort(parquet: Any) -> None:
    kept = parquet.sort("a", descending=True).filter(expr=col("a") < 3)
    assert plan_of(kept) == ["Sort", "ReadParquet(where=col('a') < 3)"]
    assert [row["a"] for row in kept.take_all()] == [2, 1, 0]


def test_a_condition_on_a_column_that_was_made_stays_behind_it(parquet: Any) -> None:
    kept = parquet.with_column("a", col("a") + 1).filter(expr=col("a") < 3)
    assert plan_of(kept)[0].startswith("Filter")
    assert [row["a"] for row in kept.take_all()] == [1, 2]
    other = parquet.with_column("d", col("a") + 1).filter(expr=col("a") < 3)
    assert plan_of(other)[0] == "WithColumns"
    assert [row["d"] for row in other.take_all()] == [1, 2, 3]


def test_a_condition_does_not_go_before_a_limit(parquet: Any) -> None:
    kept = parquet.limit(5).filter(expr=col("a") > 2)
    assert [row["a"] for row in kept.take_all()] == [3, 4]


def test_a_limit_behind_a_condition_counts_what_is_left(parquet: Any) -> None:
    kept = parquet.filter(expr=col("a") > 90).limit(3)
    assert [row["a"] for row in kept.take_all()] == [91, 92, 93]


def test_limits_go_before_functions_of_a_row() -> None:
    called: list[int] = []

    def note(row: dict[str, Any]) -> dict[str, Any]:
        called.append(row["id"])
        if row["id"] > 3:
            raise AssertionError("rows beyond the limit are not wanted")
        return row

    limited = skate.data.range(1000).map(note).limit(10).limit(4)
    assert plan_of(limited) == ["Map(note)", "Limit(4)", "ReadRange(limit=4)"]
    assert limited.take_all() == [{"id": i} for i in range(4)]


def test_limits_do_not_go_before_filters_and_flat_maps() -> None:
    numbers = skate.data.range(100)
    assert numbers.filter(lambda row: row["id"] % 2).limit(3).take_all() == [{"id": 1}, {"id": 3}, {"id": 5}]
    doubled = numbers.flat_map(lambda row: [row, row]).limit(3).take_all()
    assert doubled == [{"id": 0}, {"id": 0}, {"id": 1}]


def test_a_limit_of_a_union_limits_its_inputs_too() -> None:
    both = skate.data.range(50).union(skate.data.range(50)).limit(60)
    assert len([line for line in plan_of(both) if line == "Limit(60)"]) == 3
    assert [row["id"] for row in both.take_all()] == [*range(50), *range(10)]


def test_a_plan_that_nothing_betters_stays_itself() -> None:
    plan = skate.data.range(5).map(lambda row: row)._plan
    assert optimized(plan) is plan
