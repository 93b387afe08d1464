"""Columns added, dropped, chosen, renamed and computed, against plain rows, and expressions against pandas and Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from skate.data.expressions import col, lit
from tests.data.properties.tables import SCHEMA, alike, blocks, dataset_of, few, rows_of

NAMES = list(SCHEMA.names)


def same(found: Any, wanted: Any) -> None:
    assert alike(list(found)) == alike(wanted)


@few
@given(blocks(), st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
def test_select_drop_and_rename(tables: list[pa.Table], chosen: list[str]) -> None:
    rows = rows_of(tables)
    ds = dataset_of(tables)
    same(ds.select_columns(chosen).take_all(), [{name: row[name] for name in chosen} for row in rows])
    left = [name for name in NAMES if name not in chosen]
    if left:
        same(ds.drop_columns(chosen).take_all(), [{name: row[name] for name in left} for row in rows])
    renamed = {name: f"new {name}" for name in chosen}
    made = ds.rename_columns(renamed)
    same(made.take_all(), [{renamed.get(name, name): value for name, value in row.items()} for row in rows])
    assert made.columns() == [renamed.get(name, name) for name in NAMES]


@few
@given(blocks(), st.permutations(["i", "f", "s"]))
def test_names_that_change_places(tables: list[pa.Table], order: list[str]) -> None:
    mapping = dict(zip(["i", "f", "s"], order, strict=True))
    found = dataset_of(tables).rename_columns(mapping).take_all()
    same(found, [{mapping.get(name, name): value for name, value in row.items()} for row in rows_of(tables)])


@few
@given(blocks())
def test_add_column(tables: list[pa.Table]) -> None:
    wanted = [{**row, "len": None if row["s"] is None else len(row["s"])} for row in rows_of(tables)]

    def lengths(frame: pd.DataFrame) -> Any:
        return pa.array([None if pd.isna(each) else len(each) for each in frame["s"]], pa.int64())

    same(dataset_of(tables).add_column("len", lengths).take_all(), wanted)


@few
@given(blocks())
def test_steps_behind_each_other_see_what_was_before(tables: list[pa.Table]) -> None:
    ds = dataset_of(tables)
    made = (
        ds.with_column("i", col("row") + 1)
        .with_column("j", col("i") * 2)
        .rename_columns({"i": "n", "row": "i"})
        .filter(expr=col("n") > 2)
        .drop_columns(["l", "r"])
        .select_columns(["j", "i", "s"])
        .limit(7)
    )
    wanted = [
        {"j": 2 * (row["row"] + 1), "i": row["row"], "s": row["s"]}
        for row in rows_of(tables)
        if row["row"] + 1 > 2
    ][:7]
    same(made.take_all(), wanted)


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives None as soon as an argument is None."""
    return lambda *args: None if any(each is None for each in args) else function(*args)


def kleene_and(a: Any, b: Any) -> Any:
    return False if a is False or b is False else None if a is None or b is None else True


def kleene_or(a: Any, b: Any) -> Any:
    return True if a is True or b is True else None if a is None or b is None else False


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


