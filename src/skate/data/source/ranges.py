"""Ranges of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import from_batch
from skate.data.source.datasource import BlockMetadata, Datasource, ReadTask


class RangeDatasource(Datasource):
    """The integers below `n`, in a named column or as arrays of a shape."""

    def __init__(self, n: int, column: str = "id", shape: tuple[int, ...] | None = None) -> None:
        self.n = max(0, n)
        self.column = column
        self.shape = shape

    def get_name(self) -> str:
        return "Range"

    def estimate_inmemory_data_size(self) -> int:
        return 8 * self.n * int(np.prod(self.shape or (1,)))

    def known_rows(self) -> int:
        return self.n

    def known_schema(self) -> pa.Schema:
        return next(_Numbers(0, 0, self.column, self.shape)()).schema

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        tasks = []
        count = max(1, min(parallelism, self.n))
        width = 8 * int(np.prod(self.shape or (1,)))
        for index in range(count):
            low, high = self.n * index // count, self.n * (index + 1) // count
            made = _Numbers(low, high, self.column, self.shape)
            tasks.append(
                ReadTask(made, BlockMetadata(high - low, (high - low) * width), None, per_task_row_limit)
            )
        return tasks


class _Numbers:
    def __init__(self, low: int, high: int, column: str, shape: tuple[int, ...] | None) -> None:
        self.given = (low, high, column, shape)

    def __call__(self) -> Iterator[pa.Table]:
        low, high, column, shape = self.given
        numbers = np.arange(low, high)
        if shape is not None:
            numbers = np.broadcast_to(numbers.reshape(-1, *(1 for _ in shape)), (high - low, *shape)).copy()
        yield from_batch({column: numbers})
