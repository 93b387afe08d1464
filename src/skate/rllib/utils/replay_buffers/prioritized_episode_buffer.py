"""PrioritizedEpisodeReplayBuffer: steps that are drawn by the size of their errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer
from skate.rllib.utils.replay_buffers.sum_tree import SumTree

_SMALLEST = 1e-6


class PrioritizedEpisodeReplayBuffer(EpisodeReplayBuffer):
    """Draws steps with large errors more often (Schaul et al. 2016, arXiv:1511.05952).

    Args:
        capacity: Number of steps. Default 10,000.
        alpha: 0 draws with equal probabilities, 1 in proportion to the errors. Default 1.0.
        **kwargs: Arguments of :class:`EpisodeReplayBuffer`.

    Raises:
        ValueError: ``alpha`` is negative.
    """

    def __init__(self, capacity: int = 10_000, *, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(capacity, **kwargs)
        if alpha < 0:
            raise ValueError(f"alpha has to be 0 or more, not {alpha}")
        self._alpha = alpha
        self._tree = SumTree(self.capacity)
        self._highest = 1.0
        self._drawn = np.empty(0, np.int64)

    def _added(self, places: np.ndarray) -> None:
        super()._added(places)
        # A step without an error yet is as likely as the worst one, so that each is drawn soon.
        if len(places):
            self._tree[places] = self._highest**self._alpha

    def _draw(self, count: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
        # One draw from each of `count` equal parts: fewer repetitions than independent draws.
        total = self._tree.total
        masses = (np.arange(count) + self.rng.random(count)) * (total / count)
        self._drawn = self._tree.find(masses)
        shares = self._tree[self._drawn] / total
        weights = (self._ring.size * shares) ** -beta
        # One order for all rows would correlate with their errors, and a learner may split the batch.
        order = self.rng.permutation(count)
        self._drawn = self._drawn[order]
        return self._drawn, (weights[order] / weights.max()).astype(np.float32)

    def update_priorities(self, priorities: Any, module_id: str | None = None) -> None:
        errors = next(iter(priorities.values())) if isinstance(priorities, dict) else priorities
        if errors is None:
            return
        sizes = np.maximum(np.abs(np.asarray(errors, np.float64)).reshape(-1), _SMALLEST)
        if len(sizes) != len(self._drawn):
            raise ValueError(
                f"{len(sizes)} errors were given for the {len(self._drawn)} rows that were drawn last"
            )
        # Of a step that was drawn twice, its first error counts.
        self._tree[self._drawn[::-1]] = sizes[::-1] ** self._alpha
        self._highest = max(self._highest, float(sizes.max(initial=0.0)))

    def get_state(self) -> dict[str, Any]:
        leaves = self._tree[np.arange(self._ring.size)]
        return {**super().get_state(), "priorities": leaves, "highest": self._highest}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._highest = state["highest"]
        self._tree = SumTree(self.capacity)
        self._tree[np.arange(self._ring.size)] = state["priorities"]
