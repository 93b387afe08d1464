"""Operators that only pass blocks on: those that are there already, in another order, of several inputs in turn, side by side."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence

from skate.data.execution.bundle import Bundle
from skate.data.execution.operators import Running, Work
from skate.data.steps.zipping import ZipStep


class FromBlocksRunning(Running):
    """Blocks that are there."""

    def __init__(self, name: str, bundles: Sequence[Bundle]) -> None:
        super().__init__(name, 0)
        for bundle in bundles:
            self.count(bundle)
            self.outputs.add(0, bundle)


class OrderRunning(Running):
    """All blocks, in random order."""

    def __init__(self, name: str, seed: int | None) -> None:
        super().__init__(name, 1)
        self._random = random.Random(seed)
        self._taken: list[Bundle] = []

    def take(self, bundle: Bundle, source: int) -> None:
        self.rows_in += bundle.rows
        self._taken.append(bundle)

    def end(self, source: int) -> None:
        super().end(source)
        self._random.shuffle(self._taken)
        for bundle in self._taken:
            self.count(bundle)
            self.outputs.add(0, bundle)
        self._taken.clear()


class MixRunning(Running):
    """Blocks of all inputs in turn, so that the rows taken of each are in proportion to its weight."""

    def __init__(self, name: str, weights: Sequence[float], stop_on_shortest: bool) -> None:
        super().__init__(name, len(weights))
        self._weights = list(weights)
        self._stop_on_shortest = stop_on_shortest
        self._queues: list[deque[Bundle]] = [deque() for _ in weights]
        self._given = [0] * len(weights)
        self._open = [True] * len(weights)

    def take(self, bundle: Bundle, source: int) -> None:
        self.rows_in += bundle.rows
        self._queues[source].append(bundle)
        self._deal()

    def end(self, source: int) -> None:
        super().end(source)
        self._open[source] = False
        self._deal()

    def _deal(self) -> None:
        while True:
            alive = [i for i, queue in enumerate(self._queues) if queue or self._open[i]]
            if not alive or (self._stop_on_shortest and len(alive) < len(self._queues)):
                return
            turn = min(alive, key=lambda i: self._given[i] / self._weights[i])
            if not self._queues[turn]:
                return
            bundle = self._queues[turn].popleft()
            self._given[turn] += bundle.rows
            self.count(bundle)
            self.outputs.add(0, bundle)


class ZipRunning(Running):
    """The columns of all inputs side by side; the blocks are those of the first input."""

    def __init__(self, name: str, inputs: int) -> None:
        super().__init__(name, inputs)
        self._taken: list[list[Bundle]] = [[] for _ in range(inputs)]
        self._todo: deque[Work] = deque()

    def take(self, bundle: Bundle, source: int) -> None:
        self.rows_in += bundle.rows
        self.queued_bytes += bundle.bytes
        if bundle.rows or not self._taken[source]:
            self._taken[source].append(bundle)

    def end(self, source: int) -> None:
        super().end(source)
        if self.open_inputs:
            return
        counts = [sum(bundle.rows for bundle in taken) for taken in self._taken]
        if len(set(counts)) > 1:
            raise ValueError(f"zip wants datasets with as many rows each, but these have {counts}")
        first, *others = self._taken
        start = 0
        for number, bundle in enumerate(first):
            bundles = [bundle]
            cuts = [[(0, bundle.rows)]]
            for taken in others:
                inside = _overlap(taken, start, bundle.rows)
                bundles += [each for each, _, _ in inside]
                cuts.append([(at, rows) for _, at, rows in inside])
            self._todo.append(Work(self, "chain", number, bundles, [ZipStep(cuts)]))
            start += bundle.rows

    def has_work(self) -> bool:
        return bool(self._todo) and not self.stopped

    def next_work(self) -> Work:
        self.running += 1
        self.tasks += 1
        return self._todo.popleft()


def _overlap(bundles: Sequence[Bundle], start: int, rows: int) -> list[tuple[Bundle, int, int]]:
    """The parts of blocks, as (block, from row, rows), that cover a range of rows."""
    found = []
    at = 0
    for bundle in bundles:
        low, high = max(start, at), min(start + rows, at + bundle.rows)
        if low < high:
            found.append((bundle, low - at, high - low))
        at += bundle.rows
    return found or [(bundles[0], 0, 0)]
