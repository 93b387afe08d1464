"""`Dataset.to_random_access_dataset`."""

from __future__ import annotations

from typing import Any

import pytest

import skate
import skate.data


@pytest.mark.parametrize("workers", [1, 3, None])
def test_rows_are_found_by_their_key(workers: int | None) -> None:
    ds = skate.data.from_items(
        [{"key": number * 7 % 100, "square": number * number} for number in range(100)], override_num_blocks=5
    )
    found = ds.to_random_access_dataset("key", num_workers=workers)
    wanted = {number * 7 % 100: number * number for number in range(100)}
    assert skate.get(found.get_async(14)) == {"key": 14, "square": 4}
    for absent in (-1, 3.5, 1000):
        assert skate.get(found.get_async(absent)) is None
    rows = found.multiget([99, -5, 0, 50, 99])
    assert rows == [
        {"key": 99, "square": wanted[99]},
        None,
        {"key": 0, "square": 0},
        {"key": 50, "square": wanted[50]},
        {"key": 99, "square": wanted[99]},
    ]
    # 14, -1 and 3.5 are looked up one by one, five keys together, and 1000 is behind all blocks
    assert "Accesses per worker" in found.stats()
    assert workers != 1 or "Accesses per worker: 4 min, 4 max, 4 mean" in found.stats()


@pytest.mark.parametrize("values", [[], [None], [None, "b", "a", None, "a"]])
def test_nulls_and_equal_keys(values: list[Any]) -> None:
    ds = skate.data.from_items([{"key": value, "n": at} for at, value in enumerate(values)])
    if not values:
        ds = skate.data.from_items([{"key": "x"}]).limit(0)
    found = ds.to_random_access_dataset("key", num_workers=2)
    row = skate.get(found.get_async("a"))
    assert row is None if "a" not in values else row["key"] == "a"
    assert found.multiget(["zz"]) == [None]


def test_an_unknown_key() -> None:
    with pytest.raises(KeyError, match="'kez'"):
        skate.data.from_items([{"key": 1}]).to_random_access_dataset("kez")
