"""Rows in random order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skate.data.exchange.hash_partition import place_type
from skate.data.exchange.kernel import Kernel
from skate.data.exchange.parts import deal, in_order, joined, reordered_pieces, rows_at, solid
from skate.data.exchange.seeds import Seeds

_SPLITTING, _MERGING = 0, 1
#: RandomState takes seeds below this number.
_SEEDS = 1 << 32


class SeededDeal(NamedTuple):
    """The order in which Ray shuffles the rows of some blocks for a seed.

    Each block is shuffled and cut into as many slices as there are blocks, which go to the blocks in random order; the rows
    that have come together are shuffled again. The order depends only on the seed and on the number of rows in each block. A
    partition is a run of the new blocks.
    """

    seed: int
    rows: tuple[int, ...]
    partitions: int

    def run(self, partition: int) -> tuple[int, int]:
        """Return the first new block of a partition and the one after its last."""
        count = len(self.rows)
        return count * partition // self.partitions, count * (partition + 1) // self.partitions

    def split(self, block: pa.Table, start: int) -> list[pa.Table]:
        """Split neighbouring blocks, the first of which begins at row `start`, by partition. The rows of a part lie in the order
        of the blocks they come from, then of those they go to."""
        starts = (self._starts() - start).tolist()
        slices = [
            self._slices(number, first) for number, first in enumerate(starts) if 0 <= first < block.num_rows
        ]
        orders = []
        for partition in range(self.partitions):
            low, high = self.run(partition)
            orders.append([each for dealt in slices for each in dealt[low:high]])
        ends = np.cumsum([sum(map(len, order)) for order in orders]).tolist()
        flat = [each for order in orders for each in order]
        return reordered_pieces(block, np.concatenate(flat) if flat else np.arange(0), ends)

    def whole(self) -> np.ndarray:
        """Return the order of all rows."""
        slices = [self._slices(number, start) for number, start in enumerate(self._starts().tolist())]
        return np.concatenate([self._mixed(np.concatenate(dealt)) for dealt in zip(*slices, strict=True)])

    def part(self, partition: int) -> np.ndarray:
        """Return the order of the rows of a partition that was split off the blocks."""
        low, high = self.run(partition)
        sizes = np.concatenate([self._widths(number)[low:high] for number in range(len(self.rows))])
        targets = np.repeat(np.tile(np.arange(high - low), len(self.rows)), sizes)
        order = np.argsort(targets, kind="stable")
        ends = np.cumsum(np.bincount(targets, minlength=high - low))
        for dealt in np.split(order, ends[:-1]):
            self._mixed(dealt)
        return order

    def _starts(self) -> np.ndarray:
        """Return the number of the first row of each block."""
        return np.cumsum((0, *self.rows[:-1]))

    def _mixed(self, rows: np.ndarray) -> np.ndarray:
        """Shuffle the rows of a new block in place."""
        np.random.RandomState(self.seed % _SEEDS).shuffle(rows)
        return rows

    def _random(self, number: int) -> np.random.RandomState:
        return np.random.RandomState((self.seed + number) % _SEEDS)

    def _places(self, number: int) -> np.ndarray:
        """Return which slice of a block each new block gets."""
        places = np.arange(len(self.rows))
        self._random(number).shuffle(places)
        return places

    def _widths(self, number: int) -> np.ndarray:
        """Return how many rows of a block each new block gets."""
        size = self.rows[number]
        width = max(1, -(-size // len(self.rows)))
        widths: np.ndarray = np.clip(size - self._places(number) * width, 0, width)
        return widths

    def _slices(self, number: int, start: int) -> list[np.ndarray]:
        """Return which rows of a block, whose first is number `start`, each new block gets."""
        size = self.rows[number]
        width = max(1, -(-size // len(self.rows)))
        mixed = np.arange(start, start + size)
        self._random(number).shuffle(mixed)
        return [mixed[at * width : (at + 1) * width] for at in self._places(number).tolist()]


class ShuffleKernel(Kernel):
    """A shuffle of all rows.

    Without a seed every order is equally likely: each row goes to a partition drawn for it alone, and each partition is put
    into random order, so that the concatenated partitions are a random order of all rows. With `even`, all partitions have
    the same number of rows, which matters more for repartitioning than perfect randomness. With a seed the order is Ray's.
    """

    keeps_columns = keeps_count = keeps_frames = True

    def __init__(
        self, seeds: Seeds, even: bool = False, whole: bool = False, name: str = "RandomShuffle"
    ) -> None:
        self.name = name
        self.seeds = seeds
        self.even = even
        self.whole = whole
        self.keeps_empty = seeds.seed is not None and not even  # the order of a seed depends on their number

    def prepare(
        self, samples: Sequence[object], partitions: int, rows: Sequence[Sequence[int]]
    ) -> tuple[int, ...] | SeededDeal:
        """Return the seed of this run, with the rows of the blocks if it is the user's."""
        seed = None if self.even else self.seeds.single()
        return self.seeds.draw() if seed is None else SeededDeal(seed, tuple(rows[0]), partitions)

    def split(
        self, block: pa.Table, source: int, start: int, plan: tuple[int, ...] | SeededDeal, partitions: int
    ) -> list[pa.Table]:
        """Draw a partition for each row."""
        if isinstance(plan, SeededDeal):
            return plan.split(block, start)
        random = np.random.default_rng((*plan, _SPLITTING, start))
        kind = place_type(partitions)
        if self.even:
            dealt = (np.arange(start, start + block.num_rows) % partitions).astype(kind)
            places = random.permuted(dealt)
        else:
            places = random.integers(0, partitions, block.num_rows, kind)
        return deal(block, places, partitions)

    def merge(
        self, parts: Sequence[Sequence[pa.Table]], partition: int, plan: tuple[int, ...] | SeededDeal
    ) -> Iterator[pa.Table]:
        """Return the rows of the partition in random order."""
        table = joined(parts[0])
        if isinstance(plan, SeededDeal):
            yield from in_order(table, plan.whole() if plan.partitions == 1 else plan.part(partition))
            return
        order = np.random.default_rng((*plan, _MERGING, partition)).permutation(table.num_rows)
        if self.whole:
            yield rows_at(solid(table), order)
        else:
            yield from in_order(table, order)
