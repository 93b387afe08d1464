"""`Dataset.summary`, `get_stats_summary` and `list_stats_summaries`."""

from __future__ import annotations

import datetime
import logging
import statistics
from typing import Any

import pandas as pd
import pytest

import skate.data
from skate.data import DataContext
from skate.data.aggregate import Count, Sum
from skate.data.datatype import DataType, TypeCategory

ROWS = [
    {"age": 25, "pay": 50000.0, "name": "Ann", "day": datetime.date(2024, 1, 1), "on": True, "tags": ["a"]},
    {"age": 30, "pay": 60000.0, "name": None, "day": datetime.date(2024, 3, 1), "on": False, "tags": ["a"]},
    {"age": 0, "pay": None, "name": "Bob", "day": None, "on": True, "tags": ["b", "c"]},
    {"age": 5, "pay": 1.0, "name": "Bob", "day": datetime.date(2023, 3, 1), "on": True, "tags": ["a"]},
]


def test_each_type_has_its_statistics() -> None:
    summary = skate.data.from_items(ROWS, override_num_blocks=3).summary()
    frame = summary.to_pandas().set_index("statistic")
    age = frame["age"]
    assert (age["count"], age["min"], age["max"], age["mean"], age["missing_pct"]) == (4, 0, 30, 15, 0)
    assert age["zero_pct"] == 25
    assert age["std"] == pytest.approx(statistics.pstdev([25, 30, 0, 5]))
    assert frame["pay"]["missing_pct"] == 25
    assert frame["pay"]["count"] == 4
    assert frame["name"]["approx_topk[0]"] == {"name": "Bob", "count": 2}
    assert frame["day"]["max"] == datetime.date(2024, 3, 1)
    assert frame["on"]["mean"] == 0.75
    assert frame["tags"]["approx_topk[0]"] == {"tags": ["a"], "count": 3}
    assert set(age.dropna().index) == {
        "count", "min", "max", "mean", "std", "approx_quantile[0]", "missing_pct", "zero_pct",
    }  # fmt: skip
    assert summary.columns == list(ROWS[0])
    assert "approx_topk[0]" in repr(summary)


def test_one_column() -> None:
    stats = skate.data.from_items(ROWS).summary(columns=["age"]).get_column_stats("age")
    assert list(stats.columns) == ["statistic", "value"]
    assert dict(zip(stats["statistic"], stats["value"], strict=True))["max"] == 30


def test_other_aggregations_for_a_type() -> None:
    ds = skate.data.from_items(ROWS)
    mapping = {DataType.int64(): lambda name: [Count(on=name), Sum(on=name)]}
    frame = ds.summary(override_dtype_agg_mapping=mapping).to_pandas().set_index("statistic")
    assert frame["age"].dropna().to_dict() == {"count": 4, "sum": 60}
    assert frame["pay"]["max"] == 60000
    for category in (TypeCategory.TEMPORAL, "temporal"):
        only = ds.summary(["day"], override_dtype_agg_mapping={category: lambda name: [Count(on=name)]})
        assert list(only.get_column_stats("day")["statistic"]) == ["count"]
    nulls = skate.data.from_items([{"none": None}]).summary(["none"])
    assert list(nulls.get_column_stats("none")["statistic"]) == ["count"]


def test_an_unknown_column_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="'agee'.*did you mean 'age'"):
        skate.data.from_items(ROWS).summary(columns=["agee"])


@pytest.mark.parametrize("rows", [[], [{"x": None}], [{"x": 1}]])
def test_of_hardly_anything(rows: list[Any]) -> None:
    frame = skate.data.from_items(rows).summary().to_pandas()
    assert isinstance(frame, pd.DataFrame)


def test_what_a_run_took_as_numbers() -> None:
    ds = skate.data.range(100).map(lambda row: row).materialize()
    stats = ds.get_stats_summary()
    assert stats.operators_stats[-1].rows_out == 100
    assert stats.num_rows_per_s > 0
    assert stats.get_total_wall_time() > 0
    assert stats.get_total_time_all_blocks() >= 0
    assert "Map(<lambda>)" in stats.to_string()
    assert "Map(<lambda>)" in stats.runtime_metrics()


def test_of_what_has_not_run() -> None:
    stats = skate.data.range(1).get_stats_summary()
    assert (stats.operators_stats, stats.num_rows_per_s, stats.to_string()) == ([], 0, "")


def test_runs_are_kept_if_that_is_asked_for(context: DataContext) -> None:
    skate.data.range(3).materialize()
    before = len(skate.data.list_stats_summaries())
    context.enable_stats_summary_collection = True
    ds = skate.data.range(3)
    ds.set_name("mine")
    ds.materialize()
    found = skate.data.list_stats_summaries()
    assert len(found) == before + 1
    assert found[-1].base_name == "mine"


def test_runs_are_logged_if_that_is_asked_for(context: DataContext, caplog: pytest.LogCaptureFixture) -> None:
    context.enable_auto_log_stats = True
    with caplog.at_level(logging.INFO, logger="skate.data"):
        skate.data.range(3).map(lambda row: row).materialize()
    assert "Map(<lambda>)" in caplog.text
