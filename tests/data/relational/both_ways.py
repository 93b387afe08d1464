"""A dataset run by Polars and in the ordinary way, and the comparison of the two results."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from skate.data import Dataset
from skate.data.plan.operators import Relational
from skate.data.plan.rules import optimized
from skate.data.relational.stage_operator import RelationalRunning
from skate.data.relational.stages import with_stages


def is_staged(ds: Dataset) -> bool:
    """True if Polars runs a part of the plan."""
    plan = with_stages(optimized(ds._plan), ds.context)
    return any(isinstance(each, Relational) for each in plan.walk())


def in_both_ways(ds: Dataset) -> tuple[pa.Table, pa.Table]:
    """Return the result of Polars, and that of the ordinary way."""
    ordinary = Dataset(ds._plan, ds.context.copy())
    ordinary.context.use_relational_engine = False
    assert not is_staged(ordinary)
    staged = is_staged(ds)
    found = whole(ds)
    if staged:  # it was not refused at the start
        assert any(isinstance(each, RelationalRunning) for each in ds._last_run.topology.operators)
    return found, whole(ordinary)


def whole(ds: Dataset) -> pa.Table:
    """Return all rows as one table."""
    return pa.concat_tables(list(ds._tables()))


def check(ds: Dataset, ordered: bool = True, exact: bool = True) -> pa.Table:
    """Assert that both ways give the same types and rows, in the same order if one is promised."""
    found, wanted = in_both_ways(ds)
    assert found.schema.equals(wanted.schema), f"{found.schema}\n{wanted.schema}"
    rows = [[_plain(value, exact) for value in row.values()] for row in found.to_pylist()]
    expected = [[_plain(value, exact) for value in row.values()] for row in wanted.to_pylist()]
    if not ordered:
        rows, expected = sorted(rows, key=repr), sorted(expected, key=repr)
    assert rows == expected
    return found


def _plain(value: Any, exact: bool) -> Any:
    """Return a value that equals those that are alike: NaN is one value, and -0.0 is not 0.0."""
    if isinstance(value, list):
        return [_plain(each, exact) for each in value]
    if not isinstance(value, float):
        return value
    if exact or not math.isfinite(value):
        return repr(value)
    return float(f"{value:.9g}") + 0.0
