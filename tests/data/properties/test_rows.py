"""Functions of rows and batches, and everything that takes, leaves out or moves rows, against plain lists of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.properties.tables import alike, blocks, dataset_of, few, rows_of

Rows = list[dict[str, Any]]


def same(found: Any, wanted: Rows) -> None:
    assert alike(list(found)) == alike(wanted)


@few
@given(blocks())
def test_what_goes_in_comes_out(tables: list[pa.Table]) -> None:
    ds = dataset_of(tables)
    rows = rows_of(tables)
    same(ds.take_all(), rows)
    same(ds.iter_rows(), rows)
    assert ds.count() == len(rows)
    frame = ds.to_pandas()
    assert len(frame) == len(rows)
    assert list(frame.columns) == list(tables[0].column_names)


@few
@given(blocks())
def test_map(tables: list[pa.Table]) -> None:
    def changed(row: dict[str, Any]) -> dict[str, Any]:
        return {
            "n": None if row["i"] is None else row["i"] * 2,
            "l": row["l"],
            "s": row["s"],
            "t": row["t"],
            "r": row["r"],
        }

    same(dataset_of(tables).map(changed).take_all(), [changed(row) for row in rows_of(tables)])


@few
@given(blocks(), st.sampled_from([None, 1, 2, 5, 100]), st.sampled_from(["numpy", "pandas", "pyarrow"]))
def test_map_batches_of_every_size_and_format(tables: list[pa.Table], size: int | None, form: str) -> None:
    lengths: list[int] = []
    wanted = rows_of(tables)

    def whole(batch: Any) -> Any:
        lengths.append(batch.num_rows if form == "pyarrow" else len(batch["row"]))
        return batch

    lossless = ["row", "s", "k"] if form == "numpy" else ["row", "s", "k", "i", "f", "b", "l"]
    ds = dataset_of(tables).select_columns(lossless).map_batches(whole, batch_size=size, batch_format=form)
    found = ds.take_all()
    if form == "pyarrow":
        same(found, [{name: row[name] for name in lossless} for row in wanted])
    else:
        assert [row["row"] for row in found] == [row["row"] for row in wanted]
        assert [row["s"] for row in found] == [row["s"] for row in wanted]


def test_lengths_of_batches_go_over_blocks() -> None:
    tables = [pa.table({"x": list(range(n))}) for n in (0, 3, 1, 0, 4, 5)]
    lengths = []
    for batch in dataset_of(tables).iter_batches(batch_size=4):
        lengths.append(len(batch["x"]))
    assert lengths == [4, 4, 4, 1]


@few
@given(blocks())
def test_flat_map(tables: list[pa.Table]) -> None:
    def several(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for each in row["l"] or []:
            yield {"row": row["row"], "each": each, "s": row["s"]}

    same(
        dataset_of(tables).flat_map(several).take_all(), [x for row in rows_of(tables) for x in several(row)]
    )


@few
@given(blocks(), st.integers(-3, 70))
def test_filter_limit_and_take(tables: list[pa.Table], n: int) -> None:
    rows = rows_of(tables)
    kept = [row for row in rows if (row["i"] or 0) > 0]
    ds = dataset_of(tables)
    same(ds.filter(lambda row: (row["i"] or 0) > 0).take_all(), kept)
    first = rows[: max(0, n)]
    same(ds.limit(n).take_all(), first)
    same(
        ds.limit(n).filter(lambda row: (row["i"] or 0) > 0).take_all(),
        [r for r in first if (r["i"] or 0) > 0],
    )
    same(ds.filter(lambda row: (row["i"] or 0) > 0).limit(n).take_all(), kept[: max(0, n)])
    assert ds.limit(n).count() == len(first)
    same(ds.take(max(0, n)), first)


@few
@given(blocks(), blocks(), st.integers(0, 20))
def test_union_and_zip(left: list[pa.Table], right: list[pa.Table], n: int) -> None:
    one, two = rows_of(left), rows_of(right)
    ds, other = dataset_of(left), dataset_of(right)
    same(ds.union(other).take_all(), one + two)
    same(ds.union(other, ds).limit(n).take_all(), (one + two + one)[:n])
    if len(one) == len(two):
        found = ds.zip(other.select_columns(["row", "s"])).take_all()
        same(found, [{**a, "row_1": b["row"], "s_1": b["s"]} for a, b in zip(one, two, strict=True)])
    else:
        with pytest.raises(ValueError, match="rows"):
            ds.zip(other).take_all()


@few
@given(blocks(), st.integers(1, 9))
def test_repartition(tables: list[pa.Table], n: int) -> None:
    rows = rows_of(tables)
    ds = dataset_of(tables)
    even = ds.repartition(n).materialize()
    same(even.take_all(), rows)
    assert even.num_blocks() == n
    by_rows = ds.repartition(target_num_rows_per_block=n).materialize()
    same(by_rows.take_all(), rows)
    mixed = ds.repartition(n, shuffle=True).take_all()
    assert Counter(row["row"] for row in mixed) == Counter(row["row"] for row in rows)


@few
@given(blocks(), st.integers(0, 99))
def test_shuffles_keep_every_row(tables: list[pa.Table], seed: int) -> None:
    rows = rows_of(tables)
    for made in (
        dataset_of(tables).random_shuffle(seed=seed),
        dataset_of(tables).randomize_block_order(seed=seed),
    ):
        found = made.take_all()
        same(sorted(found, key=lambda row: row["row"]), rows)
        same(made.take_all(), found)


@few
@given(blocks(), st.integers(1, 5), st.booleans())
def test_split(tables: list[pa.Table], n: int, equal: bool) -> None:
    rows = rows_of(tables)
    parts = dataset_of(tables).split(n, equal=equal)
    lengths = [part.count() for part in parts]
    assert len(parts) == n
    found = [row for part in parts for row in part.take_all()]
    if equal:
        assert set(lengths) == {len(rows) // n}
        same(found, rows[: len(found)])
    else:
        same(found, rows)


@few
@given(blocks(), st.lists(st.integers(0, 40), min_size=1, max_size=4).map(sorted))
def test_split_at_indices(tables: list[pa.Table], at: list[int]) -> None:
    rows = rows_of(tables)
    parts = dataset_of(tables).split_at_indices(at)
    bounds = [0, *at, len(rows)]
    wanted = [rows[low:high] for low, high in zip(bounds, bounds[1:], strict=False)]
    for part, those in zip(parts, wanted, strict=True):
        same(part.take_all(), those)


@few
@given(blocks(), st.sampled_from([[0.5], [0.2, 0.3], [0.1, 0.1, 0.1], [0.9]]))
def test_split_proportionately(tables: list[pa.Table], shares: list[float]) -> None:
    rows = rows_of(tables)
    if len(rows) <= len(shares):
        return
    parts = dataset_of(tables).split_proportionately(shares)
    assert len(parts) == len(shares) + 1
    same([row for part in parts for row in part.take_all()], rows)


@few
@given(blocks(), st.sampled_from([0.25, 0.5, 2, 1]), st.booleans())
def test_train_test_split(tables: list[pa.Table], size: Any, shuffle: bool) -> None:
    rows = rows_of(tables)
    if len(rows) <= 4:
        return
    train, test = dataset_of(tables).train_test_split(size, shuffle=shuffle, seed=3)
    numbers = [row["row"] for row in train.take_all() + test.take_all()]
    assert sorted(numbers) == [row["row"] for row in rows]
    wanted = size if isinstance(size, int) else len(rows) - int(len(rows) * (1 - size))
    assert test.count() == wanted
    if not shuffle:
        assert numbers == sorted(numbers)


@few
@given(blocks(), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 9))
def test_random_sample_is_a_part_in_order(tables: list[pa.Table], share: float, seed: int) -> None:
    rows = rows_of(tables)
    found = dataset_of(tables).random_sample(share, seed=seed).take_all()
    numbers = [row["row"] for row in found]
    assert numbers == sorted(set(numbers))
    same(found, [row for row in rows if row["row"] in set(numbers)])
    if share in (0.0, 1.0):
        assert len(found) == len(rows) * share


def test_random_sample_takes_about_its_share() -> None:
    table = pa.table({"x": list(range(4000))})
    for share in (0.1, 0.5):
        count = dataset_of([table]).random_sample(share, seed=1).count()
        assert abs(count - 4000 * share) < 6 * (4000 * share * (1 - share)) ** 0.5


@few
@given(blocks(), st.sampled_from(["k", "s", "b", "i", "t", "f"]), st.booleans())
def test_unique(tables: list[pa.Table], column: str, ignore: bool) -> None:
    wanted: list[Any] = []
    for row in rows_of(tables):
        value = alike(row[column])
        if value not in wanted and not (ignore and value is None):
            wanted.append(value)
    assert alike(dataset_of(tables).unique(column, ignore_nulls=ignore)) == wanted


@few
@given(
    blocks(),
    st.sampled_from([1, 3, 50]),
    st.booleans(),
    st.sampled_from(["numpy", "pandas", "pyarrow", None]),
)
def test_iter_batches(tables: list[pa.Table], size: int, drop: bool, form: str | None) -> None:
    rows = rows_of(tables)
    ds = dataset_of(tables)
    batches = list(ds.iter_batches(batch_size=size, drop_last=drop, batch_format=form))
    lengths = [batch.num_rows if isinstance(batch, pa.Table) else len(batch["row"]) for batch in batches]
    full, rest = divmod(len(rows), size)
    assert lengths == [size] * full + ([rest] if rest and not drop else [])
    numbers = [int(x) if not hasattr(x, "as_py") else x.as_py() for batch in batches for x in batch["row"]]
    assert numbers == [row["row"] for row in rows][: sum(lengths)]
    mixed = [
        int(x)
        for batch in ds.iter_batches(
            batch_size=size, local_shuffle_buffer_size=2 * size, local_shuffle_seed=1
        )
        for x in batch["row"]
    ]
    assert sorted(mixed) == [row["row"] for row in rows]


@few
@given(blocks(), st.sampled_from(["k", "s", "b"]))
def test_map_groups(tables: list[pa.Table], key: str) -> None:
    def sized(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({key: frame[key].iloc[:1], "n": [len(frame)], "first": [frame["row"].min()]})

    found = dataset_of(tables).groupby(key).map_groups(sized, batch_format="pandas").take_all()
    wanted: dict[Any, list[int]] = {}
    for row in rows_of(tables):
        wanted.setdefault(row[key], []).append(row["row"])
    assert {row[key]: (row["n"], row["first"]) for row in found} == {
        value: (len(numbers), min(numbers)) for value, numbers in wanted.items()
    }
