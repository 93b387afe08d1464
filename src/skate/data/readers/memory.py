"""Datasets from values in the program: numbers, Python values, tables, arrays, other libraries' datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate.data.compute import Compute
from skate.data.dataset import Dataset
from skate.data.plan.operators import Read
from skate.data.readers.read_options import checked_blocks
from skate.data.source.ranges import ItemsDatasource, RangeDatasource


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
) -> Dataset:
    """Create a dataset of Python values: dicts are rows, anything else becomes {"item": value}."""
    blocks = parallelism if override_num_blocks is None else override_num_blocks
    return Dataset(Read(datasource=ItemsDatasource(items), parallelism=checked_blocks(blocks)))
