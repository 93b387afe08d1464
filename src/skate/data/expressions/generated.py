"""Generated columns: row numbers, random numbers, identifiers."""

from __future__ import annotations

import uuid as uuids
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.datatype import DataType
from skate.data.expressions.tree import Expr
from skate.data.steps.place import Place

#: The bits that number the rows of one piece of work.
_ROW_BITS = 33


class Generated(Expr):
    """A column that depends on no other."""

    def is_idempotent(self) -> bool:
        return False

    def structurally_equals(self, other: Any) -> bool:
        return self is other

    def nullable(self, input_schema: pa.Schema) -> bool:
        return False


class RandomExpr(Generated):
    """Random numbers between 0 (inclusive) and 1 (exclusive)."""

    kind_of_expression = "Random"

    data_type = DataType(pa.float64())

    def __init__(self, seed: int | None = None, reseed_after_execution: bool = True) -> None:
        self.seed = seed
        self.reseed_after_execution = reseed_after_execution

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        at = place or Place()
        source = np.random.default_rng(None if self.seed is None else [at.rows, at.number, 0, self.seed])
        return pa.array(source.random(table.num_rows))

    def __repr__(self) -> str:
        return "random()" if self.seed is None else f"random(seed={self.seed})"


class UUIDExpr(Generated):
    """A random identifier for each row."""

    kind_of_expression = "UUID"

    data_type = DataType(pa.string())

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        return pa.array([str(uuids.uuid4()) for _ in range(table.num_rows)], pa.string())

    def __repr__(self) -> str:
        return "uuid()"


class MonotonicallyIncreasingIdExpr(Generated):
    """Increasing row numbers, possibly with gaps."""

    kind_of_expression = "Monotonically Increasing ID"

    data_type = DataType(pa.int64())

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        at = place or Place()
        first = (at.number << _ROW_BITS) + at.rows
        return pa.array(np.arange(first, first + table.num_rows, dtype=np.int64))

    def __repr__(self) -> str:
        return "monotonically_increasing_id()"


def random(*, seed: int | None = None, reseed_after_execution: bool = True) -> RandomExpr:
    """Generate random numbers between 0 and 1; with a `seed` they are the same in each run."""
    if seed is not None and (not isinstance(seed, int) or seed < 0):
        raise ValueError(f"seed of random() must be an integer >= 0, got {seed!r}")
    return RandomExpr(seed, reseed_after_execution)


def uuid() -> UUIDExpr:
    """Generate a random identifier (UUID, version 4) for each row, as text."""
    return UUIDExpr()


def monotonically_increasing_id() -> MonotonicallyIncreasingIdExpr:
    """Generate a 64-bit number for each row: unique and increasing, with gaps between blocks."""
    return MonotonicallyIncreasingIdExpr()
