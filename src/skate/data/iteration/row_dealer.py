"""Assignment of rows to one of two parts."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data import block as blocks
from skate.data.block import columns
from skate.data.steps import place
from skate.data.steps.columns import known

_TURNS = 1 << 64


class DealStep:
    """A step that keeps the rows of one part; the same seed gives two parts that are disjoint and complete."""

    by_place = True

    def __init__(self, part: str, test_size: float, column: str | None, seed: int) -> None:
        self.part = part
        self.test_size = test_size
        self.column = column
        self.seed = seed

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        draw = np.random.default_rng([place.here().number, self.seed])
        for table in given:
            if self.column is None:
                points = draw.random(table.num_rows)
            else:
                points = _points(table.column(known(table, self.column)))
            test = points >= 1 - self.test_size
            yield table.filter(pa.array(test if self.part == "test" else ~test))


def _points(column: pa.ChunkedArray) -> np.ndarray:
    """Return a number in [0, 1) for each value, the same in every process, by the hash that Ray uses."""
    hashed = (
        hashlib.blake2b(str(value).encode(), digest_size=8).digest() for value in columns.to_numpy(column)
    )
    return np.array([int.from_bytes(each, "big") / _TURNS for each in hashed])


def fresh_seed() -> int:
    """Return a random seed."""
    return random.SystemRandom().randrange(1 << 31)


def stratified_rows(tables: Sequence[pa.Table], test_size: float, column: str) -> tuple[pa.Table, pa.Table]:
    """Split rows for training and testing so that a column's values have the same distribution in both,
    keeping their order.

    The number of test rows per value is rounded down, as in Ray.
    """
    whole = blocks.concat(tables)
    values: list[Any] = columns.to_values(whole.column(known(whole, column)))
    of_value: dict[Any, list[int]] = {}
    for at, value in enumerate(values):
        of_value.setdefault(value, []).append(at)
    test = np.zeros(whole.num_rows, bool)
    for rows in of_value.values():
        test[rows[len(rows) - int(len(rows) * test_size) :]] = True
    return whole.filter(pa.array(~test)), whole.filter(pa.array(test))
