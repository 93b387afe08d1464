"""Times down to the nanosecond, by every route."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")

TEXT = "2024-01-01 00:00:00.123456789"
MOMENT = pd.Timestamp(TEXT)


def frame() -> pd.DataFrame:
    return pd.DataFrame({"t": pd.to_datetime([TEXT])})


def passed(row: dict[str, Any]) -> dict[str, Any]:
    return {"t": row["t"]}


@pytest.mark.parametrize("value", [MOMENT, np.datetime64(TEXT)], ids=["pandas", "numpy"])
def test_items_with_nanoseconds_keep_them(value: Any) -> None:
    assert ray.data.from_items([{"t": value}]).take_all() == [{"t": MOMENT}]
    assert ray.data.from_items([{"t": value}]).map(passed).to_pandas()["t"].iloc[0] == MOMENT


@pytest.mark.parametrize(
    "act",
    [
        lambda ds: ds.map(passed),
        lambda ds: ds.map(lambda row: {"t": row["t"] + pd.Timedelta(0, "ns")}),
        lambda ds: ds.flat_map(lambda row: [row]),
        lambda ds: ds.map_batches(lambda batch: batch),
        lambda ds: ds.map_batches(lambda batch: batch, batch_format="pandas"),
        lambda ds: ds.map_batches(lambda batch: batch, batch_format="pyarrow"),
        lambda ds: ds.filter(lambda row: row["t"].nanosecond == 789),
        lambda ds: ds.sort("t"),
        lambda ds: ds.repartition(2),
        lambda ds: ds.random_shuffle(),
        lambda ds: ds.union(ds).limit(1),
        lambda ds: ds.groupby("t").count(),
        lambda ds: ds.groupby("t").map_groups(lambda group: group),
        lambda ds: ds.add_column("x", lambda batch: 1),
    ],
)
def test_nanoseconds_survive(act: Any) -> None:
    assert [row["t"] for row in act(ray.data.from_pandas(frame())).take_all()] == [MOMENT]


def test_a_nanosecond_more() -> None:
    dataset = ray.data.from_pandas(frame()).map(lambda row: {"t": row["t"] + pd.Timedelta(1, "ns")})
    assert dataset.take_all() == [{"t": MOMENT + pd.Timedelta(1, "ns")}]


def test_nanoseconds_and_nothing() -> None:
    assert ray.data.from_items([{"t": MOMENT}, {"t": None}]).take_all() == [{"t": MOMENT}, {"t": None}]


def test_times_with_and_without_nanoseconds() -> None:
    plain = datetime.datetime(2024, 1, 1)
    found = ray.data.from_items([{"t": MOMENT}, {"t": plain}]).take_all()
    assert [row["t"] for row in found] == [MOMENT, plain]


def test_extremes_and_unique_values_with_nanoseconds() -> None:
    dataset = ray.data.from_pandas(frame())
    assert dataset.max("t") == MOMENT
    assert dataset.min("t") == MOMENT
    assert dataset.unique("t") == [MOMENT]


def test_the_type_tells_of_nanoseconds() -> None:
    assert ray.data.from_items([{"t": MOMENT}]).schema().types == [pa.timestamp("ns")]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (pd.Timestamp("2024-01-01 00:00:00.123456"), datetime.datetime),
        (datetime.datetime(2024, 1, 1, 1, 1, 1, 5), datetime.datetime),
        (datetime.date(2024, 1, 1), datetime.date),
        (datetime.time(1, 2, 3, 4), datetime.time),
        (datetime.timedelta(seconds=1, microseconds=5), datetime.timedelta),
        (np.datetime64("2024-01-01T00:00:00"), datetime.datetime),
    ],
)
def test_coarser_times_are_pythons_own(value: Any, kind: type) -> None:
    found = ray.data.from_items([{"t": value}]).map(passed).take_all()[0]["t"]
    assert type(found) is kind
    assert pd.Timestamp(found) == pd.Timestamp(value) if kind is datetime.datetime else found == value


@pytest.mark.chosen_difference("a value arrives as what it was", id="D-data-time-zones")
def test_zones_and_durations_keep_their_nanoseconds() -> None:
    zoned = MOMENT.tz_localize("UTC")
    short = pd.Timedelta(1, "ns")
    assert ray.data.from_items([{"t": zoned, "d": short}]).take_all() == [{"t": zoned, "d": short}]
