"""SumTree: draws indices in proportion to their priorities, many at a time."""

from __future__ import annotations

import numpy as np

#: Up to so many nodes, summing some of them twice takes less than finding out which are the same.
_MANY = 1024


class SumTree:
    """A binary tree whose nodes have the sums of the priorities below them.

    Args:
        capacity: Number of leaves.
    """

    def __init__(self, capacity: int) -> None:
        self._first_leaf = 1 << max(0, capacity - 1).bit_length()
        self._sums = np.zeros(2 * self._first_leaf, np.float64)

    @property
    def num_leaves(self) -> int:
        """The number of leaves, a power of two."""
        return self._first_leaf

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._sums[1])

    def __getitem__(self, indices: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._sums[indices + self._first_leaf]
        return found

    def __setitem__(self, indices: np.ndarray, priorities: np.ndarray | float) -> None:
        nodes = indices + self._first_leaf
        self._sums[nodes] = priorities
        # Level by level, so that a parent of two changed leaves is summed after both are set.
        while len(nodes) and nodes[0] > 1:
            nodes = nodes >> 1
            if len(nodes) > _MANY:
                nodes = np.unique(nodes)
            left = 2 * nodes
            self._sums[nodes] = self._sums[left] + self._sums[left + 1]

    def find(self, masses: np.ndarray) -> np.ndarray:
        """Return the leaves in which the given parts of the total fall.

        Args:
            masses: Numbers from 0 to the total.
        """
        nodes = np.ones(len(masses), np.int64)
        rest = masses.astype(np.float64)
        while nodes[0] < self._first_leaf:
            left = 2 * nodes
            below = self._sums[left]
            # Rounding may leave a rest past the last leaf with a priority; it belongs to that leaf.
            right = (rest >= below) & (self._sums[left + 1] > 0)
            rest = np.where(right, rest - below, rest)
            nodes = left + right
        return nodes - self._first_leaf
