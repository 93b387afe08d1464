"""Conditions as text, and conditions that a reader takes over."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from skate.data.datatype import DataType
from skate.data.expressions import col, lit, udf
from skate.data.expressions.parser import parse
from skate.data.expressions.projection import column_of, mask_of
from skate.data.expressions.pushdown import pushable, split

TABLE = pa.table(
    {
        "i": [1, -2, None, 7],
        "j": [2, 3, 0, None],
        "f": [1.5, -2.5, 0.5, None],
        "s": ["Abc", " xy ", None, "éa b"],
        "d": [dt.datetime(2024, 2, 29, 13, 45, 10), dt.datetime(1999, 12, 31), None, dt.datetime(2024, 1, 1)],
    }
)
i, j, f, s, d = (col(name) for name in "ijfsd")


@udf(return_dtype=DataType.int64())
def plus(x: Any, y: Any = 1) -> Any:
    return pa.compute.add(x, y)


# -- text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("i > 1", i > 1),
        ("i > 1 and s == 'x'", (i > 1) & (s == "x")),
        ("i in [1, 3] or not (j < 2)", i.is_in([1, 3]) | ~(j < 2)),
        ("i not in (1, 2)", i.not_in([1, 2])),
        ("1 < i <= 3", (lit(1) < i) & (i <= 3)),
        ("i % 2 == 1", i % 2 == 1),
        ("-i < -1.5", -i < -1.5),
        ("i is None", i.is_null()),
        ("i is not None", i.is_not_null()),
        ("is_null(s)", s.is_null()),
        ("is_valid(s)", s.is_not_null()),
        ("col('a b') == True", col("a b") == True),  # noqa: E712
        ("lower(s) == 'x'", s.str.lower() == "x"),
        ("contains(s, 'x')", s.str.contains("x")),
        ("  (i > 1) & (j > 1)  ", (i > 1) & (j > 1)),
        ("i == None", i == None),  # noqa: E711
    ],
)
def test_text_is_read(text: str, same: Any) -> None:
    assert repr(parse(text)) == repr(same)
    assert parse(text).structurally_equals(same)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("i >", "Invalid syntax in the expression"),
        ("", "Invalid syntax in the expression"),
        ("__import__('os').system('x')", "not understood"),
        ("len(s) > 0", "Unsupported function"),
        ("i if i else j", "not understood"),
        ("[i for i in s]", "not understood"),
        ("lambda: 1", "not understood"),
        ("i := 3", "Invalid syntax in the expression"),
        ("i in s", "requires a list"),
        ("i is 3", "requires None"),
        ("i in [j]", "only contain values"),
        ("i ** 2 > 3", "not understood"),
        ("is_null(i, j)", "is_null"),
        ("contains(s, pattern='x')", "keyword arguments are not"),
        ("f'{i}' == 'x'", "not understood"),
        ("i @ j", "not understood"),
        ("...", "not understood"),
    ],
)
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_text_that_is_not_understood(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        parse(text)


def test_a_name_with_a_dot_is_a_column_or_else_a_field() -> None:
    found = parse("st.a == 1")
    assert found.evaluate(pa.table({"st": [{"a": 1}, {"a": 2}]})).to_pylist() == [True, False]
    assert found.evaluate(pa.table({"st.a": [2, 1]})).to_pylist() == [False, True]


def test_very_deep_text_is_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply|Invalid syntax in the expression"):
        parse("(" * 5000 + "i" + ")" * 5000)


# -- readers


CONDITIONS = [
    i > 1, i == 1.5, s == "Abc", (i > 1) & (j < 3), (i > 1) | i.is_null(), ~(i > 1), i.is_in([1, 7]), i.not_in([1]),
    i + j > 2, d > dt.datetime(2000, 1, 1), i.is_in([None, 1]), f * 2 >= 1, s.is_not_null(),
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS, ids=repr)
def test_a_reader_keeps_the_same_rows(condition: Any, tmp_path: Any) -> None:
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    table = TABLE
    pq.write_table(table, tmp_path / "t.parquet")
    assert pushable(condition)
    taken, left = split(condition)
    assert left is None
    read = ds.dataset(tmp_path / "t.parquet").to_table(filter=taken)
    assert read.equals(table.filter(mask_of(condition, table)))


def test_what_a_reader_cannot_do_is_left() -> None:
    taken, left = split((i > 1) & (i % 2 == 0) & (s.str.len() > 2))
    assert str(taken) == "(i > 1)"
    assert repr(left) == "(col('i') % 2 == 0) & (col('s').str.len() > 2)"
    assert split(plus(i) > 1)[0] is None
    assert not pushable(i.is_in(j))
    assert not pushable(s + "x" == "y")


def test_to_pyarrow() -> None:
    assert str((i > 1).to_pyarrow()) == "(i > 1)"
    assert str(s.str.upper().to_pyarrow()) == "utf8_upper(s)"
    with pytest.raises(TypeError, match="while it reads"):
        plus(i).to_pyarrow()
    table = TABLE.select(["i", "f"])
    import pyarrow.dataset as ds

    for each in (i % 3, i // 2, f % 2):
        scanned = ds.dataset(table).to_table(columns={"x": each.to_pyarrow()})["x"].to_pylist()
        assert scanned == column_of(each, table).to_pylist()
