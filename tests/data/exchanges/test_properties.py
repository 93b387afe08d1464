"""Every operation over all rows against a plain program, on random tables, run in this process and in workers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skate.data.aggregate import (
    AbsMax,
    AggregateFn,
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
from skate.data.exchange.join import TYPES
from tests.data.exchanges.tables import WAYS, comparable, dataset_of, rows_of, tables, unordered

Rows = list[dict[str, Any]]


def several(way: str) -> Callable[[Any], Any]:
    """Fewer examples where each of them takes dozens of tasks."""
    return settings(
        max_examples=4 if way == "workers" else 30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.mark.parametrize("way", WAYS)
def test_sort(way: str) -> None:
    columns = st.lists(st.sampled_from(["k", "s", "f", "v"]), min_size=1, max_size=3, unique=True)

    @several(way)
    @given(tables(), columns, st.lists(st.booleans(), min_size=3, max_size=3))
    def check(blocks: list[pa.Table], keys: list[str], downs: list[bool]) -> None:
        found = dataset_of(blocks, way).sort(keys, descending=downs[: len(keys)]).take_all()
        wanted = rows_of(blocks)
        for key, down in reversed(list(zip(keys, downs, strict=False))):
            wanted.sort(key=_place(key), reverse=down)
            wanted.sort(key=_rank(key))
        assert [row["row"] for row in found] == [row["row"] for row in wanted]
        assert unordered(found) == unordered(wanted)

    check()


def _rank(key: str) -> Callable[[dict[str, Any]], int]:
    """Numbers and strings, then NaN, then null."""
    return lambda row: 2 if row[key] is None else 1 if row[key] != row[key] else 0


def _place(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda row: ("" if key == "s" else 0) if _rank(key)(row) else row[key]


@pytest.mark.parametrize("way", WAYS)
def test_random_shuffle_keeps_the_rows(way: str) -> None:
    @several(way)
    @given(tables(), st.integers(0, 1000))
    def check(blocks: list[pa.Table], seed: int) -> None:
        dataset = dataset_of(blocks, way).random_shuffle(seed=seed)
        found = dataset.take_all()
        assert unordered(found) == unordered(rows_of(blocks))
        assert [row["row"] for row in dataset.take_all()] == [row["row"] for row in found]

    check()


@pytest.mark.parametrize("way", WAYS)
def test_repartition(way: str) -> None:
    @several(way)
    @given(tables(), st.integers(1, 9), st.sampled_from(["plain", "shuffle", "keys", "sorted keys"]))
    def check(blocks: list[pa.Table], count: int, how: str) -> None:
        keys = ["k", "s"] if "keys" in how else None
        made = dataset_of(blocks, way).repartition(
            count, shuffle=how == "shuffle", keys=keys, sort=how.startswith("sorted")
        )
        found = [table.to_pylist() for table in made._tables()]
        rows = [row for block in found for row in block]
        assert len(found) == count
        if how == "plain":
            assert [row["row"] for row in rows] == [row["row"] for row in rows_of(blocks)]
        assert unordered(rows) == unordered(rows_of(blocks))
        if keys is None:
            sizes = [len(block) for block in found]
            assert max(sizes) - min(sizes) <= (1 if how == "plain" else len(blocks))
        else:
            homes = [{(row["k"], row["s"]) for row in block} for block in found]
            assert sum(map(len, homes)) == len(set().union(*homes))

    check()


GROUPED = [
    (Count(), lambda values, rows: len(rows)),
    (Count("v", ignore_nulls=True), lambda values, rows: len(values)),
    (Sum("v"), lambda values, rows: sum(values) if values else None),
    (Sum("v", ignore_nulls=False), lambda values, rows: sum(values) if _whole(values, rows) else None),
    (Min("v"), lambda values, rows: min(values, default=None)),
    (Max("v"), lambda values, rows: max(values, default=None)),
    (
        Max("v", ignore_nulls=False),
        lambda values, rows: max(values, default=None) if _whole(values, rows) else None,
    ),
    (AbsMax("v"), lambda values, rows: max(map(abs, values), default=None)),
    (Mean("v"), lambda values, rows: statistics.fmean(values) if values else None),
    (
        Mean("v", ignore_nulls=False),
        lambda values, rows: statistics.fmean(values) if values and _whole(values, rows) else None,
    ),
    (Std("v", ddof=0), lambda values, rows: statistics.pstdev(values) if values else None),
    (Std("v"), lambda values, rows: _deviation(values)),
    (Quantile("v", q=0.25), lambda values, rows: _quantile(values, 0.25)),
    (AsList("v"), lambda values, rows: [row["v"] for row in rows]),
    (AsList("v", ignore_nulls=True), lambda values, rows: values),
    (Unique("v"), lambda values, rows: list(dict.fromkeys(row["v"] for row in rows))),
    (CountDistinct("v"), lambda values, rows: len(set(values))),
    (
        MissingValuePercentage("v"),
        lambda values, rows: 100 * (len(rows) - len(values)) / len(rows) if rows else None,
    ),
    (ZeroPercentage("v"), lambda values, rows: 100 * values.count(0) / len(values) if values else None),
    (ValueCounter("v"), lambda values, rows: _counted([row["v"] for row in rows])),
    (Min("s", alias_name="first"), lambda values, rows: min(_texts(rows), default=None)),
    (
        AggregateFn(lambda key: 0, lambda a, b: a + b, "own", lambda state, row: state + row["row"]),
        lambda values, rows: sum(row["row"] for row in rows),
    ),
]  # fmt: skip


def _whole(values: list[Any], rows: Rows) -> bool:
    return bool(rows) and len(values) == len(rows)


def _texts(rows: Rows) -> list[str]:
    return [row["s"] for row in rows if row["s"] is not None]


def _deviation(values: list[int]) -> float | None:
    return None if not values else math.nan if len(values) == 1 else statistics.stdev(values)


def _quantile(values: list[int], q: float) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    where = (len(ordered) - 1) * q
    low = math.floor(where)
    return ordered[low] + (ordered[math.ceil(where)] - ordered[low]) * (where - low)


def _counted(values: list[Any]) -> dict[str, list[Any]] | None:
    different = list(dict.fromkeys(values))
    return {"values": different, "counts": [values.count(each) for each in different]} if values else None


@pytest.mark.parametrize("way", WAYS)
def test_aggregations_by_group(way: str) -> None:
    @several(way)
    @given(tables(), st.sampled_from([("k",), ("s",), ("k", "s"), ("f",)]), st.sets(st.sampled_from(GROUPED)))
    def check(blocks: list[pa.Table], keys: tuple[str, ...], chosen: set[Any]) -> None:
        groups: dict[Any, Rows] = {}
        for row in rows_of(blocks):
            groups.setdefault(tuple(comparable(row[key]) for key in keys), []).append(row)
        wanted = [
            {key: rows[0][key] for key in keys}
            | {each.name: result(_values(rows), rows) for each, result in chosen_named(chosen)}
            for rows in groups.values()
        ]
        grouped = dataset_of(blocks, way).groupby(list(keys))
        assert unordered(
            grouped.aggregate(*(each for each, _ in chosen_named(chosen))).take_all()
        ) == unordered(wanted)

    check()


@pytest.mark.parametrize("way", WAYS)
def test_aggregations_of_all_rows(way: str) -> None:
    @several(way)
    @given(tables(), st.sets(st.sampled_from(GROUPED), min_size=1))
    def check(blocks: list[pa.Table], chosen: set[Any]) -> None:
        rows = rows_of(blocks)
        found = dataset_of(blocks, way).aggregate(*(each for each, _ in chosen_named(chosen)))
        wanted = {each.name: result(_values(rows), rows) for each, result in chosen_named(chosen)}
        assert comparable(found) == comparable(wanted)

    check()


def _values(rows: Rows) -> list[int]:
    return [row["v"] for row in rows if row["v"] is not None]


def chosen_named(chosen: set[Any]) -> list[Any]:
    """Select aggregations with different names, in a stable order."""
    found: dict[str, Any] = {}
    for each in GROUPED:
        if each in chosen:
            found.setdefault(each[0].name, each)
    return list(found.values())


@pytest.mark.parametrize("way", WAYS)
def test_map_groups(way: str) -> None:
    @several(way)
    @given(tables(), st.sampled_from([("k",), ("k", "s"), ()]))
    def check(blocks: list[pa.Table], keys: tuple[str, ...]) -> None:
        grouped = dataset_of(blocks, way).groupby(list(keys) or None)
        found = grouped.map_groups(
            lambda table: pa.table({"rows": [table["row"].to_pylist()]}), batch_format="pyarrow"
        )
        groups: dict[Any, list[int]] = {}
        for row in rows_of(blocks):
            groups.setdefault(tuple(row[key] for key in keys), []).append(row["row"])
        assert sorted(row["rows"] for row in found.take_all()) == sorted(groups.values())

    check()


@pytest.mark.parametrize("way", WAYS)
def test_unique(way: str) -> None:
    @several(way)
    @given(tables(), st.sampled_from(["k", "s", "f"]), st.booleans())
    def check(blocks: list[pa.Table], column: str, ignore: bool) -> None:
        values = [comparable(row[column]) for row in rows_of(blocks)]
        wanted = [value for value in dict.fromkeys(values) if not (ignore and value is None)]
        found = dataset_of(blocks, way).unique(column, ignore_nulls=ignore)
        assert [comparable(value) for value in found] == wanted

    check()


@pytest.mark.parametrize("way", WAYS)
def test_join(way: str) -> None:
    @several(way)
    @given(
        tables("row"), tables("other"), st.sampled_from(TYPES), st.sampled_from([("k",), ("k", "s"), ("s",)])
    )
    def check(left: list[pa.Table], right: list[pa.Table], kind: str, keys: tuple[str, ...]) -> None:
        left = [table.select([*keys, "row"]) for table in left]
        right = [table.select(["other", *keys]) for table in right]
        found = dataset_of(left, way).join(dataset_of(right, way), kind, 4, on=keys).take_all()
        assert unordered(found) == unordered(_joined(rows_of(left), rows_of(right), kind, keys))

    check()


def _joined(left: Rows, right: Rows, kind: str, keys: tuple[str, ...]) -> Rows:
    def meet(a: dict[str, Any], b: dict[str, Any]) -> bool:
        return all(a[key] is not None and a[key] == b[key] for key in keys)

    pairs = [(a, b) for a in left for b in right if meet(a, b)]
    met = {id(a) for a, _ in pairs} | {id(b) for _, b in pairs}
    alone_left = [a for a in left if id(a) not in met]
    alone_right = [b for b in right if id(b) not in met]
    if kind in ("left_semi", "right_semi"):
        return [row for row in (left if kind == "left_semi" else right) if id(row) in met]
    if kind in ("left_anti", "right_anti"):
        return alone_left if kind == "left_anti" else alone_right
    if kind == "right_outer":
        made = [{"row": a["row"]} | b for a, b in pairs]
        return made + [{"row": None} | b for b in alone_right]
    made = [a | {"other": b["other"]} for a, b in pairs]
    if kind in ("left_outer", "full_outer"):
        made += [a | {"other": None} for a in alone_left]
    if kind == "full_outer":
        made += [{key: b[key] for key in keys} | {"row": None, "other": b["other"]} for b in alone_right]
    return made
