"""Values into blocks and back, in all formats of batches; blocks of unlike types end to end."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skate.data import block as blocks
from skate.data.block import columns, table

UTC = dt.timezone.utc
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "whole numbers": st.integers(-(2**63), 2**63 - 1),
    "large numbers": st.integers(-(2**80), 2**80),
    "doubles": st.floats(allow_nan=False),
    "truth": st.booleans(),
    "text": st.text(max_size=5),
    "bytes": st.binary(max_size=5),
    "dates": st.dates(dt.date(1, 1, 2)),
    "times": st.datetimes(dt.datetime(1678, 1, 1), dt.datetime(2261, 1, 1)),
    "times with zone": st.datetimes(dt.datetime(1678, 1, 1), dt.datetime(2261, 1, 1), timezones=st.just(UTC)),
    "times of day": st.times(),
    "durations": st.timedeltas(dt.timedelta(-9999), dt.timedelta(9999)),
    "decimals": st.decimals(-1000, 1000, places=2),
    "lists": st.lists(st.integers(0, 9), max_size=3),
    "lists of text": st.lists(st.text(max_size=2), max_size=3),
    "structs": st.fixed_dictionaries({"p": st.integers(0, 9), "q": st.text(max_size=2)}),
    "sets": st.frozensets(st.integers(0, 9), max_size=3).map(set),
    "mixed": st.one_of(st.integers(0, 9), st.text(max_size=2), st.booleans()),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_values_come_back_from_a_block(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.one_of(st.none(), KINDS[kind]), min_size=1, max_size=8))
    made = blocks.from_rows([{"x": value} for value in values])
    found = [row["x"] for row in blocks.rows_of(made)]
    assert found == values
    if kind == "mixed":  # True and 1 are equal, but not the same
        both = zip(found, values, strict=True)
        assert all(type(a) is type(b) for a, b in both) or made.schema.field("x").type in (
            pa.int64(),
            pa.bool_(),
        )
    cut = data.draw(st.integers(0, len(values)))
    pieces = blocks.concat([made.slice(0, cut), made.slice(cut)])
    assert [row["x"] for row in blocks.rows_of(pieces)] == values
    sent = pickle.loads(pickle.dumps(blocks.compact(made.slice(cut))))
    assert [row["x"] for row in blocks.rows_of(sent)] == values[cut:]


@pytest.mark.parametrize("batch_format", ["pandas", "pyarrow"])
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"times of day", "durations"}))
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_batches_come_back_as_blocks(kind: str, batch_format: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.one_of(st.none(), KINDS[kind]), min_size=1, max_size=8))
    made = blocks.from_rows([{"x": value} for value in values])
    again = blocks.from_batch(blocks.to_batch(made, batch_format))
    assert [row["x"] for row in blocks.rows_of(again)] == values


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"times with zone", "lists", "mixed", "times of day"}))
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_dense_batches_of_numpy_come_back(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(KINDS[kind], min_size=1, max_size=8))
    made = blocks.from_rows([{"x": value} for value in values])
    again = blocks.from_batch(blocks.to_batch(made, "numpy"))
    assert [row["x"] for row in blocks.rows_of(again)] == values


@settings(max_examples=40, deadline=None)
@given(
    shapes=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=5),
    dtype=st.sampled_from(["int8", "uint16", "float16", "float64", "bool", "<U3", "M8[s]"]),
    nulls=st.booleans(),
)
def test_arrays_of_any_shapes(shapes: list[list[int]], dtype: str, nulls: bool) -> None:
    arrays: list[Any] = [np.arange(math.prod(shape)).reshape(shape).astype(dtype) for shape in shapes]
    if nulls:
        arrays.append(None)
    made = blocks.from_rows([{"x": each} for each in arrays])
    for form in ("numpy", "pandas", "pyarrow"):
        again = blocks.from_batch(blocks.to_batch(made, form))
        for found, wanted in zip((row["x"] for row in blocks.rows_of(again)), arrays, strict=True):
            if wanted is None:
                assert found is None
                continue
            assert (found.shape, found.dtype.kind) == (wanted.shape, wanted.dtype.kind)
            assert np.array_equal(found, wanted)


def test_numbers_are_read_in_place() -> None:
    made = blocks.from_batch({"i": np.arange(1000), "t": np.zeros((1000, 4), np.float32)})
    batch = blocks.to_batch(made, "numpy")
    for name in ("i", "t"):
        assert not batch[name].flags.writeable
        assert not batch[name].flags.owndata
    start = made.column("i").chunk(0).buffers()[1].address
    assert batch["i"].__array_interface__["data"][0] == start


def test_nulls_in_categories_of_several_chunks() -> None:
    first = pa.DictionaryArray.from_arrays([0, 1, None], ["a", "b"])
    second = pa.DictionaryArray.from_arrays([0, None], ["c"])
    found = columns.to_numpy(pa.chunked_array([first, second]))
    assert found.tolist() == ["a", "b", None, "c", None]


def test_torch_tensors_are_columns() -> None:
    torch = pytest.importorskip("torch")
    made = blocks.from_rows(
        [
            {"x": torch.ones(2, dtype=kind, requires_grad=True), "y": torch.tensor(1.5)}
            for kind in (torch.float32, torch.bfloat16)
        ]
    )
    batch = blocks.to_batch(made, "numpy")
    assert (batch["x"].dtype, batch["x"].tolist()) == (np.float32, [[1, 1], [1, 1]])
    assert (batch["y"].dtype, batch["y"].tolist()) == (np.float32, [1.5, 1.5])


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        (pd.Series(pd.Categorical(["a", None, "b"])), ["a", None, "b"]),
        (pd.Series([1, None], dtype="Int64"), [1, None]),
        (pd.Series([True, None], dtype="boolean"), [True, None]),
        (pd.Series(["a", None], dtype="string"), ["a", None]),
        (pd.Series([1.0, float("nan")]), [1.0, None]),
        (pd.Series(["a", float("nan")], dtype=object), ["a", None]),
        (pd.Series(pd.to_datetime(["2024-01-01", None])), [dt.datetime(2024, 1, 1), None]),
        (pd.Series([1j, 2j]), [1j, 2j]),
        (pd.Series(pd.arrays.SparseArray([0, 1])), [0, 1]),
        (pd.Series(pd.period_range("2024", periods=1, freq="M")), [pd.Period("2024-01", "M")]),
        (pd.Series(pd.interval_range(0, 1)), [pd.Interval(0, 1)]),
        (pd.Series([decimal.Decimal("1.5"), None]), [decimal.Decimal("1.5"), None]),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_columns_of_pandas(series: Any, expected: list[Any]) -> None:
    made = blocks.from_batch(pd.DataFrame({"x": series}))
    assert [row["x"] for row in blocks.rows_of(made)] == expected


def test_frames_take_arrays_as_columns_and_lose_nothing() -> None:
    table = pa.table({"n": pa.array([2**53 + 1, None]), "b": [True, None]})
    frame = blocks.to_batch(table, "pandas", for_function=True)
    frame["t"] = np.arange(6).reshape(2, 3)
    frame = frame.assign(u=np.ones((2, 2, 2), np.float32)).copy()
    made = blocks.from_batch(frame)
    assert [row["n"] for row in blocks.rows_of(made)] == [2**53 + 1, None]
    assert made.schema.field("b").type == pa.bool_()
    assert blocks.to_batch(made, "numpy")["t"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert blocks.to_batch(made, "numpy")["u"].shape == (2, 2, 2)
    with pytest.raises(ValueError, match="names must be strings"):
        blocks.from_batch(pd.DataFrame({0: [1]}))
    with pytest.raises(ValueError, match="more than one column 'a'"):
        blocks.from_batch(pd.DataFrame([[1, 2]], columns=["a", "a"]))


UNLIKE = {
    "whole and double": ([1], [2.5], [1.0, 2.5]),
    "null and text": ([None], ["a"], [None, "a"]),
    "null and array": ([None], [np.array([1, 2])], [None, [1, 2]]),
    "arrays of two shapes": ([np.array([1, 2])], [np.array([3])], [[1, 2], [3]]),
    "arrays of two types": ([np.array([1, 2])], [np.array([0.5, 1.5])], [[1, 2], [0.5, 1.5]]),
    "objects and numbers": ([{1}], [2], [{1}, 2]),
    "structs with other fields": ([{"p": 1}], [{"q": 2}], [{"p": 1, "q": None}, {"p": None, "q": 2}]),
    "dates and times": ([dt.date(2024, 1, 1)], [dt.datetime(2024, 1, 2)], None),
    "small and large": ([1], [2**63], [1, 2**63]),
}


@pytest.mark.parametrize("case", UNLIKE)
def test_blocks_of_unlike_types_end_to_end(case: str) -> None:
    first, second, expected = UNLIKE[case]
    parts = [blocks.from_rows([{"x": value} for value in values]) for values in (first, second)]
    try:
        whole = table.concat(parts)
    except ValueError as error:
        assert expected is None
        assert "column 'x'" in str(error)
        return
    found = [row["x"] for row in blocks.rows_of(whole)]
    found = [value.tolist() if isinstance(value, np.ndarray) else value for value in found]
    assert found == expected or expected is None


def test_columns_that_some_blocks_have_not() -> None:
    whole = table.concat(
        [pa.table({"a": [1]}), pa.table({"b": ["x"]}), pa.table({"a": pa.array([], pa.int64())})]
    )
    assert whole.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": "x"}]


def test_an_empty_block_keeps_its_columns() -> None:
    empty = pa.table(
        {"a": pa.array([], pa.int32()), "t": blocks.from_batch({"t": np.zeros((1, 2))})["t"].slice(0, 0)}
    )
    for form in ("numpy", "pandas", "pyarrow"):
        batch = blocks.to_batch(empty, form)
        assert list(batch.column_names if form == "pyarrow" else batch) == ["a", "t"]
    assert blocks.to_batch(empty, "numpy")["t"].shape == (0, 2)
