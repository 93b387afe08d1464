"""Numbers, groups and order of datasets, by argument: the result of each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import ray
import ray.data
from plain_values import plain
from ray.data.aggregate import (
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
    ZeroPercentage,
)

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


def nulls() -> Any:
    return ray.data.from_items([{"v": None}, {"v": None}])


def blocks(dataset: Any) -> list[int]:
    return [table.num_rows for table in ray.get(dataset.materialize().to_arrow_refs())]


@pytest.fixture(autouse=True)
def in_order() -> None:
    ray.data.DataContext.get_current().execution_options.preserve_order = True


CASES: list[tuple[str, Callable[[], Any], Any]] = [
    ("numbers().sum()", lambda: numbers().sum(), 45),
    ("numbers().sum('id')", lambda: numbers().sum("id"), 45),
    ("numbers().sum(['id'])", lambda: numbers().sum(["id"]), 45),
    ("numbers().min()", lambda: numbers().min(), 0),
    ("numbers().max('id')", lambda: numbers().max("id"), 9),
    ("numbers().mean('id')", lambda: numbers().mean("id"), 4.5),
    ("numbers().std('id')", lambda: numbers().std("id"), 3.0276503540974917),
    ("numbers().std('id',ddof=0)", lambda: numbers().std("id", ddof=0), 2.8722813232690143),
    ("groups().sum('v')", lambda: groups().sum("v"), 11),
    ("groups().sum('v',ignore_nulls=False)", lambda: groups().sum("v", ignore_nulls=False), None),
    ("groups().mean('v')", lambda: groups().mean("v"), 2.75),
    ("groups().min('v')", lambda: groups().min("v"), 1),
    ("groups().max('v',ignore_nulls=False)", lambda: groups().max("v", ignore_nulls=False), None),
    ("groups().std('v')", lambda: groups().std("v"), 1.707825127659933),
    ("groups().min('s')", lambda: groups().min("s"), "x"),
    ("groups().max('s')", lambda: groups().max("s"), "z"),
    ("groups().sum(['v'])", lambda: groups().sum(["v"]), 11),
    ("nulls().sum('v')", lambda: nulls().sum("v"), None),
    ("nulls().mean('v')", lambda: nulls().mean("v"), None),
    ("nulls().min('v')", lambda: nulls().min("v"), None),
    ("nulls().max('v')", lambda: nulls().max("v"), None),
    ("nulls().std('v')", lambda: nulls().std("v"), None),
    ("items([]).sum('v')", lambda: items([]).sum("v"), None),
    ("items([]).min('v')", lambda: items([]).min("v"), None),
    ("ray.data.range(0).sum('id')", lambda: ray.data.range(0).sum("id"), None),
    ("ray.data.range(0).mean('id')", lambda: ray.data.range(0).mean("id"), None),
    ("numbers().unique('id')", lambda: numbers().unique("id"), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("groups().unique('k')", lambda: groups().unique("k"), ["a", "b", "c"]),
    (
        "groups().aggregate(Sum('v'),Max('v'),Count())",
        lambda: groups().aggregate(Sum("v"), Max("v"), Count()),
        {"sum(v)": 11, "max(v)": 5, "count()": 5},
    ),
    (
        "groups().aggregate(Sum('v',alias_name='q'))",
        lambda: groups().aggregate(Sum("v", alias_name="q")),
        {"q": 11},
    ),
    (
        "groups().aggregate(Sum('v'),Sum('v'))",
        lambda: groups().aggregate(Sum("v"), Sum("v")),
        {"sum(v)": 11, "sum(v)_2": 11},
    ),
    (
        "groups().aggregate(Count('v'),Count('v',ignore_nulls=True))",
        lambda: groups().aggregate(Count("v"), Count("v", ignore_nulls=True)),
        {"count(v)": 5, "count(v)_2": 4},
    ),
    (
        "groups().aggregate(Quantile('v',q=.5))",
        lambda: groups().aggregate(Quantile("v", q=0.5)),
        {"quantile(v)": 2.5},
    ),
    (
        "groups().aggregate(Quantile('v',q=.5,ignore_nulls=False))",
        lambda: groups().aggregate(Quantile("v", q=0.5, ignore_nulls=False)),
        {"quantile(v)": None},
    ),
    (
        "groups().aggregate(Unique('s',ignore_nulls=True))",
        lambda: groups().aggregate(Unique("s", ignore_nulls=True)),
        {"unique(s)": ["x", "y", "z"]},
    ),
    ("groups().aggregate(AbsMax('v'))", lambda: groups().aggregate(AbsMax("v")), {"abs_max(v)": 5}),
    (
        "groups().aggregate(Mean('v'),Std('v'))",
        lambda: groups().aggregate(Mean("v"), Std("v")),
        {"mean(v)": 2.75, "std(v)": 1.707825127659933},
    ),
    (
        "groups().aggregate(Min('v'),Min('s'))",
        lambda: groups().aggregate(Min("v"), Min("s")),
        {"min(v)": 1, "min(s)": "x"},
    ),
    (
        "groups().aggregate(MissingValuePercentage('v'))",
        lambda: groups().aggregate(MissingValuePercentage("v")),
        {"missing_pct(v)": 20.0},
    ),
    (
        "groups().aggregate(ZeroPercentage('v'))",
        lambda: groups().aggregate(ZeroPercentage("v")),
        {"zero_pct(v)": 0.0},
    ),
    (
        "groups().aggregate(AsList('v',ignore_nulls=True))",
        lambda: groups().aggregate(AsList("v", ignore_nulls=True)),
        {"list(v)": [1, 2, 3, 5]},
    ),
    (
        "groups().aggregate(CountDistinct('k'))",
        lambda: groups().aggregate(CountDistinct("k")),
        {"count_distinct(k)": 3},
    ),
    (
        "groups().aggregate(CountDistinct('s'))",
        lambda: groups().aggregate(CountDistinct("s")),
        {"count_distinct(s)": 3},
    ),
    (
        "groups().aggregate(CountDistinct('s',ignore_nulls=False))",
        lambda: groups().aggregate(CountDistinct("s", ignore_nulls=False)),
        {"count_distinct(s)": 4},
    ),
    ("Sum('v').name", lambda: Sum("v").name, "sum(v)"),
    ("Count().name", lambda: Count().name, "count()"),
    ("Quantile('v').name", lambda: Quantile("v").name, "quantile(v)"),
    ("Sum('v').get_agg_name()", lambda: Sum("v").get_agg_name(), "sum"),
    ("Sum('v').get_target_column()", lambda: Sum("v").get_target_column(), "v"),
    ("Count().get_target_column()", lambda: Count().get_target_column(), None),
    (
        "groups().aggregate(AggregateFn(init=lambda k:0,merge=lambda a,b:a+b,name='n',accumulate_",
        lambda: groups().aggregate(
            AggregateFn(
                init=lambda k: 0, merge=lambda a, b: a + b, name="n", accumulate_row=lambda a, r: a + 1
            )
        ),
        {"n": 5},
    ),
    (
        "groups().aggregate(AggregateFn(init=lambda k:0,merge=lambda a,b:a+b,name='n',accumulate_",
        lambda: groups().aggregate(
            AggregateFn(
                init=lambda k: 0,
                merge=lambda a, b: a + b,
                name="n",
                accumulate_row=lambda a, r: a + 1,
                finalize=lambda a: a * 10,
            )
        ),
        {"n": 50},
    ),
    (
        "groups().aggregate(AggregateFn(init=lambda k:0,merge=lambda a,b:a+b,name='n',accumulate_",
        lambda: groups().aggregate(
            AggregateFn(
                init=lambda k: 0,
                merge=lambda a, b: a + b,
                name="n",
                accumulate_block=lambda a, b: a + b.num_rows,
            )
        ),
        {"n": 5},
    ),
    (
        "rows(groups().groupby('k').count().sort('k'))",
        lambda: rows(groups().groupby("k").count().sort("k")),
        [{"k": "a", "count()": 2}, {"k": "b", "count()": 2}, {"k": "c", "count()": 1}],
    ),
    (
        "rows(groups().groupby('k').sum('v').sort('k'))",
        lambda: rows(groups().groupby("k").sum("v").sort("k")),
        [{"k": "a", "sum(v)": 4}, {"k": "b", "sum(v)": 2}, {"k": "c", "sum(v)": 5}],
    ),
    (
        "rows(groups().groupby('k').sum(['v']).sort('k'))",
        lambda: rows(groups().groupby("k").sum(["v"]).sort("k")),
        [{"k": "a", "sum(v)": 4}, {"k": "b", "sum(v)": 2}, {"k": "c", "sum(v)": 5}],
    ),
    (
        "rows(groups().groupby('k').sum('v',ignore_nulls=False).sort('k'))",
        lambda: rows(groups().groupby("k").sum("v", ignore_nulls=False).sort("k")),
        [{"k": "a", "sum(v)": 4}, {"k": "b", "sum(v)": None}, {"k": "c", "sum(v)": 5}],
    ),
    (
        "rows(groups().groupby('k').mean('v').sort('k'))",
        lambda: rows(groups().groupby("k").mean("v").sort("k")),
        [{"k": "a", "mean(v)": 2.0}, {"k": "b", "mean(v)": 2.0}, {"k": "c", "mean(v)": 5.0}],
    ),
    (
        "rows(groups().groupby('k').min('v').sort('k'))",
        lambda: rows(groups().groupby("k").min("v").sort("k")),
        [{"k": "a", "min(v)": 1}, {"k": "b", "min(v)": 2}, {"k": "c", "min(v)": 5}],
    ),
    (
        "rows(groups().groupby('k').max('v').sort('k'))",
        lambda: rows(groups().groupby("k").max("v").sort("k")),
        [{"k": "a", "max(v)": 3}, {"k": "b", "max(v)": 2}, {"k": "c", "max(v)": 5}],
    ),
    (
        "rows(groups().groupby('k').std('v').sort('k'))",
        lambda: rows(groups().groupby("k").std("v").sort("k")),
        [{"k": "a", "std(v)": 1.4142135623730951}, {"k": "b", "std(v)": "NaN"}, {"k": "c", "std(v)": "NaN"}],
    ),
    (
        "rows(groups().groupby('k').std('v',ddof=0).sort('k'))",
        lambda: rows(groups().groupby("k").std("v", ddof=0).sort("k")),
        [{"k": "a", "std(v)": 1.0}, {"k": "b", "std(v)": 0.0}, {"k": "c", "std(v)": 0.0}],
    ),
    (
        "rows(groups().groupby('s').count().sort('s'))",
        lambda: rows(groups().groupby("s").count().sort("s")),
        [
            {"s": "x", "count()": 2},
            {"s": "y", "count()": 1},
            {"s": "z", "count()": 1},
            {"s": None, "count()": 1},
        ],
    ),
    (
        "rows(groups().groupby(['k','s']).count().sort(['k','s']))",
        lambda: rows(groups().groupby(["k", "s"]).count().sort(["k", "s"])),
        [
            {"k": "a", "s": "x", "count()": 1},
            {"k": "a", "s": None, "count()": 1},
            {"k": "b", "s": "x", "count()": 1},
            {"k": "b", "s": "y", "count()": 1},
            {"k": "c", "s": "z", "count()": 1},
        ],
    ),
    ("rows(groups().groupby([]).count())", lambda: rows(groups().groupby([]).count()), [{"count()": 5}]),
    ("rows(groups().groupby(None).count())", lambda: rows(groups().groupby(None).count()), [{"count()": 5}]),
    (
        "rows(groups().groupby('k').aggregate(Sum('v'),Count()).sort('k'))",
        lambda: rows(groups().groupby("k").aggregate(Sum("v"), Count()).sort("k")),
        [
            {"k": "a", "sum(v)": 4, "count()": 2},
            {"k": "b", "sum(v)": 2, "count()": 2},
            {"k": "c", "sum(v)": 5, "count()": 1},
        ],
    ),
    (
        "rows(groups().groupby('k').aggregate(Quantile('v')).sort('k'))",
        lambda: rows(groups().groupby("k").aggregate(Quantile("v")).sort("k")),
        [{"k": "a", "quantile(v)": 2.0}, {"k": "b", "quantile(v)": 2.0}, {"k": "c", "quantile(v)": 5.0}],
    ),
    (
        "rows(groups().groupby('k').aggregate())",
        lambda: rows(groups().groupby("k").aggregate()),
        [{"k": "a"}, {"k": "b"}, {"k": "c"}],
    ),
    (
        "rows(groups().groupby('k').map_groups(lambda b: {'n':[len(b['v'])],'k':[b['k'][0]]},batc",
        lambda: rows(
            groups()
            .groupby("k")
            .map_groups(lambda b: {"n": [len(b["v"])], "k": [b["k"][0]]}, batch_format="numpy")
            .sort("k")
        ),
        [{"n": 2, "k": "a"}, {"n": 2, "k": "b"}, {"n": 1, "k": "c"}],
    ),
    (
        "rows(groups().groupby('k').map_groups(lambda b: b.head(1),batch_format='pandas').sort('k",
        lambda: rows(groups().groupby("k").map_groups(lambda b: b.head(1), batch_format="pandas").sort("k")),
        [{"k": "a", "v": 1, "s": "x"}, {"k": "b", "v": 2, "s": "y"}, {"k": "c", "v": 5, "s": "z"}],
    ),
    (
        "rows(groups().groupby('k').map_groups(lambda b: b.slice(0,1),batch_format='pyarrow').sor",
        lambda: rows(
            groups().groupby("k").map_groups(lambda b: b.slice(0, 1), batch_format="pyarrow").sort("k")
        ),
        [{"k": "a", "v": 1, "s": "x"}, {"k": "b", "v": 2, "s": "y"}, {"k": "c", "v": 5, "s": "z"}],
    ),
    (
        "groups().groupby('k').count().schema()",
        lambda: groups().groupby("k").count().schema(),
        "Column   Type\n------   ----\nk        string\ncount()  int64",
    ),
    (
        "ids(numbers().sort('id',descending=True))",
        lambda: ids(numbers().sort("id", descending=True)),
        [9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
    ),
    (
        "ids(numbers().sort(['id'],descending=[True]))",
        lambda: ids(numbers().sort(["id"], descending=[True])),
        [9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
    ),
    (
        "ids(numbers().sort('id',boundaries=[5]))",
        lambda: ids(numbers().sort("id", boundaries=[5])),
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    ),
    (
        "blocks(numbers().sort('id',boundaries=[5]))",
        lambda: blocks(numbers().sort("id", boundaries=[5])),
        [5, 5],
    ),
    (
        "blocks(numbers().sort('id',boundaries=[2,5]))",
        lambda: blocks(numbers().sort("id", boundaries=[2, 5])),
        [2, 3, 5],
    ),
    (
        "[r['s'] for r in rows(groups().sort('s'))]",
        lambda: [r["s"] for r in rows(groups().sort("s"))],
        ["x", "x", "y", "z", None],
    ),
    (
        "[r['s'] for r in rows(groups().sort('s',descending=True))]",
        lambda: [r["s"] for r in rows(groups().sort("s", descending=True))],
        ["z", "y", "x", "x", None],
    ),
    (
        "[r['v'] for r in rows(groups().sort('v'))]",
        lambda: [r["v"] for r in rows(groups().sort("v"))],
        [1, 2, 3, 5, None],
    ),
    (
        "[(r['k'],r['v']) for r in rows(groups().sort(['k','v'],descending=[True,False]))]",
        lambda: [(r["k"], r["v"]) for r in rows(groups().sort(["k", "v"], descending=[True, False]))],
        [["c", 5], ["b", 2], ["b", None], ["a", 1], ["a", 3]],
    ),
]


@pytest.mark.parametrize(("call", "found"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_result_of(call: Callable[[], Any], found: Any) -> None:
    assert plain(call()) == found
