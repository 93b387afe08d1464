"""Rows of random integers, for testing a pipeline."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.source.datasource import BlockMetadata, Datasource, ReadTask


class RandomIntRowDatasource(Datasource):
    """Random 64-bit integers: `n` rows with the columns c_0, c_1 and so on. Each read gives different ones."""

    def __init__(self, n: int, num_columns: int) -> None:
        self._n = n
        self._num_columns = num_columns

    def get_name(self) -> str:
        return "RandomInt"

    def estimate_inmemory_data_size(self) -> int:
        return 8 * self._n * self._num_columns

    def known_rows(self) -> int:
        return self._n

    def known_schema(self) -> pa.Schema:
        return pa.schema([(f"c_{at}", pa.int64()) for at in range(self._num_columns)])

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        count = max(1, min(parallelism, self._n))
        ends = [self._n * at // count for at in range(count + 1)]
        return [
            ReadTask(
                functools.partial(_numbers, high - low, self._num_columns),
                BlockMetadata(high - low, 8 * (high - low) * self._num_columns),
                self.known_schema(),
                per_task_row_limit,
            )
            for low, high in zip(ends, ends[1:], strict=False)
        ]


def _numbers(rows: int, columns: int) -> list[pa.Table]:
    made = np.random.default_rng().integers(np.iinfo(np.int64).max, size=(columns, rows), dtype=np.int64)
    return [pa.table({f"c_{at}": made[at] for at in range(columns)})]
