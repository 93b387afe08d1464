"""Rows in random order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from skate.data.exchange.hash_partition import place_type
from skate.data.exchange.kernel import Kernel
from skate.data.exchange.parts import deal, in_order, joined, rows_at, solid
from skate.data.exchange.seeds import Seeds

_SPLITTING, _MERGING = 0, 1


class ShuffleKernel(Kernel):
    """A shuffle in which every order of all rows is equally likely.

    Each row goes to a partition drawn for it alone, and each partition is put into random order, so that the
    concatenated partitions are a random order of all rows. With `even`, all partitions have the same number
    of rows, which matters more for repartitioning than perfect randomness.
    """

    keeps_columns = keeps_count = True

    def __init__(
        self, seeds: Seeds, even: bool = False, whole: bool = False, name: str = "RandomShuffle"
    ) -> None:
        self.name = name
        self.seeds = seeds
        self.even = even
        self.whole = whole

    def prepare(
        self, samples: Sequence[object], partitions: int, rows: Sequence[Sequence[int]]
    ) -> tuple[int, ...]:
        """Return the seed of this run; a single number if there is only one partition."""
        if partitions == 1 and not self.even and self.seeds.seed is not None:
            found = self.seeds.single()
            assert found is not None
            return (found,)
        return self.seeds.draw()

    def split(
        self, block: pa.Table, source: int, start: int, plan: tuple[int, ...], partitions: int
    ) -> list[pa.Table]:
        """Draw a partition for each row."""
        random = np.random.default_rng((*plan, _SPLITTING, start))
        kind = place_type(partitions)
        if self.even:
            dealt = (np.arange(start, start + block.num_rows) % partitions).astype(kind)
            places = random.permuted(dealt)
        else:
            places = random.integers(0, partitions, block.num_rows, kind)
        return deal(block, places, partitions)

    def merge(
        self, parts: Sequence[Sequence[pa.Table]], partition: int, plan: tuple[int, ...]
    ) -> Iterator[pa.Table]:
        """Return the rows of the partition in random order."""
        if len(plan) == 1 and not self.even and self.seeds.seed is not None:
            order = dealt_order([part.num_rows for part in parts[0]], plan[0])
            yield from in_order(joined(parts[0]), order)
            return
        table = joined(parts[0])
        order = np.random.default_rng((*plan, _MERGING, partition)).permutation(table.num_rows)
        if self.whole:
            yield rows_at(solid(table), order)
        else:
            yield from in_order(table, order)


def dealt_order(rows: Sequence[int], seed: int) -> np.ndarray:
    """Return the order in which Ray shuffles the rows of blocks of these sizes for a seed.

    Each block is shuffled and cut into as many slices as there are blocks, which go to the blocks in random order; the rows
    that have come together are shuffled again.
    """
    count = len(rows)
    dealt: list[list[np.ndarray]] = [[] for _ in rows]
    start = 0
    for number, size in enumerate(rows):
        mixed = np.arange(start, start + size)
        np.random.RandomState((seed + number) % (1 << 32)).shuffle(mixed)
        width = max(1, -(-size // count))
        places = list(range(count))
        np.random.RandomState((seed + number) % (1 << 32)).shuffle(places)
        for place, at in enumerate(places):
            dealt[place].append(mixed[at * width : (at + 1) * width])
        start += size
    made = []
    for parts in dealt:
        whole = np.concatenate(parts)
        np.random.RandomState(seed % (1 << 32)).shuffle(whole)
        made.append(whole)
    return np.concatenate(made) if made else np.arange(0)
