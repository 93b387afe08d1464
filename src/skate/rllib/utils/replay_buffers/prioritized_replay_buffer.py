"""PrioritizedReplayBuffer: items that are drawn in proportion to their priorities."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from skate.rllib.policy.sample_batch import SampleBatch
from skate.rllib.utils.replay_buffers.replay_buffer import ReplayBuffer
from skate.rllib.utils.replay_buffers.sum_tree import SumTree


class PrioritizedReplayBuffer(ReplayBuffer):
    """A ring of items that are drawn in proportion to their priorities (Schaul et al., 2015).

    Args:
        capacity: As of `ReplayBuffer`.
        storage_unit: As of `ReplayBuffer`.
        alpha: The power of priorities: 1 for proportions, near 0 for equal probabilities.
        **kwargs: Taken for compatibility.

    Raises:
        ValueError: ``alpha`` is not positive.
    """

    def __init__(
        self, capacity: int = 10000, storage_unit: Any = "timesteps", alpha: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(capacity, storage_unit, **kwargs)
        if alpha <= 0:
            raise ValueError(
                f"alpha must be greater than 0, and is {alpha}; use ReplayBuffer for equal probabilities"
            )
        self._alpha = alpha
        self._tree = SumTree(capacity)
        self._max_priority = 1.0

    def _add_single_batch(self, item: Any, **kwargs: Any) -> None:
        weight = kwargs.get("weight")
        self._tree[np.array([self._next_idx])] = (
            self._max_priority if weight is None else weight
        ) ** self._alpha
        super()._add_single_batch(item)

    def sample(self, num_items: int | None = None, beta: float = 1.0, **kwargs: Any) -> Any:
        """Draw items in proportion to their priorities, and return them as one batch.

        The batch has the columns ``weights``, which correct the probabilities, at most 1, and ``batch_indexes``, the places of
        the items, for `update_priorities`. A batch of several modules has neither.

        Args:
            num_items: How many.
            beta: The power of weights: 0 for none, 1 for the whole correction.
            **kwargs: Taken for compatibility.

        Raises:
            ValueError: the buffer is empty, the number is missing, or ``beta`` is negative.
        """
        count = self._checked(num_items)
        if beta < 0:
            raise ValueError(f"beta must be 0 or greater, and is {beta}")
        masses = np.array([random.random() for _ in range(num_items or 0)]) * self._tree.total
        indices = self._tree.find(masses) if len(masses) else np.empty(0, np.int64)
        batch = self._encode_sample(indices.tolist())
        if isinstance(batch, SampleBatch):
            steps = [self._storage[index].count for index in indices.tolist()]
            least = self._tree[np.arange(count)].min()
            # Both probabilities have the same total and number of items, which fall out of their quotient.
            batch["weights"] = ((self._tree[indices] / least) ** -beta).repeat(steps)
            batch["batch_indexes"] = indices.repeat(steps)
        self._num_timesteps_sampled += batch.count
        return batch

    def update_priorities(self, idxes: Any, priorities: Any) -> None:
        """Set the priorities of items.

        Args:
            idxes: Their places, as in the column ``batch_indexes``.
            priorities: Positive numbers, one for each place.

        Raises:
            ValueError: the lengths differ, a priority is not positive, or there is no item at a place.
        """
        places, new = np.asarray(idxes, np.int64), np.asarray(priorities, np.float64)
        if places.shape != new.shape:
            raise ValueError(f"{len(places)} places and {len(new)} priorities; give one for each")
        if not len(places):
            return
        if not (new > 0).all():
            raise ValueError(f"priorities must be greater than 0, and the least is {new.min()}")
        if places.min() < 0 or places.max() >= len(self._storage):
            raise ValueError(f"places go from 0 to {len(self._storage) - 1}, and some of {places} do not")
        self._tree[places] = new**self._alpha
        self._max_priority = max(self._max_priority, float(new.max()))

    def get_state(self) -> dict[str, Any]:
        """Return all items, counts and priorities."""
        powers = self._tree[np.arange(len(self._storage))]
        return super().get_state() | {"priorities": powers, "max_priority": self._max_priority}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take the items, counts and priorities of another buffer.

        Args:
            state: What `get_state` returned.
        """
        super().set_state(state)
        self._tree = SumTree(self.capacity)
        self._tree[np.arange(len(self._storage))] = state["priorities"]
        self._max_priority = state["max_priority"]
