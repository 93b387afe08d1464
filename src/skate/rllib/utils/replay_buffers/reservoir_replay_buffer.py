"""ReservoirReplayBuffer: a sample of all items that were ever added, each with the same probability."""

from __future__ import annotations

import random
from typing import Any

from skate.rllib.utils.replay_buffers.replay_buffer import ReplayBuffer


class ReservoirReplayBuffer(ReplayBuffer):
    """A buffer that keeps a new item with a probability that falls with their number (Vitter, 1985).

    So the oldest and the newest item are in it with equal probabilities.

    Args:
        capacity: Steps from which on items take the places of others.
        storage_unit: As of `ReplayBuffer`.
        **kwargs: Taken for compatibility.
    """

    def __init__(self, capacity: int = 10000, storage_unit: Any = "timesteps", **kwargs: Any) -> None:
        super().__init__(capacity, storage_unit)
        self._num_add_calls = 0
        self._num_evicted = 0

    def _add_single_batch(self, item: Any, **kwargs: Any) -> None:
        self._num_timesteps_added += item.count
        self._num_timesteps_added_wrap += item.count
        self._num_add_calls += 1
        if self._num_timesteps_added < self.capacity:
            self._put(len(self._storage), item)
            return
        self._eviction_started = True
        index = random.randrange(self._num_add_calls)
        if index < len(self._storage):
            self._num_evicted += 1
            self._next_idx = index
            self._put(index, item)

    def stats(self, debug: bool = False) -> dict[str, Any]:
        """Return the counts of `ReplayBuffer`, and how many items were added and replaced.

        Args:
            debug: Taken for compatibility.
        """
        return super().stats(debug) | {
            "num_evicted": self._num_evicted,
            "num_add_calls": self._num_add_calls,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take the items and counts of another buffer.

        Args:
            state: What `get_state` returned.
        """
        self._num_evicted = state["num_evicted"]
        self._num_add_calls = state["num_add_calls"]
        super().set_state(state)
