"""Datasets from values in the program: numbers, Python values, tables, arrays, other libraries' datasets."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from skate.data.block import from_rows
from skate.data.compute import Compute
from skate.data.context import DataContext
from skate.data.dataset import Dataset, MaterializedDataset
from skate.data.execution.bundle import Bundle
from skate.data.execution.physical import blocks_for
from skate.data.plan.operators import FromBlocks, Read
from skate.data.readers.read_options import checked_blocks
from skate.data.source.ranges import RangeDatasource

#: The assumed size of a value.
_ITEM_BYTES = 64


def range(
    n: int,
    *,
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """Create a dataset of the integers from 0 to `n - 1` in a column "id"."""
    blocks = parallelism if override_num_blocks is None else override_num_blocks
    return Dataset(
        Read(
            datasource=RangeDatasource(n),
            parallelism=checked_blocks(blocks),
            compute=Compute(tasks=concurrency),
        )
    )


def from_items(
    items: Sequence[Any], *, parallelism: int = -1, override_num_blocks: int | None = None
) -> MaterializedDataset:
    """Create a dataset of Python values: mappings are rows, anything else becomes {"item": value}."""
    blocks = checked_blocks(parallelism if override_num_blocks is None else override_num_blocks)
    rows = [item if isinstance(item, Mapping) else {"item": item} for item in items]
    if blocks < 1:
        blocks = blocks_for(len(rows) * _ITEM_BYTES, DataContext.get_current())
    blocks = min(blocks, len(rows))
    each, more = divmod(len(rows), blocks) if blocks else (0, 0)
    starts = [each * at + min(at, more) for at in builtins.range(blocks + 1)]
    tables = [from_rows(rows[low:high]) for low, high in pairwise(starts)]
    return MaterializedDataset(FromBlocks((), tuple(map(Bundle.of, tables)), "FromItems"))
