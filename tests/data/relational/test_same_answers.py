"""Random plans over random tables give the same rows and types in Polars and in the ordinary way."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from skate import data
from skate.data import Dataset
from skate.data.aggregate import Count, CountDistinct, Max, Mean, Min, Std, Sum, Unique
from skate.data.exchange.aggregate import AggregateKernel
from skate.data.exchange.join import TYPES
from skate.data.expressions import col, lit
from skate.data.plan.operators import Relational
from skate.data.plan.rules import optimized
from skate.data.relational.stages import with_stages
from tests.data.relational.both_ways import check, is_staged

some = settings(
    max_examples=40,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
NAN, INF = float("nan"), float("inf")
DAY = dt.datetime(2024, 2, 29, 23, 59, 59, 999999)
ZONE = dt.timezone.utc
SCHEMA = pa.schema(
    {
        "k": pa.int64(), "i": pa.int32(), "u": pa.uint8(), "f": pa.float64(), "g": pa.float32(), "s": pa.string(),
        "l": pa.large_string(), "y": pa.binary(), "b": pa.bool_(), "d": pa.date32(), "t": pa.timestamp("us"),
        "z": pa.timestamp("ms", "Europe/Berlin"), "n": pa.timestamp("ns", "UTC"), "e": pa.duration("us"),
        "c": pa.decimal128(10, 2), "w": pa.timestamp("s"), "x": pa.duration("s"),
    }
)  # fmt: skip
TEXTS = ["", "a", "b", "B", "ä", "a b", "longer than twelve bytes", "日本", "a\x00b"]
FLOATS = [0.0, -0.0, 1.5, -2.25, INF, -INF, NAN, 7.0]
TIMES = [DAY, dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 12), dt.datetime(2024, 10, 27, 0, 30)]
VALUES: dict[str, Any] = {
    "k": st.sampled_from([0, 0, 1, 2, -(2**63), 2**63 - 1]),
    "i": st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]),
    "u": st.sampled_from([0, 1, 255]),
    "f": st.sampled_from(FLOATS),
    "g": st.sampled_from(FLOATS),
    "s": st.sampled_from(TEXTS),
    "l": st.sampled_from(TEXTS),
    "y": st.sampled_from([each.encode() for each in TEXTS] + [b"\xff"]),
    "b": st.booleans(),
    "d": st.sampled_from([each.date() for each in TIMES]),
    "t": st.sampled_from(TIMES),
    "z": st.sampled_from([each.replace(tzinfo=ZONE, microsecond=0) for each in TIMES]),
    "n": st.sampled_from([each.replace(tzinfo=ZONE) for each in TIMES]),
    "e": st.sampled_from([dt.timedelta(0), dt.timedelta(days=-1), dt.timedelta(microseconds=1)]),
    "c": st.sampled_from([decimal.Decimal("0.00"), decimal.Decimal("-1.10"), decimal.Decimal("99999999.99")]),
}
VALUES["w"] = st.sampled_from([each.replace(microsecond=0) for each in TIMES])
VALUES["x"] = st.sampled_from([dt.timedelta(0), dt.timedelta(days=-1), dt.timedelta(seconds=1)])
NAMES = list(VALUES)


@st.composite
def tables(draw: Any) -> pa.Table:
    rows = draw(st.integers(0, 9))
    columns = {
        name: draw(st.lists(st.one_of(st.none(), values), min_size=rows, max_size=rows))
        for name, values in VALUES.items()
    }
    return pa.table(columns, schema=SCHEMA)


#: Literals to compare a column with.
COMPARED: dict[str, list[Any]] = {
    "k": [0, 1, 2**63 - 1], "i": [0, 1.5, -1], "u": [0, 1], "f": [0.0, 1, NAN, -2.25], "s": TEXTS, "l": ["a", "ä"],
    "y": [b"a"], "b": [True], "d": [TIMES[0].date()], "t": [DAY],
    "c": [0, -1, decimal.Decimal("-1.10"), decimal.Decimal("99999999.9901")],
}  # fmt: skip


@st.composite
def conditions(draw: Any, depth: int = 2) -> Any:
    kind = draw(st.sampled_from(["compare", "columns", "null", "in", "not", "and", "or", "sum"]))
    if depth == 0 and kind in ("not", "and", "or"):
        kind = "compare"
    if kind == "null":
        return draw(st.sampled_from([col(name).is_null() for name in NAMES] + [col("f").is_not_null()]))
    if kind == "in":
        name, values = draw(
            st.sampled_from([("s", ["a", ""]), ("k", [0, 1]), ("u", [255]), ("l", ["ä", "b"])])
        )
        return draw(st.sampled_from([col(name).is_in(values), col(name).not_in(values)]))
    if kind == "not":
        return ~draw(conditions(depth - 1))
    if kind in ("and", "or"):
        left, right = draw(conditions(depth - 1)), draw(conditions(depth - 1))
        return left & right if kind == "and" else left | right
    if kind == "columns":
        left, right = (
            col(name)
            for name in draw(st.sampled_from(["ff", "gg", "fg", "ki", "sl", "tt", "if", "cc", "ck", "ic"]))
        )
    elif kind == "sum":
        left, right = draw(computations()), lit(1)
    else:
        name = draw(st.sampled_from(list(COMPARED)))
        left, right = col(name), lit(draw(st.sampled_from(COMPARED[name])))
    op = draw(st.sampled_from(["__gt__", "__ge__", "__lt__", "__le__", "__eq__", "__ne__"]))
    return getattr(left, op)(right)


@st.composite
def computations(draw: Any) -> Any:
    pairs = ["ki", "ii", "ff", "gg", "if", "i1", "f1", "k1", "cc", "ci", "kc", "c1", "c2"]
    left, right = draw(st.sampled_from(pairs))
    operand = {"1": lit(1), "2": lit(decimal.Decimal("-0.125"))}.get(right, col(right))
    op = draw(st.sampled_from(["__add__", "__sub__", "__mul__"]))
    return getattr(col(left), op)(operand)


def aggregates(name: str, ignore_nulls: bool) -> list[Any]:
    kind = SCHEMA.field(name).type
    found = [Count(), Count(name, ignore_nulls=ignore_nulls)]
    found += [] if pa.types.is_duration(kind) else [Min(name, ignore_nulls), Max(name, ignore_nulls)]
    if name in "kiufgbc":
        found += [Sum(name, ignore_nulls), Mean(name, ignore_nulls)]
    if name in "iufgc":
        found += [Std(name, ignore_nulls, 1), Std(name, ignore_nulls, 0, "s0")]
    return found


def dataset(table: pa.Table, folder: Path | None = None) -> Dataset:
    """The table in two blocks, or in two files."""
    parts = [table.slice(0, table.num_rows // 2), table.slice(table.num_rows // 2)]
    if folder is None:
        return data.from_arrow(parts)
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"{number}.parquet")
    return data.read_parquet(str(folder), file_extensions=None)


@given(tables(), conditions())
@some
def test_filter(tmp_path: Path, table: pa.Table, condition: Any) -> None:
    for folder in (None, tmp_path):
        check(dataset(table, folder).filter(expr=condition))


@pytest.mark.parametrize(
    "condition", [col("f") > 0.5, ~(col("f") == col("f")), col("s").is_in(["a"]) | col("i").is_null()]
)
def test_common_filters_are_staged(tmp_path: Path, condition: Any) -> None:
    table = SCHEMA.empty_table()
    assert is_staged(dataset(table).filter(expr=condition))
    assert is_staged(dataset(table, tmp_path).filter(expr=condition))


def every() -> pa.Table:
    """A table with every value of each column, and nulls, beside various values of the others."""
    columns = {}
    for step, (name, values) in enumerate(VALUES.items(), 2):
        given = [*getattr(values, "elements", (False, True)), None]
        columns[name] = [given[(row * step + row // 5) % len(given)] for row in range(40)]
    return pa.table(columns, schema=SCHEMA)


@pytest.mark.parametrize("op", ["__gt__", "__ge__", "__lt__", "__le__", "__eq__", "__ne__"])
def test_every_comparison(op: str) -> None:
    ds = dataset(every())
    for name, literals in COMPARED.items():
        for literal in literals:
            check(ds.filter(expr=getattr(col(name), op)(literal)))
            check(ds.filter(expr=~getattr(col(name), op)(literal)))
    for left, right in ("ff", "fg", "gf", "gg"):
        check(ds.filter(expr=getattr(col(left), op)(col(right))))
    check(ds.filter(expr=getattr(col("f"), op)(col("f") * 2)))


@pytest.mark.parametrize("down", [False, True])
def test_sort_by_every_column(down: bool) -> None:
    ds = dataset(every())
    for name in NAMES:
        check(ds.sort(name, descending=down))
        check(ds.sort([name, "k" if name == "b" else "b"], descending=[down, not down]))


@given(tables(), computations(), st.sampled_from(NAMES))
@some
def test_columns(table: pa.Table, computation: Any, name: str) -> None:
    ds = dataset(table).with_column("made", computation).drop_columns(["y"]).rename_columns({"s": "text"})
    check(ds.filter(expr=col("k") > 0))
    check(ds.select_columns(["made", "k"]).filter(expr=col("k").is_not_null()))


@given(tables(), st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=3), st.data())
@some
def test_sort(tmp_path: Path, table: pa.Table, keys: list[str], drawn: Any) -> None:
    downs = [drawn.draw(st.booleans()) for _ in keys]
    for folder in (None, tmp_path):
        ds = dataset(table, folder).sort(keys, descending=downs)
        assert is_staged(ds)
        check(ds)
        check(ds.limit(drawn.draw(st.integers(1, 9))))


#: Tables with keys, another column, and how to treat its nulls.
of_groups = given(
    tables(), st.lists(st.sampled_from(NAMES), unique=True, max_size=2), st.sampled_from(NAMES), st.booleans()
)


@of_groups
@some
def test_groups(table: pa.Table, keys: list[str], name: str, ignore_nulls: bool) -> None:
    if name in keys:
        keys.remove(name)
    ds = dataset(table).groupby(keys or None).aggregate(*aggregates(name, ignore_nulls))
    assert is_staged(ds)
    check(ds, exact=False)


@pytest.mark.parametrize("digits", [9, 18, 19, 20, 21, 37, 38])
def test_sums_of_decimals_are_exact(digits: int) -> None:
    large = decimal.Decimal("9" * (digits - 2) + ".99")
    small = large.copy_negate()  # a minus would round
    column = pa.array([large, large, None, small, large], pa.decimal128(38, 2))
    ds = dataset(pa.table({"c": column, "k": [1, 1, 1, 2, 1]}))
    sums = ds.groupby("k").aggregate(Sum("c"), Sum("c", False, "all"), Count(), Min("c"))
    assert is_staged(sums) == (digits < 38)
    found = check(sums)
    if digits < 38:
        exact = decimal.Context(prec=40)
        assert found["sum(c)"].to_pylist() == [exact.multiply(large, decimal.Decimal(3)), small]
    check(ds.groupby("k").aggregate(Sum("c"), Mean("c"), Std("c")), exact=False)
    ends = ds.aggregate(Min("c"), Max("c"), Mean("c"))
    assert ends == {"min(c)": small, "max(c)": large, "mean(c)": pytest.approx(float(large) / 2)}
    joined = ds.join(ds.select_columns(["k"]), "inner", 1, on=("k",)).groupby("k").aggregate(Sum("c"))
    whole = with_stages(optimized(joined._plan), joined.context)
    assert isinstance(whole, Relational) == (digits <= 20), "a join may make any number of rows"
    check(joined)


@pytest.mark.parametrize("known", [True, False])
def test_largest_decimals_of_files(tmp_path: Path, known: bool) -> None:
    """The statistics of files say which products have room; without them the types do."""
    values = pa.array([*map(decimal.Decimal, ("12.30", "-7", "0.01")), None], pa.decimal128(18, 2))
    columns = {
        "c": values,
        "none": pa.nulls(4, pa.decimal128(18, 2)),
        "wide": values.cast(pa.decimal128(38, 2)),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", write_statistics=known)
    ds = data.read_parquet(str(tmp_path))
    made = ds.with_column("p", col("c") * col("c")).with_column("q", col("c") * col("none"))
    pairs = made.join(ds.select_columns(["c"]), "inner", 1, on=("c",))
    for name in ("p", "q"):
        sums = pairs.groupby("c").aggregate(Sum(name))
        whole = with_stages(optimized(sums._plan), sums.context)
        assert isinstance(whole, Relational) == known
        check(sums)
    assert is_staged(ds.groupby("c").aggregate(Sum("wide"))) == known
    narrow = ds.with_column("n", col("wide").cast(pa.decimal128(6, 3))).filter(expr=col("n") > 0)
    assert is_staged(narrow) == known, "a cast to fewer digits may fail"
    assert check(narrow)["n"].to_pylist() == [decimal.Decimal("12.300"), decimal.Decimal("0.010")]
    same = ds.union(ds.limit(2))
    check(same.filter(expr=col("wide") > decimal.Decimal("0.02")), ordered=False)
    found = ds.join(ds, "full_outer", 1, on=("wide",), left_suffix="_l", right_suffix="_r")
    check(found, ordered=False)
    check(ds.sort("wide", descending=True))


def test_arithmetic_of_decimals(tmp_path: Path) -> None:
    """Prices and discounts as in TPC-H: the sum of the products has more digits than the types have room for."""
    columns = {
        "price": pa.array(
            map(decimal.Decimal, ("9999999999999.99", "-0.01", "12.30", "7")), pa.decimal128(15, 2)
        ),
        "part": pa.array([*map(decimal.Decimal, ("0.07", "-0.99", "0.10")), None], pa.decimal128(4, 2)),
        "text": ["a", "b", "a", "b"],
    }
    ds = dataset(pa.table(columns), tmp_path)
    paid = ds.with_column("paid", col("price") * (lit(1) - col("part")))
    assert is_staged(paid.filter(expr=col("paid") > 0))
    found = check(paid.filter(expr=col("paid") > decimal.Decimal("-0.02")))
    assert found["paid"].type == pa.decimal128(38, 4)
    assert found["paid"].to_pylist() == [
        decimal.Decimal("9299999999999.9907"), decimal.Decimal("-0.0199"), decimal.Decimal("11.07")
    ]  # fmt: skip
    sums = paid.rename_columns({"paid": "all"}).groupby("text").aggregate(Sum("all"), Min("all"), Mean("all"))
    assert is_staged(sums)
    check(sums, exact=False)
    ratio = ds.with_column("ratio", col("part") / col("price")).filter(expr=col("ratio") > 0)
    assert not is_staged(ratio), "Polars rounds another digit"
    check(ratio)


@of_groups
@some
def test_distinct_values(table: pa.Table, keys: list[str], name: str, ignore_nulls: bool) -> None:
    if name in keys:
        keys.remove(name)
    count = dataset(table).groupby(keys or None).aggregate(CountDistinct(name, ignore_nulls), Count())
    assert is_staged(count)
    check(count, exact=False)
    kernel = AggregateKernel((), [Unique(name, ignore_nulls, "found"), CountDistinct(name)])
    values = dataset(table)._exchanged(kernel)
    assert is_staged(values)
    check(values)
    assert not is_staged(dataset(table).groupby("k").aggregate(Unique(name)))


@given(
    tables(),
    tables(),
    st.sampled_from(TYPES),
    st.lists(
        st.sampled_from([name for name in NAMES if name not in "fg"]), unique=True, min_size=1, max_size=2
    ),
)
@some
def test_join(left: pa.Table, right: pa.Table, kind: str, keys: list[str]) -> None:
    ds = dataset(left).join(dataset(right), kind, 1, on=tuple(keys), left_suffix="_l", right_suffix="_r")
    assert is_staged(ds)
    check(ds, ordered=False)


@given(tables(), conditions())
@some
def test_several_steps(tmp_path: Path, table: pa.Table, condition: Any) -> None:
    ds = dataset(table, tmp_path).filter(expr=condition).with_column("twice", col("f") + col("f"))
    small = dataset(table).groupby("i").aggregate(Count(), Max("s"))
    joined = (
        ds.join(small, "left_outer", 1, on=("i",))
        .groupby("s")
        .aggregate(Count(), Sum("twice"), Min("max(s)"))
    )
    check(joined.sort("count()", descending=True), exact=False)
    check(dataset(table).limit(4).groupby("k").aggregate(Count(), Std("f")), exact=False)
