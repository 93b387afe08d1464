"""Random tables in blocks, and datasets of them that run in three ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from skate.data import DataContext, Dataset
from skate.data.execution.bundle import Bundle
from skate.data.plan.operators import FromBlocks

#: How a dataset runs: all at once in this process, in partitions in this process, in partitions in workers.
WAYS = ("at once", "partitions", "workers")
#: So small that a few dozen rows are several partitions.
PARTITION_BYTES = 700


@st.composite
def tables(draw: Any, name: str = "row") -> list[pa.Table]:
    """Blocks of one schema: keys with few and with skewed values, nulls, empty blocks, blocks of one row.

    Columns: k (int, few values), s (string, few values), f (float with NaN), v (int), and the number of the row.
    """
    sizes = draw(st.lists(st.sampled_from([0, 0, 1, 1, 2, 7, 30, 90]), min_size=1, max_size=7))
    nulls = draw(st.sampled_from([0.0, 0.0, 0.2, 0.9]))
    different = draw(st.sampled_from([1, 3, 25]))
    skewed = draw(st.booleans())
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = []
    start = 0
    for size in sizes:
        made.append(_block(random, size, start, nulls, different, skewed, name))
        start += size
    return made


def _block(
    random: np.random.Generator, size: int, start: int, nulls: float, different: int, skewed: bool, name: str
) -> pa.Table:
    keys = random.integers(0, different, size)
    if skewed:
        keys = np.where(random.random(size) < 0.9, 0, keys)

    def column(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=random.random(size) < nulls)

    floats = random.integers(-4, 5, size) / 2
    floats[random.random(size) < 0.1] = np.nan
    texts = np.array(["", "a", "ä", "long text of more than eight bytes", "b"])[random.integers(0, 5, size)]
    return pa.table(
        {
            "k": column(keys, pa.int64()),
            "s": column(texts, pa.string()),
            "f": column(floats, pa.float64()),
            "v": column(random.integers(-50, 50, size), pa.int64()),
            name: pa.array(np.arange(start, start + size)),
        }
    )


def dataset_of(blocks: list[pa.Table], way: str) -> Dataset:
    """A dataset of some blocks."""
    context = DataContext()
    context.enable_progress_bars = False
    if way != "at once":
        context.target_partition_size = PARTITION_BYTES
    context.run_small_work_in_driver = way != "workers"
    return Dataset(FromBlocks(bundles=tuple(Bundle.of(block) for block in blocks)), context)


def rows_of(blocks: list[pa.Table]) -> list[dict[str, Any]]:
    """All rows of some blocks."""
    return [row for block in blocks for row in block.to_pylist()]


def comparable(value: Any) -> Any:
    """A value that is equal to itself: NaN as a string; lists and rows as tuples."""
    if isinstance(value, float):
        return "NaN" if value != value else round(value, 9) + 0.0
    if isinstance(value, (list, tuple)):
        return tuple(comparable(each) for each in value)
    if isinstance(value, dict):
        return tuple((name, comparable(each)) for name, each in value.items())
    return value


def unordered(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows in a form that can be compared regardless of order."""
    return sorted(repr(comparable(row)) for row in rows)
