"""SumTree: draws indices in proportion to their priorities, many at a time."""

from __future__ import annotations

import numpy as np

#: Leaves below one sum. Two levels take fewer calls of numpy than a binary tree, and each call takes about the same time.
_BLOCK = 64
#: Up to so many blocks, summing some of them twice takes less than finding out which are the same.
_MANY = 1024


class SumTree:
    """A tree of two levels: priorities in blocks, and the sum of each block.

    Args:
        capacity: Number of leaves.
    """

    def __init__(self, capacity: int) -> None:
        blocks = max(1, -(-capacity // _BLOCK))
        self._blocks = np.zeros((blocks, _BLOCK), np.float64)
        self._leaves = self._blocks.reshape(-1)
        self._sums = np.zeros(blocks, np.float64)

    @property
    def num_leaves(self) -> int:
        """The number of leaves, at least the capacity."""
        return len(self._leaves)

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._sums.sum())

    def __getitem__(self, indices: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._leaves[indices]
        return found

    def __setitem__(self, indices: np.ndarray, priorities: np.ndarray | float) -> None:
        """Set priorities; of an index that comes twice, the last one stays."""
        self._leaves[indices] = priorities
        changed = indices // _BLOCK
        if len(changed) > _MANY:
            changed = np.unique(changed)
        self._sums[changed] = self._blocks[changed].sum(1)

    def find(self, masses: np.ndarray) -> np.ndarray:
        """Return the leaves in which the given parts of the total fall.

        Args:
            masses: Numbers from 0 to the total.
        """
        ends = self._sums.cumsum()
        # Rounding may leave a mass past the last part with a priority; it belongs to that part.
        block = np.minimum(ends.searchsorted(masses, side="right"), ends.searchsorted(ends[-1]))
        starts = ends[block - 1]
        starts[block == 0] = 0.0
        rest = masses - starts
        inner = self._blocks[block].cumsum(1)
        leaf = (inner <= rest[:, None]).sum(1)
        past = np.flatnonzero(rest >= inner[:, -1])
        if len(past):
            leaf[past] = (inner[past] < inner[past, -1:]).sum(1)
        found: np.ndarray = block * _BLOCK + leaf
        return found
