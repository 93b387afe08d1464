"""Expressions by operator and function: type and values of each result, all computed in one run."""

from __future__ import annotations

import datetime as dt
import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import ray
import ray.data
from plain_values import plain
from ray.data.datatype import DataType
from ray.data.expressions import col, lit

pytestmark = pytest.mark.usefixtures("cluster")

TABLE = pa.table(
    {
        "i": [1, -2, None, 7],
        "j": [2, 3, 0, None],
        "f": [1.5, -2.5, 0.5, None],
        "s": ["Abc", " xy ", None, "éa b"],
        "b": [True, False, None, True],
        "l": [[3, 1, 2], [5, None], None, []],
        "st": [{"a": 1, "b": "x"}, {"a": 2, "b": None}, None, {"a": 4, "b": "z"}],
        "d": [
            dt.datetime(2024, 2, 29, 13, 45, 10, 123456), dt.datetime(1999, 12, 31, 23, 0, 1), None,
            dt.datetime(2024, 1, 1, 0, 30, 30),
        ],
        "m": pa.array([[("k", 1), ("q", 2)], [], None, [("z", None)]], pa.map_(pa.string(), pa.int64())),
        "ll": [[[1, 2], [3]], [[], [4]], None, []],
        "n": [{"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}, None, {"a": None}],
    }
)  # fmt: skip
i, j, f, s, b, l, st, d, m, ll = (col(name) for name in ("i", "j", "f", "s", "b", "l", "st", "d", "m", "ll"))  # noqa: E741

CASES: list[tuple[Any, str, list[Any]]] = [
    (i + j, "int64", [3, 1, None, None]),
    (i - j, "int64", [-1, -5, None, None]),
    (i * j, "int64", [2, -6, None, None]),
    (i / j, "int64", [0, 0, None, None]),
    (f / i, "double", [1.5, 1.25, None, None]),
    (j % 2, "double", [0.0, 1.0, 0.0, None]),
    (5 - i, "int64", [4, 7, None, -2]),
    (5 / f, "double", [3.3333333333333335, -2.0, 10.0, None]),
    (2 * f, "double", [3.0, -5.0, 1.0, None]),
    (i > j, "bool", [False, False, None, None]),
    (i >= 1, "bool", [True, False, None, True]),
    (i < 1.5, "bool", [True, True, None, False]),
    (i <= j, "bool", [True, True, None, None]),
    (i == j, "bool", [False, False, None, None]),
    (i != j, "bool", [True, True, None, None]),
    (~b, "bool", [False, True, None, False]),
    (b & (i > 0), "bool", [True, False, None, True]),
    (b | (i > 0), "bool", [True, False, None, True]),
    (i.is_in([1, None]), "bool", [True, False, True, False]),
    (i.is_in((1, 7)), "bool", [True, False, False, True]),
    (i.is_in({1, 7}), "bool", [True, False, False, True]),
    (i.is_in(pa.array([1, 7])), "bool", [True, False, False, True]),
    (i.is_in(np.array([1, 7])), "bool", [True, False, False, True]),
    (s.is_in(["Abc"]), "bool", [True, False, False, False]),
    (i.not_in([1]), "bool", [False, True, True, True]),
    (s + s, "string", ["AbcAbc", " xy  xy ", None, "éa béa b"]),
    (i.abs(), "int64", [1, 2, None, 7]),
    (i.negate(), "int64", [-1, 2, None, -7]),
    (i.sign(), "int8", [1, -1, None, 1]),
    (f.sign(), "double", [1.0, -1.0, 1.0, None]),
    (f.ceil(), "double", [2.0, -2.0, 1.0, None]),
    (f.floor(), "double", [1.0, -3.0, 0.0, None]),
    (f.round(), "double", [2.0, -2.0, 0.0, None]),
    (f.trunc(), "double", [1.0, -2.0, 0.0, None]),
    (i.ceil(), "double", [1.0, -2.0, None, 7.0]),
    (f.exp(), "double", [4.4816890703380645, 0.0820849986238988, 1.6487212707001282, None]),
    (f.ln(), "double", [0.4054651081081644, "NaN", -0.6931471805599453, None]),
    (f.log10(), "double", [0.17609125905568124, "NaN", -0.3010299956639812, None]),
    (f.log2(), "double", [0.5849625007211562, "NaN", -1.0, None]),
    (i.power(2), "int64", [1, 4, None, 49]),
    (i.power(0.5), "double", [1.0, "NaN", None, 2.6457513110645907]),
    (f.sin(), "double", [0.9974949866040544, -0.5984721441039565, 0.479425538604203, None]),
    (f.cos(), "double", [0.0707372016677029, -0.8011436155469337, 0.8775825618903728, None]),
    (f.tan(), "double", [14.101419947171719, 0.7470222972386603, 0.5463024898437905, None]),
    (f.asin(), "double", ["NaN", "NaN", 0.5235987755982989, None]),
    (f.acos(), "double", ["NaN", "NaN", 1.0471975511965979, None]),
    (f.atan(), "double", [0.982793723247329, -1.1902899496825317, 0.4636476090008061, None]),
    (i.cast(DataType.float64()), "double", [1.0, -2.0, None, 7.0]),
    (i.cast(DataType.string()), "string", ["1", "-2", None, "7"]),
    (i.cast(DataType.int8()), "int8", [1, -2, None, 7]),
    (f.cast(DataType.int64(), safe=False), "int64", [1, -2, 0, None]),
    (b.cast(DataType.int64()), "int64", [1, 0, None, 1]),
    (
        d.cast(DataType.string()),
        "string",
        ["2024-02-29 13:45:10.123456", "1999-12-31 23:00:01.000000", None, "2024-01-01 00:30:30.000000"],
    ),
    (s.str.len(), "int32", [3, 4, None, 4]),
    (s.str.byte_len(), "int32", [3, 4, None, 5]),
    (s.str.upper(), "string", ["ABC", " XY ", None, "ÉA B"]),
    (s.str.lower(), "string", ["abc", " xy ", None, "éa b"]),
    (s.str.capitalize(), "string", ["Abc", " xy ", None, "Éa b"]),
    (s.str.title(), "string", ["Abc", " Xy ", None, "Éa B"]),
    (s.str.swapcase(), "string", ["aBC", " XY ", None, "ÉA B"]),
    (s.str.reverse(), "string", ["cbA", " yx ", None, "b aé"]),
    (s.str.is_alpha(), "bool", [True, False, None, False]),
    (s.str.is_alnum(), "bool", [True, False, None, False]),
    (s.str.is_digit(), "bool", [False, False, None, False]),
    (s.str.is_decimal(), "bool", [False, False, None, False]),
    (s.str.is_numeric(), "bool", [False, False, None, False]),
    (s.str.is_space(), "bool", [False, False, None, False]),
    (s.str.is_lower(), "bool", [False, True, None, True]),
    (s.str.is_upper(), "bool", [False, False, None, False]),
    (s.str.is_title(), "bool", [True, False, None, False]),
    (s.str.is_printable(), "bool", [True, True, None, True]),
    (s.str.is_ascii(), "bool", [True, True, None, False]),
    (s.str.starts_with("A"), "bool", [True, False, None, False]),
    (s.str.starts_with("a", ignore_case=True), "bool", [True, False, None, False]),
    (s.str.ends_with("c"), "bool", [True, False, None, False]),
    (s.str.contains("b"), "bool", [True, False, None, True]),
    (s.str.match("%b%"), "bool", [True, False, None, True]),
    (s.str.match_regex("[ab]"), "bool", [True, False, None, True]),
    (s.str.find("b"), "int32", [1, -1, None, 4]),
    (s.str.find_regex("[by]"), "int32", [1, 2, None, 4]),
    (s.str.count("b"), "int32", [1, 0, None, 1]),
    (s.str.count_regex("[bc]"), "int32", [2, 0, None, 1]),
    (s.str.split("b"), "list<item: string>", [["A", "c"], [" xy "], None, ["éa ", ""]]),
    (s.str.split("b", max_splits=1), "list<item: string>", [["A", "c"], [" xy "], None, ["éa ", ""]]),
    (s.str.split_regex("[bx]"), "list<item: string>", [["A", "c"], [" ", "y "], None, ["éa ", ""]]),
    (s.str.split_whitespace(), "list<item: string>", [["Abc"], ["", "xy", ""], None, ["éa", "b"]]),
    (
        s.str.extract("(?P<one>[a-z])(?P<two>[a-z])"),
        "struct<one: string, two: string>",
        [{"one": "b", "two": "c"}, {"one": "x", "two": "y"}, None, None],
    ),
    (s.str.slice(1), "string", ["bc", "xy ", None, "a b"]),
    (s.str.slice(0, 2), "string", ["Ab", " x", None, "éa"]),
    (s.str.slice(0, 3, 2), "string", ["Ac", " y", None, "é "]),
    (s.str.slice(start=1, stop=2), "string", ["b", "x", None, "a"]),
    (s.str.replace("b", "Q"), "string", ["AQc", " xy ", None, "éa Q"]),
    (s.str.replace("b", "Q", max_replacements=1), "string", ["AQc", " xy ", None, "éa Q"]),
    (s.str.replace_regex("[ab]", "Q"), "string", ["AQc", " xy ", None, "éQ Q"]),
    (s.str.repeat(2), "string", ["AbcAbc", " xy  xy ", None, "éa béa b"]),
    (s.str.center(7, "*"), "string", ["**Abc**", "* xy **", None, "*éa b**"]),
    (s.str.lpad(6, "*"), "string", ["***Abc", "** xy ", None, "**éa b"]),
    (s.str.rpad(6), "string", ["Abc   ", " xy   ", None, "éa b  "]),
    (s.str.pad(6), "string", ["Abc   ", " xy   ", None, "éa b  "]),
    (s.str.pad(6, "*", "left"), "string", ["***Abc", "** xy ", None, "**éa b"]),
    (s.str.pad(6, "*", "both"), "string", ["*Abc**", "* xy *", None, "*éa b*"]),
    (s.str.strip(), "string", ["Abc", "xy", None, "éa b"]),
    (s.str.strip(" A"), "string", ["bc", "xy", None, "éa b"]),
    (s.str.lstrip(), "string", ["Abc", "xy ", None, "éa b"]),
    (s.str.rstrip(), "string", ["Abc", " xy", None, "éa b"]),
    (s.str.lstrip("A"), "string", ["bc", " xy ", None, "éa b"]),
    (s.str.rstrip("c"), "string", ["Ab", " xy ", None, "éa b"]),
    (l.list.len(), "int32", [3, 2, None, 0]),
    (l.list[0:2], "list<item: int64>", [[3, 1], [5, None], None, []]),
    (l.list[1:], "list<item: int64>", [[1, 2], [None], None, []]),
    (l.list[:2], "list<item: int64>", [[3, 1], [5, None], None, []]),
    (l.list.slice(0, 2), "list<item: int64>", [[3, 1], [5, None], None, []]),
    (l.list.slice(0, 3, 2), "list<item: int64>", [[3, 2], [5], None, []]),
    (l.list.slice(1), "list<item: int64>", [[1, 2], [None], None, []]),
    (l.list.sort(), "list<item: int64>", [[1, 2, 3], [5, None], None, []]),
    (l.list.sort(order="descending"), "list<item: int64>", [[3, 2, 1], [5, None], None, []]),
    (
        l.list.sort(order="descending", null_placement="at_start"),
        "list<item: int64>",
        [[3, 2, 1], [None, 5], None, []],
    ),
    (ll.list.flatten(), "list<item: int64>", [[1, 2, 3], [4], None, []]),
    (st.struct["a"], "int64", [1, 2, None, 4]),
    (st.struct.field("b"), "string", ["x", None, None, "z"]),
    (st.struct.field_by_index(0), "int64", [1, 2, None, 4]),
    (st.struct[0], "int64", [1, 2, None, 4]),
    (col("n").struct["a"].struct["b"].struct["c"], "int64", [1, 2, None, None]),
    (d.dt.year(), "int64", [2024, 1999, None, 2024]),
    (d.dt.month(), "int64", [2, 12, None, 1]),
    (d.dt.day(), "int64", [29, 31, None, 1]),
    (d.dt.hour(), "int64", [13, 23, None, 0]),
    (d.dt.minute(), "int64", [45, 0, None, 30]),
    (d.dt.second(), "int64", [10, 1, None, 30]),
    (d.dt.strftime("%Y-%m-%d"), "string", ["2024-02-29", "1999-12-31", None, "2024-01-01"]),
    (
        d.dt.ceil("day"),
        "timestamp[us]",
        [
            "datetime.datetime(2024, 3, 1, 0, 0)",
            "datetime.datetime(2000, 1, 1, 0, 0)",
            None,
            "datetime.datetime(2024, 1, 2, 0, 0)",
        ],
    ),
    (
        d.dt.floor("hour"),
        "timestamp[us]",
        [
            "datetime.datetime(2024, 2, 29, 13, 0)",
            "datetime.datetime(1999, 12, 31, 23, 0)",
            None,
            "datetime.datetime(2024, 1, 1, 0, 0)",
        ],
    ),
    (
        d.dt.round("day"),
        "timestamp[us]",
        [
            "datetime.datetime(2024, 3, 1, 0, 0)",
            "datetime.datetime(2000, 1, 1, 0, 0)",
            None,
            "datetime.datetime(2024, 1, 1, 0, 0)",
        ],
    ),
    (m.map.keys(), "list<item: string>", [["k", "q"], [], None, ["z"]]),
    (m.map.values(), "list<item: int64>", [[1, 2], [], None, [None]]),
    (i.alias("q"), "int64", [1, -2, None, 7]),
    ((i + 1).alias("q"), "int64", [2, -1, None, 8]),
    (col("i"), "int64", [1, -2, None, 7]),
    (i.is_null(), "bool", [False, False, True, False]),
    (i.is_not_null(), "bool", [True, True, False, True]),
    ((i > 1).is_null(), "bool", [False, False, True, False]),
    (s + lit("z"), "string", ["Abcz", " xy z", None, "éa bz"]),
    (lit(5), "int64", [5, 5, 5, 5]),
    (lit("x"), "string", ["x", "x", "x", "x"]),
    (lit(None), "null", [None, None, None, None]),
    (lit(True), "bool", [True, True, True, True]),
    (lit(1.5), "double", [1.5, 1.5, 1.5, 1.5]),
    (
        lit(dt.date(2024, 1, 1)),
        "date32[day]",
        [
            "datetime.date(2024, 1, 1)",
            "datetime.date(2024, 1, 1)",
            "datetime.date(2024, 1, 1)",
            "datetime.date(2024, 1, 1)",
        ],
    ),
    (lit([1, 2]), "list<item: int64>", [[1, 2], [1, 2], [1, 2], [1, 2]]),
    (lit({"a": 1}), "struct<a: int64>", [{"a": 1}, {"a": 1}, {"a": 1}, {"a": 1}]),
    (lit(b"x"), "binary", ["b'x'", "b'x'", "b'x'", "b'x'"]),
]


@functools.cache
def computed() -> pa.Table:
    """All cases as columns of one table."""
    dataset = ray.data.from_arrow(TABLE).with_columns({f"case{at}": case[0] for at, case in enumerate(CASES)})
    return pa.concat_tables(ray.get(dataset.to_arrow_refs()))


@pytest.mark.parametrize("at", range(len(CASES)))
def test_type_and_values_of_an_expression(at: int) -> None:
    _, kind, values = CASES[at]
    column = computed().column(f"case{at}")
    assert str(column.type) == kind
    assert plain(column.to_pylist()) == plain(values)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (col("i") > 0, [1, 7]),
        ("i > 0", [1, 7]),
        ("i > 0 and j > 1", [1]),
        ("i > 0 or j > 2", [1, -2, 7]),
        ("not (i > 0)", [-2]),
        ("i in [1, 7]", [1, 7]),
        ("i not in [1, 7]", [-2, None]),
        ("s == 'Abc'", [1]),
        ("s != 'Abc'", [-2, 7]),
        ("is_null(i)", [None]),
        ("i == None", []),
        (col("b"), [1, 7]),
        (col("s").str.contains("b"), [1, 7]),
        (~col("b"), [-2]),
        (col("i").is_null() | (col("j") > 1), [1, -2, None]),
    ],
)
def test_rows_for_which_an_expression_is_true(condition: Any, found: list[Any]) -> None:
    assert [row["i"] for row in ray.data.from_arrow(TABLE).filter(expr=condition).take_all()] == found
