"""A small input of a join filters the large one. The rows stay the same, and only the columns in use are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skate import data
from skate.data import Dataset
from skate.data.aggregate import Count, Sum
from skate.data.exchange.join import TYPES
from skate.data.expressions import col
from skate.data.relational import join_filters
from skate.data.relational.csv_scans import FirstRows
from skate.data.relational.frames import Frame, Frames
from skate.data.relational.held_rows import RowBudget
from skate.data.relational.join_filters import FilteredInputs
from skate.data.relational.refusals import StageRefused
from tests.data.relational.both_ways import check, is_staged
from tests.data.relational.test_same_answers import dataset, some, tables


@pytest.fixture(autouse=True)
def every_join_is_filtered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs of all sizes are filtered, however many rows match."""
    monkeypatch.setattr(join_filters, "_ROWS", 0)
    monkeypatch.setattr(join_filters, "_TIMES", 1)
    monkeypatch.setattr(join_filters, "_TIMES_READ", 1)
    monkeypatch.setattr(join_filters, "_MATCHING", 1.0)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """For each join that runs: the columns that it reads of the small input, and the rows left of the large one."""
    found: list[Any] = []
    narrowed, read = FilteredInputs.narrowed, join_filters._read

    def spied(self: Any, frames: Any, node: Any, inputs: Any) -> Any:
        after = narrowed(self, frames, node, inputs)
        large = max((0, 1), key=lambda at: inputs[at].rows)
        found.append(after[large].lazy.collect().height)
        return after

    def columns(frames: Any, frame: Any, kept: list[str]) -> Any:
        found.append(kept)
        return read(frames, frame, kept)

    monkeypatch.setattr(FilteredInputs, "narrowed", spied)
    monkeypatch.setattr(join_filters, "_read", columns)
    return found


@pytest.fixture
def large() -> Dataset:
    table = pa.table(
        {"k": [*range(10), None], "v": list(range(11)), "s": [str(row % 3) for row in range(11)]}
    )
    return data.from_arrow(table)


@pytest.fixture
def small() -> Dataset:
    return data.from_arrow(pa.table({"k": [2, 3, 3, None], "w": [1, 2, 3, 4], "x": ["a", "b", "c", "d"]}))


@given(
    tables(),
    tables(),
    st.sampled_from(TYPES),
    st.lists(st.sampled_from(["k", "i", "u", "s", "l", "d", "b"]), unique=True, min_size=1, max_size=2),
)
@settings(some, max_examples=15)
def test_random_joins(tmp_path: Path, left: pa.Table, right: pa.Table, kind: str, keys: list[str]) -> None:
    for folder in (None, tmp_path):
        one, other = dataset(left, folder), dataset(right)
        ds = one.join(other, kind, 1, on=tuple(keys), left_suffix="_l", right_suffix="_r")
        assert is_staged(ds)
        check(ds, ordered=False)
    chosen = dataset(left).filter(expr=col("b").is_not_null())
    ds = chosen.join(dataset(right), kind, 1, on=tuple(keys), left_suffix="_l", right_suffix="_r")
    check(ds.groupby(keys[0]).aggregate(Count()))


@pytest.mark.parametrize("kind", ["inner", "left_semi", "right_outer", "right_anti", "right_semi"])
def test_rows_without_a_match_are_not_read(
    large: Dataset, small: Dataset, seen: list[Any], kind: str
) -> None:
    check(large.join(small, kind, 1, on=("k",)), ordered=False)
    kind = kind.replace("right", "x").replace("left", "right").replace("x", "left")
    check(small.join(large, kind, 1, on=("k",)), ordered=False)
    assert seen[1::2] == [2, 2]


@pytest.mark.parametrize("kind", ["left_outer", "left_anti", "full_outer"])
def test_rows_that_are_kept_without_a_match_are_read(
    large: Dataset, small: Dataset, seen: list[Any], kind: str
) -> None:
    check(large.join(small, kind, 1, on=("k",)), ordered=False)
    assert not seen


def test_only_columns_in_use_are_read(large: Dataset, small: Dataset, seen: list[Any]) -> None:
    joined = large.join(small, "inner", 1, on=("k",))
    check(joined.groupby("s").aggregate(Count()))
    check(joined.groupby("s").aggregate(Sum("w")))
    check(joined.select_columns(["x", "v"]).sort("x"))
    check(joined.drop_columns(["x"]).filter(expr=col("w") > 1), ordered=False)
    check(joined.rename_columns({"w": "v2"}).filter(expr=col("s") == "0"), ordered=False)
    assert joined.count() == 3
    check(large.join(small, "left_semi", 1, on=("k",)), ordered=False)
    assert seen[::2] == [["k"], ["k", "w"], ["k", "x"], ["k", "w", "x"], ["k", "w", "x"], ["k"], ["k"]]


