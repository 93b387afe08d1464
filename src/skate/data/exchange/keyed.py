"""Rows with equal keys in one partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from skate.data.block import concat
from skate.data.context import available_cpus
from skate.data.exchange.groups import starts_of
from skate.data.exchange.hash_partition import partition_of
from skate.data.exchange.kernel import Kernel
from skate.data.exchange.keys import key_columns
from skate.data.exchange.parts import BLOCK_BYTES, deal, joined, solid
from skate.data.exchange.sort import Order, check_keys
from skate.data.steps.batches import BatchStep

#: The number of blocks of groups per CPU.
_PIECES = 4


class KeyedKernel(Kernel):
    """Partitions rows by key: one sorted block each, if requested; or, if `grouped`, several blocks of whole groups."""

    keeps_columns = keeps_count = True

    def __init__(
        self, keys: Sequence[str], sort: bool, grouped: bool = False, name: str = "Repartition"
    ) -> None:
        self.name = name
        self.keys = tuple(keys)
        self.sort = sort or grouped
        self.grouped = grouped
        if not self.keys:
            self.partitions_max = 1

    def check(self, schemas: Sequence[pa.Schema]) -> None:
        check_keys(schemas[0], self.keys)

    def prepare(self, samples: Sequence[object], partitions: int, rows: Sequence[Sequence[int]]) -> int:
        """Return the number of rows per block of groups that gives work to all CPUs."""
        return -(-sum(rows[0]) // (_PIECES * available_cpus())) if self.grouped else 0

    def split(
        self, block: pa.Table, source: int, start: int, plan: object, partitions: int
    ) -> list[pa.Table]:
        return deal(block, partition_of(block, self.keys, partitions), partitions)

    def merge(self, parts: Sequence[Sequence[pa.Table]], partition: int, plan: int) -> Iterator[pa.Table]:
        table = joined(parts[0])
        if not table.num_rows:
            yield table
            return
        order = None
        if self.sort and self.keys:
            order = Order(self.keys, (False,) * len(self.keys)).indices(table)
        whole = solid(table)
        if not self.grouped:
            yield whole if order is None else whole.take(order)
            return
        rows = max(1, min(plan, int(table.num_rows * BLOCK_BYTES / max(1, table.nbytes))))
        keys = key_columns(whole, self.keys)
        starts = starts_of([key.take(order) for key in keys])
        for low, high in _runs(starts, table.num_rows, rows):
            yield whole.slice(low, high - low) if order is None else whole.take(order.slice(low, high - low))


def _runs(starts: np.ndarray, total: int, rows: int) -> Iterator[tuple[int, int]]:
    """Combine whole groups until they have this many rows."""
    low = 0
    while low < total:
        at = int(np.searchsorted(starts, low + rows))
        high = int(starts[at]) if at < len(starts) else total
        yield low, high
        low = high


class GroupStep:
    """A step that calls a batch function for each group, over blocks of whole groups sorted by key."""

    def __init__(self, keys: Sequence[str], batches: BatchStep) -> None:
        self.keys = tuple(keys)
        self.batches = batches
        self.udf = batches.udf

    def __call__(self, given: Iterator[pa.Table]) -> Iterator[pa.Table]:
        return self._joined(self.batches(self._groups(given)))

    def _groups(self, given: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in given:
            if not table.num_rows:
                continue
            starts = starts_of(key_columns(table, self.keys)).tolist()
            for low, high in zip(starts, [*starts[1:], table.num_rows], strict=True):
                yield table.slice(low, high - low)

    def _joined(self, made: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Combine the results of groups into blocks: thousands of groups give thousands of small tables."""
        waiting: list[pa.Table] = []
        size = 0
        for table in made:
            waiting.append(table)
            size += table.nbytes
            if size >= BLOCK_BYTES:
                yield solid(concat(waiting))
                waiting, size = [], 0
        if waiting:
            yield solid(concat(waiting))
