"""Random tables in blocks with every kind of column, as rows and as datasets."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from skate.data import DataContext, Dataset
from skate.data.execution.bundle import Bundle
from skate.data.plan.operators import FromBlocks

#: Few examples for each operation, so that all of them together are quick.
few = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

TEXTS = ["", "a", "b", "Äpfel", "a b", " x ", "longer than twelve bytes", "a%b", "1", "日本"]
_DAY = dt.datetime(2024, 2, 29, 23, 59, 59, 999999)
SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "i": pa.int64(),
        "f": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "t": pa.timestamp("us"),
        "l": pa.list_(pa.int64()),
        "r": pa.struct({"x": pa.int64(), "y": pa.string()}),
        "row": pa.int64(),
    }
)


def _maybe(values: Any) -> Any:
    return st.one_of(st.none(), values)


_ROW = {
    "k": st.sampled_from([0, 0, 0, 0, 1, 2, None]),
    "i": _maybe(st.integers(-60, 60)),
    "f": _maybe(st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, float("inf"), float("nan"), 7.0])),
    "s": _maybe(st.sampled_from(TEXTS)),
    "b": _maybe(st.booleans()),
    "t": _maybe(
        st.sampled_from(
            [_DAY, dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 12), dt.datetime(2100, 5, 4)]
        )
    ),
    "l": _maybe(st.lists(_maybe(st.integers(-5, 5)), max_size=4)),
    "r": _maybe(st.fixed_dictionaries({"x": _maybe(st.integers(0, 3)), "y": _maybe(st.sampled_from(TEXTS))})),
}


@st.composite
def blocks(draw: Any) -> list[pa.Table]:
    """Blocks of one schema: empty ones, some of one row, nulls, NaN, a skewed key; the last column numbers the rows."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 1, 3, 12]), min_size=1, max_size=5))
    found, start = [], 0
    for size in sizes:
        rows = [{**draw(st.fixed_dictionaries(_ROW)), "row": start + at} for at in range(size)]
        found.append(pa.Table.from_pylist(rows, schema=SCHEMA))
        start += size
    return found


def dataset_of(given: list[pa.Table]) -> Dataset:
    """A dataset of some blocks, which runs in this process."""
    context = DataContext()
    context.enable_progress_bars = False
    return Dataset(FromBlocks(bundles=tuple(Bundle.of(block) for block in given)), context)


def rows_of(given: list[pa.Table]) -> list[dict[str, Any]]:
    """All rows of some blocks."""
    return [row for block in given for row in block.to_pylist()]


def alike(value: Any) -> Any:
    """A value that is equal to itself: NaN as a string, arrays as lists, numbers by value and kind."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return "NaN" if value != value else float(f"{value:.9e}")
    if isinstance(value, (list, tuple)):
        return [alike(each) for each in value]
    if isinstance(value, dict):
        return {name: alike(each) for name, each in value.items()}
    return value
