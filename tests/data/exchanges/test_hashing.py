"""Which partition a key belongs to."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skate.data.exchange.hash_partition import hash_rows, partition_of


def hashes(values: Any, kind: Any = None) -> list[int]:
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    found: list[int] = hash_rows([pa.chunked_array([array])]).tolist()
    return found


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64()])
def test_a_number_has_one_hash_whatever_its_type(kind: pa.DataType) -> None:
    assert hashes([0, 1, 100, None], kind) == hashes([0, 1, 100, None], pa.int64())


def test_decimals_hash_as_the_numbers_they_are() -> None:
    assert hashes([decimal.Decimal("7.00"), decimal.Decimal("-2.50")]) == hashes([7.0, -2.5])


def test_zero_has_one_hash_and_so_has_nan() -> None:
    zero, minus, nan, other = hashes([0.0, -0.0, float("nan"), -float("nan")])
    assert zero == minus
    assert nan == other
    assert len({zero, nan, *hashes([float("inf"), -float("inf"), 1e300, 2.0**63, -(2.0**63)])}) == 7


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int8(), pa.string())]
)
def test_a_string_has_one_hash_whatever_its_layout(kind: pa.DataType) -> None:
    texts = ["", "a", "eight ch", "nine char", "ä" * 50, None, "a"]
    plain = pa.array(texts)
    other = plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain.cast(kind)
    assert hashes(other) == hashes(plain)


def test_times_of_one_moment_have_one_hash() -> None:
    day = dt.date(2031, 5, 7)
    moment = dt.datetime(2031, 5, 7)
    wanted = hashes([day, None])
    for array in (
        pa.array([day, None], pa.date64()),
        *(pa.array([moment, None], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    ):
        assert hashes(array) == wanted


@settings(deadline=None)  # the first case loads what the others have
@given(
    st.lists(st.one_of(st.none(), st.text(max_size=40)), max_size=30), st.integers(0, 5), st.integers(0, 5)
)
def test_a_slice_hashes_as_what_it_is_a_slice_of(texts: list[str | None], low: int, less: int) -> None:
    array = pa.array(texts, pa.string())
    high = max(low, len(texts) - less)
    assert hashes(array.slice(low, high - low)) == hashes(array)[low:high]


@given(st.lists(st.text(max_size=20), unique=True, max_size=50))
def test_different_strings_have_different_hashes(texts: list[str]) -> None:
    assert len(set(hashes(texts, pa.string()))) == len(texts)


def test_keys_are_spread_evenly() -> None:
    numbers = np.arange(200_000)
    for column in (numbers, numbers * 1024, numbers / 8, [f"user-{number}" for number in range(200_000)]):
        counts = np.bincount(partition_of(pa.table({"k": column}), ["k"], 37))
        assert counts.max() < 1.1 * counts.min()


def test_two_columns_are_not_one() -> None:
    table = pa.table({"a": ["x", "y"], "b": ["y", "x"]})
    first, second = hash_rows([table.column("a"), table.column("b")])
    assert first != second


def test_every_process_finds_the_same() -> None:
    program = (
        "import pyarrow as pa; from skate.data.exchange.hash_partition import hash_rows;"
        "texts = pa.chunked_array([['a', None, 'long enough for two']]);"
        "print(hash_rows([texts, pa.chunked_array([[1.5, 2.0, None]])]).tolist())"
    )
    output = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(output) == 1
