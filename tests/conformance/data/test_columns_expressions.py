"""Expressions: what with_columns and filter make of them. All are computed in one run, and looked at case by case."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest
import ray
import ray.data
from ray.data.datatype import DataType
from ray.data.expressions import (
    col,
    download,
    lit,
    monotonically_increasing_id,
    random,
    udf,
    unnest,
    uuid,
)

pytestmark = pytest.mark.usefixtures("cluster")

ROWS = [
    {
        "i": 1,
        "j": 2,
        "f": 1.5,
        "s": "Abc",
        "b": True,
        "l": [3, 1, 2],
        "st": {"a": 1, "b": "x"},
        "d": dt.datetime(2024, 2, 29, 13, 45, 10),
    },
    {
        "i": -2,
        "j": 3,
        "f": -2.5,
        "s": " xy ",
        "b": False,
        "l": [5, 4],
        "st": {"a": 2, "b": None},
        "d": dt.datetime(1999, 12, 31, 23, 0, 1),
    },
    {"i": None, "j": 0, "f": 0.5, "s": None, "b": None, "l": None, "st": None, "d": None},
    {
        "i": 7,
        "j": None,
        "f": None,
        "s": "éa b",
        "b": True,
        "l": [9, 8],
        "st": {"a": 4, "b": "z"},
        "d": dt.datetime(2024, 1, 1, 0, 30, 30),
    },
]
i, j, f, s, b, d = (col(name) for name in "ijfsbd")

CASES: dict[str, tuple[Any, list[Any]]] = {
    "add": (i + j, [3, 1, None, None]),
    "add a number": (i + 1, [2, -1, None, 8]),
    "number first": (10 - i, [9, 12, None, 3]),
    "multiply": (2 * i, [2, -4, None, 14]),
    "divide doubles": (f / 2, [0.75, -1.25, 0.25, None]),
    "divide whole numbers": (i / 2, [0, -1, None, 3]),
    "divide by zero": (f / 0, [math.inf, -math.inf, math.inf, None]),
    "floor divide": (f // 2, [0.0, -2.0, 0.0, None]),
    "remainder": (f % 2, [1.5, 1.5, 0.5, None]),
    "text": (s + "z", ["Abcz", " xy z", None, "éa bz"]),
    "text first": ("z" + s, ["zAbc", "z xy ", None, "zéa b"]),
    "greater": (i > 1, [False, False, None, True]),
    "equal": (i == 1, [True, False, None, False]),
    "not equal": (i != 1, [False, True, None, True]),
    "and": ((i > 1) & (j > 1), [False, False, False, None]),
    "or": ((i > 1) | (j > 1), [True, True, None, True]),
    "not": (~b, [False, True, None, False]),
    "is null": (i.is_null(), [False, False, True, False]),
    "is not null": (i.is_not_null(), [True, True, False, True]),
    "is in": (i.is_in([1, 7]), [True, False, False, True]),
    "not in": (i.not_in([1, 7]), [False, True, True, False]),
    "is in none": (i.is_in([]), [False, False, False, False]),
    "abs": (i.abs(), [1, 2, None, 7]),
    "negate": (i.negate(), [-1, 2, None, -7]),
    "ceil": (f.ceil(), [2.0, -2.0, 1.0, None]),
    "floor": (f.floor(), [1.0, -3.0, 0.0, None]),
    "round": (f.round(), [2.0, -2.0, 0.0, None]),
    "trunc": (f.trunc(), [1.0, -2.0, 0.0, None]),
    "sign": (i.sign(), [1, -1, None, 1]),
    "power": (i.power(2), [1, 4, None, 49]),
    "cast": (i.cast(DataType.string()), ["1", "-2", None, "7"]),
    "cast unsafely": (f.cast(DataType.int64(), safe=False), [1, -2, 0, None]),
    "literal": (lit(5), [5, 5, 5, 5]),
    "literal list": (lit([1, 2]), [[1, 2]] * 4),
    "length": (s.str.len(), [3, 4, None, 4]),
    "bytes": (s.str.byte_len(), [3, 4, None, 5]),
    "upper": (s.str.upper(), ["ABC", " XY ", None, "ÉA B"]),
    "strip": (s.str.strip(), ["Abc", "xy", None, "éa b"]),
    "contains": (s.str.contains("b"), [True, False, None, True]),
    "starts with": (s.str.starts_with("a", ignore_case=True), [True, False, None, False]),
    "replace": (s.str.replace("b", "Q"), ["AQc", " xy ", None, "éa Q"]),
    "slice": (s.str.slice(0, 2), ["Ab", " x", None, "éa"]),
    "split": (s.str.split("b"), [["A", "c"], [" xy "], None, ["éa ", ""]]),
    "pad": (s.str.pad(6, "*", "left"), ["***Abc", "** xy ", None, "**éa b"]),
    "reverse": (s.str.reverse(), ["cbA", " yx ", None, "b aé"]),
    "list length": (col("l").list.len(), [3, 2, None, 2]),
    "list element": (col("l").list[0], [3, 5, None, 9]),
    "list slice": (col("l").list[0:2], [[3, 1], [5, 4], None, [9, 8]]),
    "list sort": (col("l").list.sort(), [[1, 2, 3], [4, 5], None, [8, 9]]),
    "field": (col("st").struct["a"], [1, 2, None, 4]),
    "field of text": (col("st").struct.field("b"), ["x", None, None, "z"]),
    "year": (d.dt.year(), [2024, 1999, None, 2024]),
    "strftime": (d.dt.strftime("%Y/%m"), ["2024/02", "1999/12", None, "2024/01"]),
    "floor to a month": (d.dt.floor("month").dt.day(), [1, 1, None, 1]),
    "nested": (((i + 1) * 2).abs().alias("z"), [4, 2, None, 16]),
}


@pytest.fixture(scope="module")
def computed() -> dict[str, list[Any]]:
    return {}


@pytest.mark.parametrize("case", CASES)
def test_expression(case: str, computed: dict[str, list[Any]]) -> None:
    if not computed:
        source = ray.data.from_arrow(pa.Table.from_pylist(ROWS))
        rows = source.with_columns({name: expression for name, (expression, _) in CASES.items()}).take_all()
        computed.update({name: [row[name] for row in rows] for name in CASES})
    assert computed[case] == CASES[case][1]


@pytest.mark.chosen_difference("Python's floor, where Ray cuts towards zero", id="D-data-floor-division")
def test_whole_numbers_below_zero_are_divided_as_in_python() -> None:
    rows = ray.data.from_items([{"i": -7}]).with_columns({"q": i // 2, "r": i % 2}).take_all()
    assert rows == [{"i": -7, "q": -4, "r": 1}]


@pytest.mark.chosen_difference("an expression has no truth value", id="D-data-expression-truth")
def test_and_between_conditions_is_refused() -> None:
    with pytest.raises(TypeError, match="&"):
        bool(i > 1)


KEPT = [
    ("a > 1", [2, 3]),
    ("a > 1 and c == 'y'", [2]),
    ("a in [1, 3]", [1, 3]),
    ("a not in [1, 3]", [2]),
    ("not (a > 1)", [1]),
    ("c == 'y' or a == 1", [1, 2]),
    ("is_null(b)", [3]),
    ("is_valid(b)", [1, 2]),
    ("b > 1", [1, 2]),
    ("-a < -1", [2, 3]),
]
FEW = [{"a": 1, "b": 2.0, "c": "x"}, {"a": 2, "b": 3.0, "c": "y"}, {"a": 3, "b": None, "c": None}]


@pytest.mark.parametrize(("text", "kept"), KEPT, ids=[text for text, _ in KEPT])
def test_filter_by_text(text: str, kept: list[int]) -> None:
    rows = ray.data.from_items(FEW).filter(expr=text).take_all()
    assert sorted(row["a"] for row in rows) == kept


def test_filter_by_expression() -> None:
    rows = ray.data.from_items(FEW).filter(expr=(col("a") > 1) & col("b").is_not_null()).take_all()
    assert [row["a"] for row in rows] == [2]


@pytest.mark.parametrize("text", ["a >", "len(c) > 0", "__import__('os').system('true')"])
def test_text_that_is_no_condition_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError):
        ray.data.from_items(FEW).filter(expr=text)


@pytest.mark.parametrize("wrong", [{}, {"fn": lambda row: True, "expr": "a > 1"}])
def test_filter_takes_either_a_function_or_an_expression(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ray.data.from_items(FEW).filter(**wrong)


@udf(return_dtype=DataType.int64())
def plus(x: Any, y: Any = 1) -> Any:
    import pyarrow.compute as pc

    return pc.add(x, y)


@udf(return_dtype=DataType.int64())
class Times:
    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, x: Any) -> Any:
        import pyarrow.compute as pc

        return pc.multiply(x, self.n)


def test_functions_of_the_users() -> None:
    rows = (
        ray.data.from_items(FEW)
        .with_columns({"p": plus(col("a")), "q": plus(col("a"), y=col("a"))})
        .take_all()
    )
    assert sorted((row["p"], row["q"]) for row in rows) == [(2, 2), (3, 4), (4, 6)]


def test_a_class_is_constructed_with_its_arguments() -> None:
    rows = ray.data.from_items(FEW).with_column("t", Times(10)(col("a"))).take_all()
    assert sorted(row["t"] for row in rows) == [10, 20, 30]


def test_unnest() -> None:
    source = ray.data.from_items([{"s": {"p": 1, "q": 2}, "k": 0}])
    assert source.with_columns(unnest(col("s"))).take_all() == [
        {"s": {"p": 1, "q": 2}, "k": 0, "p": 1, "q": 2}
    ]


def test_numbers_that_grow_and_identifiers() -> None:
    made = ray.data.range(6, override_num_blocks=3).with_columns(
        {"n": monotonically_increasing_id(), "u": uuid(), "r": random(seed=1)}
    )
    rows = sorted(made.take_all(), key=lambda row: row["id"])
    numbers = [row["n"] for row in rows]
    assert numbers == sorted(set(numbers))
    assert len({row["u"] for row in rows}) == 6
    assert all(0 <= row["r"] < 1 for row in rows)


@pytest.mark.filterwarnings("ignore:.*downloads failed")
def test_download(tmp_path: Any) -> None:
    (tmp_path / "here").write_bytes(b"content")
    uris = [{"u": str(tmp_path / "here")}, {"u": str(tmp_path / "gone")}]
    rows = ray.data.from_items(uris).with_column("bytes", download("u")).take_all()
    assert {row["bytes"] for row in rows} == {b"content", None}


FIELDS = pa.schema(
    [pa.field("a", pa.int64(), nullable=False, metadata={"unit": "m"}), pa.field("b", pa.int64())]
)


@pytest.mark.parametrize(
    ("expression", "nullable"),
    [
        (col("a"), False),
        (col("b"), True),
        (col("nobody"), True),
        (lit(1), False),
        (lit(None), True),
        (col("a") + 1, False),
        (col("a") + col("b"), True),
        (col("b").is_null(), False),
        (~(col("a") > 1), False),
        (~(col("b") > 1), True),
        ((col("a") * 2).alias("c"), False),
        (col("a").abs(), True),
        (uuid(), False),
        (random(), False),
        (monotonically_increasing_id(), False),
    ],
    ids=str,
)
def test_a_result_that_has_no_nulls(expression: Any, nullable: bool) -> None:
    assert expression.nullable(FIELDS) is nullable


def test_the_field_of_a_result() -> None:
    assert col("a").to_field(FIELDS).equals(FIELDS.field("a"), check_metadata=True)
    assert col("nobody").to_field(FIELDS) is None
    assert (col("a") + 1).alias("c").to_field(FIELDS) == pa.field("c", pa.int64(), nullable=False)
    assert (col("a") + 1).to_field(FIELDS) is None  # without a name


def test_conditions_are_booleans() -> None:
    assert col("a").is_null().data_type == (~col("a")).data_type == DataType.bool()


def test_structural_equality() -> None:
    assert (i + 1).structurally_equals(i + 1)
    assert not (i + 1).structurally_equals(i + 2)
    assert not lit(1).structurally_equals(lit(True))


def test_a_function_gets_columns_in_chunks():
    @udf(return_dtype=DataType.int64())
    def first(column: Any) -> Any:
        assert isinstance(column, pa.ChunkedArray)
        return column.combine_chunks()

    made = ray.data.from_arrow(pa.table({"a": [1, 2]})).with_column("b", first(col("a")))
    assert [row["b"] for row in made.take_all()] == [1, 2]
