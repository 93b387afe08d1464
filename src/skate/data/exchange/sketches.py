"""Sketches of columns too large to keep: the frequent values with their counts, and the distribution of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa

from skate.data.block import columns


class Frequencies:
    """Counts of values, in order of first appearance."""

    def __init__(self, counts: dict[Any, int], pickled: bool) -> None:
        self.counts = counts
        self.pickled = pickled  # whether the values are pickled, because they cannot be keys of a dict

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Frequencies:
        """Count the values of one column."""
        try:
            found = column.value_counts()
            values, numbers = found.field("values").to_pylist(), found.field("counts").to_pylist()
            return cls(dict(zip(values, numbers, strict=True)), False)
        except (pa.ArrowNotImplementedError, TypeError):  # lists, arrays, objects
            counts: dict[Any, int] = {}
            for value in columns.to_values(column):
                key = cloudpickle.dumps(value, protocol=5)
                counts[key] = counts.get(key, 0) + 1
            return cls(counts, True)

    def with_others(self, other: Frequencies) -> Frequencies:
        """Add the counts of two columns."""
        counts = dict(self.counts)
        for value, count in other.counts.items():
            counts[value] = counts.get(value, 0) + count
        return Frequencies(counts, self.pickled or other.pickled)

    def cut(self, most: int) -> Frequencies:
        """Keep at most `most` values: subtract the first dropped count from all, so that the error is bounded."""
        if len(self.counts) <= most:
            return self
        numbers = np.fromiter(self.counts.values(), np.int64, len(self.counts))
        less = int(np.partition(numbers, len(numbers) - most - 1)[len(numbers) - most - 1])
        return Frequencies({v: n - less for v, n in self.counts.items() if n > less}, self.pickled)

    def pairs(self) -> list[tuple[Any, int]]:
        """Return pairs of value and count."""
        if self.pickled:
            return [(cloudpickle.loads(value), count) for value, count in self.counts.items()]
        return list(self.counts.items())


class Ranks:
    """Sorted values with weights: the number of values each represents."""

    def __init__(self, values: np.ndarray, weights: np.ndarray) -> None:
        self.values = values
        self.weights = weights

    @classmethod
    def of(cls, numbers: np.ndarray) -> Ranks:
        """Build ranks from numbers, each of weight 1."""
        return cls(np.sort(numbers), np.ones(len(numbers)))

    def with_others(self, other: Ranks) -> Ranks:
        """Merge two sets of ranks."""
        values = np.concatenate([self.values, other.values])
        order = np.argsort(values, kind="stable")
        return Ranks(values[order], np.concatenate([self.weights, other.weights])[order])

    def cut(self, most: int) -> Ranks:
        """Keep at most `most` values, drawing one from each of as many equal shares, so that the errors of
        repeated cuts even out."""
        if len(self.values) <= most:
            return self
        reached = np.cumsum(self.weights)
        share = reached[-1] / most
        drawn = (np.arange(most) + np.random.default_rng(len(self.values)).random(most)) * share
        places = np.minimum(np.searchsorted(reached, drawn, "right"), len(reached) - 1)
        return Ranks(self.values[places], np.full(most, share))

    def at(self, shares: Sequence[float]) -> list[float]:
        """Return the values at the given quantiles."""
        reached = np.cumsum(self.weights)
        places = np.searchsorted(reached, np.asarray(shares) * reached[-1], "right")
        found: list[float] = self.values[np.minimum(places, len(reached) - 1)].tolist()
        return found
