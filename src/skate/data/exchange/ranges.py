"""The same rows in the same order, cut into another number of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from skate.data.exchange.kernel import Kernel
from skate.data.exchange.parts import joined
from skate.data.exchange.sort import Order


class RangesKernel(Kernel):
    """A given number of blocks of equal length; if the rows do not divide evenly, some have one more."""

    keeps_columns = keeps_count = keeps_frames = True
    name = "Repartition"
    cuts = True

    def __init__(self, sort: bool = False) -> None:
        self.sort = sort  # each block by all its columns

    def prepare(
        self, samples: Sequence[object], partitions: int, rows: Sequence[Sequence[int]]
    ) -> tuple[int, int]:
        """Return the number of rows and of partitions."""
        return sum(rows[0]), partitions

    def reach(self, partition: int, plan: tuple[int, int]) -> tuple[int, int]:
        """Return the range of rows of a partition, as (start, end)."""
        total, partitions = plan
        if total < partitions:  # the last ones are empty
            return min(partition, total), min(partition + 1, total)
        return partition * total // partitions, (partition + 1) * total // partitions

    def merge(self, parts: Sequence[Sequence[pa.Table]], partition: int, plan: object) -> Iterator[pa.Table]:
        """Merge the pieces of the partition into one block."""
        table = joined(parts[0])
        if self.sort and table.num_rows:
            names = tuple(table.column_names)
            table = table.take(Order(names, (False,) * len(names)).indices(table))
        yield table
