"""Stages run if what they hold fits into memory, however many rows flow through them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skate import data
from skate.data import Dataset
from skate.data.aggregate import Count, CountDistinct, Sum, Unique
from skate.data.exchange.aggregate import AggregateKernel
from skate.data.expressions import col
from skate.data.plan.rules import optimized
from skate.data.relational import passes, stages
from skate.data.relational.held_bytes import fits
from tests.data.relational.both_ways import check, is_staged

ROWS = 10_000


def read(folder: Path, **options: Any) -> Dataset:
    """Return a dataset of 10,000 rows in two files."""
    table = pa.table(
        {
            "few": pa.array([row % 7 for row in range(ROWS)], pa.int32()),
            "flag": [row % 2 == 0 for row in range(ROWS)],
            "many": [(row * 7919) % 1_000_003 for row in range(ROWS)],
            "value": [row / 3 for row in range(ROWS)],
            "name": [f"name-{row % 5}" for row in range(ROWS)],
            "text": [f"text-{row}" for row in range(ROWS)],
        }
    )
    folder.mkdir()
    for number in range(2):
        part = table.slice(number * ROWS // 2, ROWS // 2)
        pq.write_table(part, folder / f"{number}.parquet", **options)
    return data.read_parquet(str(folder))


@pytest.fixture
def rows(tmp_path: Path) -> Dataset:
    return read(tmp_path / "rows")


def least(ds: Dataset) -> int:
    """Return the least power of two whose bytes a plan fits into."""
    plan = optimized(ds._plan)
    return next(bits for bits in range(40) if fits(plan, 1 << bits))


def grouped(ds: Dataset, *keys: str) -> Dataset:
    return ds.groupby(list(keys) or None).aggregate(Count(), Sum("value"))


def test_rows_that_flow_are_not_held(rows: Dataset) -> None:
    assert least(rows.filter(expr=col("few") > 1).limit(10)) == 0
    assert least(rows.union(rows).select_columns(["few"])) == 0


def test_sorts_and_joins_hold_the_columns_in_use(rows: Dataset) -> None:
    whole = least(rows.sort("few"))
    assert whole == 20  # 10,000 rows of 8 * 2 + 4 + 2 * 16 bytes and more
    assert least(rows.select_columns(["value"]).sort("value")) == 17
    assert least(rows.sort("few").sort("many").filter(expr=col("few") > 1)) == whole
    assert least(rows.join(rows, "full_outer", 1, on=("few",), right_suffix="_r")) == whole + 1


def test_joins_hold_the_rows_that_they_look_up(rows: Dataset) -> None:
    few = rows.select_columns(["few", "flag"])
    whole, small = least(rows.sort("few")), least(few.sort("few"))
    assert small < whole - 3
    assert least(rows.join(few, "inner", 1, on=("few",), right_suffix="_r")) == small
    assert least(few.join(rows, "inner", 1, on=("few",), right_suffix="_r")) == small
    assert least(rows.join(few, "left_semi", 1, on=("few",))) <= small
    assert least(few.join(rows, "right_anti", 1, on=("few",))) <= small
    assert least(rows.join(few, "left_outer", 1, on=("few",), right_suffix="_r")) >= whole
    assert least(few.join(rows, "left_semi", 1, on=("few",))) >= small
    assert least(rows.join(few, "inner", 1, on=("few",), right_suffix="_r").sort("value")) >= whole


def test_few_groups_need_no_memory_for_their_rows(rows: Dataset) -> None:
    assert least(grouped(rows)) <= 5
    assert least(grouped(rows, "few")) <= 9
    assert least(grouped(rows, "few", "flag")) <= 11
    assert least(grouped(rows, "name")) <= 13
    changed = rows.filter(expr=col("many") > 5).with_column("twice", col("value") * 2)
    assert least(grouped(changed, "few")) <= 9
    assert least(grouped(rows, "few").sort("few")) <= 9


def test_few_distinct_values_need_no_memory_for_their_rows(rows: Dataset) -> None:
    for names, most in ((["few"], 10), (["name"], 13), (["few", "name"], 13)):
        kernel = AggregateKernel((), [CountDistinct(name) for name in names])
        assert least(rows._exchanged(kernel)) <= most
    assert least(rows._exchanged(AggregateKernel((), [Unique("text")]))) >= 17


@pytest.mark.parametrize("key", ["many", "text", "value"])
def test_many_groups_hold_all_rows(rows: Dataset, key: str) -> None:
    assert least(grouped(rows, key)) >= 17


def test_groups_by_unknown_values_hold_all_rows(rows: Dataset, tmp_path: Path) -> None:
    made = rows.with_column("few", col("many") + 1)
    renamed = rows.drop_columns(["few"]).rename_columns({"many": "few"})
    joined = rows.join(rows.select_columns(["few"]).limit(1), "inner", 1, on=("few",))
    counts = rows.groupby("few").aggregate(CountDistinct("text"))
    silent = read(tmp_path / "silent", write_statistics=False)
    plain = read(tmp_path / "plain", use_dictionary=False)
    for ds in (grouped(made, "few"), grouped(renamed, "few"), grouped(joined, "few"), counts):
        assert least(ds) >= 16
    assert least(grouped(silent, "few")) >= 16
    assert least(grouped(plain, "name")) >= 16


def test_blocks_are_in_memory_already() -> None:
    ds = data.from_arrow(pa.table({"k": list(range(1 << 14))}))
    held = least(ds.filter(expr=col("k") > 1))
    assert held == 17 == least(ds.sort("k")) == least(ds.groupby("k").aggregate(Count()))


def test_over_the_budget_only_what_holds_much_runs_the_ordinary_way(
    rows: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "_budget", lambda context: 3 << 14)
    for ds in (
        grouped(rows, "few"),
        rows.filter(expr=col("value") > 3000),
        grouped(rows, "name").sort("sum(value)"),
    ):
        assert is_staged(ds)
        check(ds, exact=False)
    monkeypatch.setattr(passes, "_PASSES", 1)
    assert not is_staged(rows.sort("value"))
    assert not is_staged(grouped(rows, "text"))
    part = grouped(rows, "few").join(rows, "full_outer", 1, on=("few",))
    names = [each.name for each in stages.with_stages(optimized(part._plan), part.context).walk()]
    assert names[-1] == "Join" and "Polars" in names[0]
