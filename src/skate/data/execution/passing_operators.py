"""Operators that only pass blocks on: existing blocks, the first rows, blocks in another order, or of several
inputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from skate.data.execution.bundle import Bundle
from skate.data.execution.operators import ChainRunning, Running, Work
from skate.data.steps.zip_columns import ZipStep


class FromBlocksRunning(Running):
    """Existing blocks."""

    passes = True

    def __init__(self, name: str, bundles: Sequence[Bundle]) -> None:
        super().__init__(name, 0)
        for bundle in bundles:
            self.count(bundle)
            self.outputs.add(0, bundle)


class LimitRunning(Running):
    """Passes on the first rows, then stops its input."""

    passes = True

    def __init__(self, name: str, rows: int) -> None:
        super().__init__(name, 1)
        self.left = rows

    def holds(self, source: int) -> int:
        return 0

    def take(self, bundle: Bundle, source: int) -> None:
        self.counters.rows_in += bundle.rows
        if self.full:
            return
        if bundle.rows > self.left:
            bundle = bundle.slice(0, self.left)
        self.left -= bundle.rows
        self.count(bundle)
        self.outputs.add(0, bundle)
        # A block passes even for no rows, because it carries the columns.
        self.full = self.left <= 0

    @property
    def finished(self) -> bool:
        return self.stopped or ((self.full or not self.open_inputs) and not self.outputs.ready)


class UnionRunning(Running):
    """All inputs, one after the other."""

    passes = True

    def __init__(self, name: str, inputs: int) -> None:
        super().__init__(name, inputs)
        self._held = [0] * inputs

    def holds(self, source: int) -> int:
        # Blocks of the current input are counted among the results.
        return self._held[source] if source > self.outputs.head else 0

    def take(self, bundle: Bundle, source: int) -> None:
        self.counters.rows_in += bundle.rows
        self._held[source] += bundle.bytes
        self.count(bundle)
        self.outputs.add(source, bundle)

    def end(self, source: int) -> None:
        super().end(source)
        self.outputs.end(source)


class ExactRunning(ChainRunning):
    """Steps over a fixed number of rows at a time, the last time possibly fewer; blocks are cut accordingly."""

    def take(self, bundle: Bundle, source: int) -> None:
        while bundle.rows > (room := self.rows_at_least - self._gathered_rows):
            super().take(bundle.slice(0, room), source)
            bundle = bundle.slice(room, bundle.rows - room)
        super().take(bundle, source)


class OrderRunning(Running):
    """All blocks, in random order."""

    def __init__(self, name: str, seed: int | None) -> None:
        super().__init__(name, 1)
        self._seed = seed
        self._taken: list[Bundle] = []

    def holds(self, source: int) -> int:
        return 0

    def take(self, bundle: Bundle, source: int) -> None:
        self.counters.rows_in += bundle.rows
        self._taken.append(bundle)

    def end(self, source: int) -> None:
        super().end(source)
        order = list(range(len(self._taken)))
        np.random.default_rng(self._seed).shuffle(order)
        for bundle in map(self._taken.__getitem__, order):
            self.count(bundle)
            self.outputs.add(0, bundle)
        self._taken.clear()


class MixRunning(Running):
    """Alternates between the blocks of all inputs, taking rows in proportion to their weights."""

    passes = True

    def __init__(self, name: str, weights: Sequence[float], stop_on_shortest: bool) -> None:
        super().__init__(name, len(weights))
        self._weights = list(weights)
        self._stop_on_shortest = stop_on_shortest
        self._queues: list[deque[Bundle]] = [deque() for _ in weights]
        self._given = [0] * len(weights)
        self._open = [True] * len(weights)

    def holds(self, source: int) -> int:
        return sum(bundle.bytes for bundle in self._queues[source])

    def take(self, bundle: Bundle, source: int) -> None:
        self.counters.rows_in += bundle.rows
        if not self.full:
            self._queues[source].append(bundle)
            self._deal()

    def end(self, source: int) -> None:
        super().end(source)
        self._open[source] = False
        self._deal()

    def _deal(self) -> None:
        while not self.full:
            alive = [i for i, queue in enumerate(self._queues) if queue or self._open[i]]
            if not alive or (self._stop_on_shortest and len(alive) < len(self._queues)):
                self.full = True
                return
            turn = min(alive, key=lambda i: self._given[i] / self._weights[i])
            if not self._queues[turn]:
                return
            bundle = self._queues[turn].popleft()
            self._given[turn] += bundle.rows
            self.count(bundle)
            self.outputs.add(0, bundle)

    @property
    def finished(self) -> bool:
        return self.stopped or ((self.full or not self.open_inputs) and not self.outputs.ready)


class ZipRunning(Running):
    """The columns of all inputs side by side; the blocks are those of the first input."""

    def __init__(self, name: str, inputs: int) -> None:
        super().__init__(name, inputs)
        self._queues: list[deque[Bundle]] = [deque() for _ in range(inputs)]
        self._rows = [0] * inputs  # that wait
        self._seen = [0] * inputs
        self._bytes = [0] * inputs
        self._ends = [False] * inputs
        self._todo: deque[Work] = deque()
        self._next = 0

    def holds(self, source: int) -> int:
        return self._bytes[source]

    def take(self, bundle: Bundle, source: int) -> None:
        self.counters.rows_in += bundle.rows
        # One empty block is kept, because it carries the columns.
        queue = self._queues[source]
        if bundle.rows or (not self._seen[source] and not queue):
            if queue and not queue[0].rows:
                queue.clear()
            queue.append(bundle)
            self._rows[source] += bundle.rows
            self._seen[source] += bundle.rows
            self._bytes[source] += bundle.bytes
            self._pair()

    def end(self, source: int) -> None:
        super().end(source)
        self._ends[source] = True
        self._pair()
        if not self.open_inputs and len(set(self._seen)) > 1:
            counts = ", ".join(map(str, self._seen))
            raise ValueError(f"Cannot zip datasets of different number of rows: {counts}")
        if not self.open_inputs and not self._next and all(self._queues):
            self._make([[queue[0]] for queue in self._queues])

    def _pair(self) -> None:
        """Create work from the rows that all inputs have, one block of the first input at a time."""
        first = self._queues[0]
        while first and all(self._rows):
            rows = first[0].rows
            if rows > min(self._rows) and not any(
                end and have < rows for end, have in zip(self._ends, self._rows, strict=True)
            ):
                return
            rows = min(rows, *self._rows)
            self._make([self._cut(source, rows) for source in range(self.inputs)])

    def _cut(self, source: int, rows: int) -> list[Bundle]:
        queue = self._queues[source]
        found: list[Bundle] = []
        self._rows[source] -= rows
        while rows:
            bundle = queue.popleft()
            self._bytes[source] -= bundle.bytes
            if bundle.rows > rows:
                rest = bundle.slice(rows, bundle.rows - rows)
                self._bytes[source] += rest.bytes
                queue.appendleft(rest)
                bundle = bundle.slice(0, rows)
            rows -= bundle.rows
            if bundle.rows:
                found.append(bundle)
        return found

    def _make(self, bundles: list[list[Bundle]]) -> None:
        flat = [bundle for each in bundles for bundle in each]
        self._todo.append(Work(self, "chain", self._next, flat, [ZipStep([len(each) for each in bundles])]))
        self._next += 1

    def has_work(self) -> bool:
        return bool(self._todo) and not self.stopped

    def next_work(self) -> Work:
        self.running += 1
        self.tasks += 1
        return self._todo.popleft()

    def stop(self) -> None:
        super().stop()
        self._todo.clear()
        for queue in self._queues:
            queue.clear()