def test_columns_of_both_inputs_are_told_apart(large: Dataset, seen: list[Any]) -> None:
    other = data.from_arrow(pa.table({"k": [2, 3], "v": [0, 1], "s": ["a", "b"]}))
    joined = large.join(other, "inner", 1, on=("k",), right_suffix="_r")
    check(joined.groupby("v").aggregate(Sum("v_r")))
    check(joined.groupby("v_r").aggregate(Count("s")))
    assert seen[::2] == [["k", "v"], ["k", "v"]]


def translator(inputs: Any, most: int = 1 << 30) -> Frames:
    return Frames(polars, RowBudget(most), FirstRows({}), inputs, {})


def test_a_column_that_was_not_read_raises() -> None:
    table = pa.table({"k": [1], "v": [2]})
    given = Frame(polars.from_arrow(table).lazy(), table.schema)
    frame = join_filters._read(translator(None), given, ["k"])
    assert frame.lazy.select("k").collect().rows() == [(1,)]
    with pytest.raises(StageRefused, match="not read"):
        frame.lazy.collect()


def test_more_rows_than_memory_are_not_read() -> None:
    table = pa.table({"k": list(range(1000))})
    given = Frame(polars.from_arrow(table).lazy(), table.schema)
    assert join_filters._read(translator(None, 8000), given, ["k"]).rows == 1000
    with pytest.raises(Exception, match="more than 7999 bytes"):
        join_filters._read(translator(None, 7999), given, ["k"])


def test_inputs_of_inputs(large: Dataset, small: Dataset, seen: list[Any]) -> None:
    chosen = small.join(data.from_arrow(pa.table({"w": [3]})), "left_semi", 1, on=("w",))
    joined = large.join(chosen, "inner", 1, on=("k",))
    assert check(joined.groupby("v").aggregate(Count())).to_pylist() == [{"v": 3, "count()": 1}]
    assert seen == [["w"], 1, ["k"], 1]


@pytest.mark.parametrize("case", ["rows", "times", "rows read", "sample read", "type"])
def test_when_a_filter_does_not_pay(
    large: Dataset, small: Dataset, seen: list[Any], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ("k",)
    if case == "rows":
        monkeypatch.setattr(join_filters, "_ROWS", 12)
    elif case == "times":
        monkeypatch.setattr(join_filters, "_TIMES", 3)
    elif case == "rows read":
        monkeypatch.setattr(join_filters, "_TIMES_READ", 6)
    elif case == "sample read":
        monkeypatch.setattr(join_filters, "_MATCHING", 0.1)
    else:
        large, small = (each.with_column("b", col("k") > 2) for each in (large, small))
        keys = ("b",)
    check(large.join(small, "inner", 1, on=keys, right_suffix="_r"), ordered=False)
    assert [each for each in seen if isinstance(each, int)] == ([11] if "read" in case else [])


def test_a_consumer_who_leaves_ends_the_reading(large: Dataset, small: Dataset) -> None:
    frames = translator(FilteredInputs({}, lambda: False))
    with pytest.raises(StageRefused, match="closed"):
        frames.of(large.join(small, "inner", 1, on=("k",))._plan)


@pytest.mark.parametrize("key", ["v", "v_b", "v_c"])
@pytest.mark.parametrize("summed", ["v", "v_b", "v_c"])
def test_joins_of_joins_hold_only_columns_in_use(
    key: str, summed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: set[tuple[str, ...]] = set()
    count = RowBudget._counted
    monkeypatch.setattr(
        RowBudget, "_counted", lambda self, rows: (counted.add(tuple(rows.columns)), count(self, rows))[1]
    )
    a, b, c = (
        data.from_arrow(
            pa.table({"k": [row % 3 for row in range(rows)], "v": list(range(rows)), "x": ["x"] * rows})
        )
        for rows in (9, 6, 4)
    )
    inner = a.join(b, "inner", 1, on=("k",), right_suffix="_b")
    outer = inner.join(c, "inner", 1, on=("k",), right_suffix="_c")
    check(outer.groupby(key).aggregate(Sum(summed, alias_name="found")))
    first = {name for name in (key, summed) if name != "v_c"}
    held = [set(names) for names in counted]
    assert {key, summed} in held
    assert any({"k", *first} <= names for names in held)
    # A column named as one after the second join is held as well, but none that nothing has named.
    assert not any(name.startswith("x") for names in held for name in names)


@pytest.mark.parametrize("in_files", [False, True])
def test_a_filter_makes_an_input_small(
    large: Dataset, seen: list[Any], in_files: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_filters, "_TIMES", 5)
    table = pa.table({"k": list(range(40)), "u": ["a", "b"] * 20})
    pq.write_table(table, tmp_path / "0.parquet")
    other = data.read_parquet(str(tmp_path)) if in_files else data.from_arrow(table)
    check(large.join(other, "inner", 1, on=("k",)), ordered=False)
    assert not seen  # 40 rows are too few in comparison with 11
    few = other.filter(expr=(col("k") == 3) | (col("k") == 20))
    check(large.join(few, "inner", 1, on=("k",)).groupby("u").aggregate(Sum("v")))
    check(few.join(large, "left_semi", 1, on=("k",)), ordered=False)
    assert [each for each in seen if isinstance(each, list)] == [["k", "u"], ["k", "u"]]
