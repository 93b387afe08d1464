"""Distinct texts that come from the dictionaries of Parquet files are those of all rows, in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skate import data
from skate.data import Dataset
from skate.data.aggregate import CountDistinct, Max, Mean, Min, Unique
from skate.data.exchange.aggregate import AggregateKernel
from skate.data.expressions import col
from skate.data.relational import dictionaries, distinct_frame
from skate.data.relational.refusals import StageRefused
from tests.data.relational.both_ways import check, in_both_ways, is_staged
from tests.data.relational.test_same_answers import TEXTS, some

Seen = list[Any]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The results of `distinct_texts`, call by call."""
    seen: Seen = []

    def found(*given: Any) -> Any:
        seen.append(dictionaries.distinct_texts(*given))
        return seen[-1]

    monkeypatch.setattr(distinct_frame, "distinct_texts", found)
    return seen


def written(folder: Path, *parts: pa.Array, **options: Any) -> Dataset:
    """Write a file for each array, and return the dataset of them."""
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(parts):
        pq.write_table(pa.table({"s": part, "v": range(len(part))}), folder / f"{number}.parquet", **options)
    return data.read_parquet(str(folder))


def aggregated(ds: Dataset, *aggregations: Any) -> Dataset:
    return ds._exchanged(AggregateKernel((), list(aggregations)))


#: Texts of some rows: few of them, then others, and perhaps nulls.
COLUMNS = st.tuples(
    st.lists(st.sampled_from([*TEXTS, None]), min_size=1, max_size=5),
    st.lists(st.sampled_from([*TEXTS, None]), max_size=5),
    st.integers(0, 300),
).map(lambda drawn: drawn[0] * drawn[2] + drawn[1] + drawn[0])


@given(COLUMNS, COLUMNS, st.sampled_from(dictionaries.KINDS), st.integers(50, 2000), st.booleans())
@settings(some, max_examples=20)
def test_random_files(
    tmp_path: Path, first: Any, second: Any, kind: pa.DataType, rows: int, ignore_nulls: bool
) -> None:
    encoded = [each and each.encode() for each in first], [each and each.encode() for each in second]
    parts = [pa.array(each, pa.binary()).cast(kind) for each in encoded]
    ds = written(tmp_path, *parts, row_group_size=rows)
    check(
        aggregated(
            ds, Unique("s", ignore_nulls, "found"), CountDistinct("s", ignore_nulls),
            Min("s", ignore_nulls), Max("s", ignore_nulls),
        )
    )  # fmt: skip


def test_texts_come_in_order_of_appearance(
    tmp_path: Path, read: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dictionaries, "_ROWS", 4)
    first = pa.array(["b"] * 2000 + ["a", None, "c"] + ["b"] * 1000)
    second = pa.array(["d", "a"] * 1000 + [None])
    ds = written(tmp_path, first, second, row_group_size=700)
    assert ds.unique("s") == ["b", "a", None, "c", "d"]
    assert ds.unique("s", ignore_nulls=True) == ["b", "a", "c", "d"]
    assert [sum(table.num_rows for table in tables) for tables in read] == [15, 15]
    assert ds.aggregate(CountDistinct("s"), Min("s"), Max("s")) == {
        "count_distinct(s)": 4, "min(s)": "a", "max(s)": "d"
    }  # fmt: skip
    assert len(read) == 3


def test_few_rows_show_all_texts(tmp_path: Path, read: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    all_rows = dictionaries._of_all_rows

    def counted(*given: Any) -> Any:
        rows.append(1)
        return all_rows(*given)

    monkeypatch.setattr(dictionaries, "_of_all_rows", counted)
    monkeypatch.setattr(dictionaries, "_ROWS", 64)
    early = pa.array(["b", "a", None, "c"] * 1000)
    ds = written(tmp_path, early, row_group_size=1000)
    assert ds.unique("s") == ["b", "a", None, "c"] and not rows
    late = pa.array(["b", "a"] * 1000 + [None, "c"])
    for options in ({}, {"write_statistics": False}):
        ds = written(tmp_path, early, late, row_group_size=2002, **options)
        assert ds.unique("s") == ["b", "a", None, "c"]
    assert len(rows) == 1 + 3, "without statistics, nulls may be in any row"


def test_texts_that_no_row_has_are_not_found(tmp_path: Path, read: Seen) -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([2, 0] * 2000, pa.int32()), ["a", "b", "c"])
    written(tmp_path, array, store_schema=False)
    ds = data.read_parquet(str(tmp_path))
    assert ds.unique("s") == ["c", "a"]
    assert read[0] is not None


def test_texts_beside_a_dictionary_are_found(tmp_path: Path, read: Seen) -> None:
    rows = [f"text {row}" for row in range(300)]
    array = pa.array(["a"] * 4000 + rows)
    # Arrow's writer leaves the dictionary once that has more than 20 bytes.
    ds = written(tmp_path, array, dictionary_pagesize_limit=20, data_page_size=100, write_batch_size=100)
    assert ds.unique("s") == ["a", *rows]
    (tables,) = read
    assert tables is not None


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}])
def test_files_of_many_texts_are_read_as_texts(tmp_path: Path, read: Seen, options: Any) -> None:
    rows = [f"text {row}" for row in range(3000)]
    assert written(tmp_path, pa.array(rows), **options).unique("s") == rows
    assert read == [None]


def test_plans_that_need_more_than_texts(tmp_path: Path, read: Seen) -> None:
    ds = written(tmp_path, pa.array(["a", "b"] * 2000))
    for made in (
        aggregated(ds, Unique("v")),
        aggregated(ds, Unique("s"), Mean("v")),
        aggregated(ds.filter(expr=col("v") > 1), Unique("s")),
        aggregated(ds.limit(1).filter(expr=col("v") == 0), Unique("s")),
        ds.groupby("s").aggregate(Min("v")),
    ):
        assert is_staged(made)
        in_both_ways(made)
    assert not read
    assert aggregated(ds, Unique("s")).count() == 1


def test_columns_with_dots_are_read_as_rows(tmp_path: Path, read: Seen) -> None:
    pq.write_table(pa.table({"a.b": ["x", "y"] * 2000}), tmp_path / "0.parquet")
    assert data.read_parquet(str(tmp_path)).unique("a.b") == ["x", "y"]
    assert not read


def test_a_consumer_who_leaves_ends_the_reading(tmp_path: Path) -> None:
    written(tmp_path, pa.array(["a", "b"] * 2000))
    with pytest.raises(StageRefused, match="closed"):
        dictionaries.distinct_texts([str(tmp_path / "0.parquet")], pa.field("s", pa.string()), lambda: False)