CASES: dict[str, tuple[Any, Callable[[dict[str, Any]], Any]]] = {
    "i + row": (col("i") + col("row"), lambda r: strict(lambda a, b: a + b)(r["i"], r["row"])),
    "i - 3": (col("i") - 3, lambda r: strict(lambda a: a - 3)(r["i"])),
    "3 - i": (3 - col("i"), lambda r: strict(lambda a: 3 - a)(r["i"])),
    "i * f": (col("i") * col("f"), lambda r: strict(lambda a, b: a * b)(r["i"], r["f"])),
    "i / 4": (col("i") / 4, lambda r: strict(lambda a: int(a / 4))(r["i"])),
    "i // 7": (col("i") // 7, lambda r: strict(lambda a: a // 7)(r["i"])),
    "i % 7": (col("i") % 7, lambda r: strict(lambda a: a % 7)(r["i"])),
    "-i": (col("i").negate(), lambda r: strict(lambda a: -a)(r["i"])),
    "i > k": (col("i") > col("k"), lambda r: strict(lambda a, b: a > b)(r["i"], r["k"])),
    "i >= 0": (col("i") >= 0, lambda r: strict(lambda a: a >= 0)(r["i"])),
    "i < f": (col("i") < col("f"), lambda r: strict(lambda a, b: a < b)(r["i"], r["f"])),
    "f <= 1.5": (col("f") <= 1.5, lambda r: strict(lambda a: a <= 1.5)(r["f"])),
    "s == a": (col("s") == "a", lambda r: strict(lambda a: a == "a")(r["s"])),
    "s != a": (col("s") != "a", lambda r: strict(lambda a: a != "a")(r["s"])),
    "s < b": (col("s") < "b", lambda r: strict(lambda a: a.encode() < b"b")(r["s"])),
    "b & cond": ((col("b")) & (col("i") > 0), lambda r: kleene_and(r["b"], strict(lambda a: a > 0)(r["i"]))),
    "b | cond": ((col("b")) | (col("i") > 0), lambda r: kleene_or(r["b"], strict(lambda a: a > 0)(r["i"]))),
    "~b": (~col("b"), lambda r: strict(lambda a: not a)(r["b"])),
    "is_null": (col("s").is_null(), lambda r: r["s"] is None),
    "is_not_null": (col("l").is_not_null(), lambda r: r["l"] is not None),
    "is_in": (col("k").is_in([0, 2]), lambda r: r["k"] in (0, 2)),
    "not_in": (col("s").not_in(["a", ""]), lambda r: r["s"] not in ("a", "")),
    "abs": (col("i").abs(), lambda r: strict(abs)(r["i"])),
    "sign": (col("i").sign(), lambda r: strict(lambda a: (a > 0) - (a < 0))(r["i"])),
    "ceil": (
        col("f").ceil(),
        lambda r: strict(lambda a: a if not math.isfinite(a) else float(math.ceil(a)))(r["f"]),
    ),
    "floor": (
        col("f").floor(),
        lambda r: strict(lambda a: a if not math.isfinite(a) else float(math.floor(a)))(r["f"]),
    ),
    "sqrt(abs)": (col("i").abs().power(0.5), lambda r: strict(lambda a: abs(a) ** 0.5)(r["i"])),
    "exp": (col("row").exp(), lambda r: math.exp(r["row"])),
    "upper": (col("s").str.upper(), lambda r: strict(str.upper)(r["s"])),
    "lower": (col("s").str.lower(), lambda r: strict(str.lower)(r["s"])),
    "len": (col("s").str.len(), lambda r: strict(len)(r["s"])),
    "strip": (col("s").str.strip(), lambda r: strict(str.strip)(r["s"])),
    "starts_with": (col("s").str.starts_with("a"), lambda r: strict(lambda a: a.startswith("a"))(r["s"])),
    "ends_with": (col("s").str.ends_with("b"), lambda r: strict(lambda a: a.endswith("b"))(r["s"])),
    "contains": (col("s").str.contains("a"), lambda r: strict(lambda a: "a" in a)(r["s"])),
    "find": (col("s").str.find("b"), lambda r: strict(lambda a: a.encode().find(b"b"))(r["s"])),
    "replace": (col("s").str.replace("a", "zz"), lambda r: strict(lambda a: a.replace("a", "zz"))(r["s"])),
    "slice": (col("s").str.slice(1, 3), lambda r: strict(lambda a: a[1:3])(r["s"])),
    "reverse": (col("s").str.reverse(), lambda r: strict(lambda a: a[::-1])(r["s"])),
    "pad": (col("s").str.lpad(8, "*"), lambda r: strict(lambda a: a.rjust(8, "*"))(r["s"])),
    "repeat": (col("s").str.repeat(2), lambda r: strict(lambda a: a * 2)(r["s"])),
    "list.len": (col("l").list.len(), lambda r: strict(len)(r["l"])),
    "year": (col("t").dt.year(), lambda r: strict(lambda a: a.year)(r["t"])),
    "month": (col("t").dt.month(), lambda r: strict(lambda a: a.month)(r["t"])),
    "day": (col("t").dt.day(), lambda r: strict(lambda a: a.day)(r["t"])),
    "hour": (col("t").dt.hour(), lambda r: strict(lambda a: a.hour)(r["t"])),
    "struct": (col("r").struct["y"], lambda r: strict(lambda a: a["y"])(r["r"])),
    "cast": (col("i").cast(pa.string()), lambda r: strict(str)(r["i"])),
    "lit": (lit("x"), lambda r: "x"),
}


@few
@given(tables=blocks())
def test_expressions(tables: list[pa.Table]) -> None:
    rows = rows_of(tables)
    found = (
        dataset_of(tables).with_columns({f"out {name}": made for name, (made, _) in CASES.items()}).take_all()
    )
    for name, (_, plain) in CASES.items():
        assert [alike(row[f"out {name}"]) for row in found] == [alike(plain(row)) for row in rows], name
    same([{name: row[name] for name in NAMES} for row in found], rows)


_MARKS = ("<", ">", "==", "!=", "&", "|", "~b", "is_", "_in")
CONDITIONS = [name for name in CASES if any(mark in name for mark in _MARKS)]


@few
@given(tables=blocks(), name=st.sampled_from(CONDITIONS), other=st.sampled_from(CONDITIONS))
def test_filters_by_expression_keep_what_is_true(tables: list[pa.Table], name: str, other: str) -> None:
    (first, plain), (second, also) = CASES[name], CASES[other]
    wanted = [row for row in rows_of(tables) if plain(row) is True and also(row) is True]
    same(dataset_of(tables).filter(expr=first).filter(expr=second).take_all(), wanted)
    same(dataset_of(tables).filter(expr=first & second).take_all(), wanted)
