"""EpisodeReplayBuffer: steps that are drawn with equal probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skate.rllib.core import DEFAULT_MODULE_ID
from skate.rllib.utils.metrics import (
    NUM_ENV_STEPS_ADDED,
    NUM_ENV_STEPS_ADDED_LIFETIME,
    NUM_ENV_STEPS_STORED,
)
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger
from skate.rllib.utils.replay_buffers.ring import ColumnRing


class EpisodeReplayBuffer:
    """Keeps the newest steps and draws from them with equal probabilities.

    Args:
        capacity: Number of steps. Default 10,000.
        batch_size_B: Number of rows that :meth:`sample` draws by default.
        batch_length_T: Only 1 is available.
        seed: Seed of the draws. Default: another one each time.

    Raises:
        ValueError: ``capacity`` is less than 1, or ``batch_length_T`` is not 1.
    """

    def __init__(
        self,
        capacity: int = 10_000,
        *,
        batch_size_B: int = 16,
        batch_length_T: int = 1,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"a replay buffer needs a capacity of at least 1 step, not {capacity}")
        if batch_length_T != 1:
            raise ValueError(
                f"batch_length_T={batch_length_T} is not available; use 1, which draws single steps"
            )
        self.capacity = int(capacity)
        self.batch_size_B = batch_size_B
        self.metrics = MetricsLogger()
        self._ring = ColumnRing(self.capacity)
        self._numbers = np.random.default_rng(seed)

    def __len__(self) -> int:
        return self._ring.size

    def get_num_timesteps(self) -> int:
        """Return the number of steps that are stored."""
        return self._ring.size

    def get_added_timesteps(self) -> int:
        """Return the number of steps that were ever added."""
        return self._ring.added

    def add(self, rollouts: Any) -> None:
        """Add the steps of fragments.

        Args:
            rollouts: One fragment or a list of them; those of one runner always at the same position.
        """
        fragments = [rollouts] if hasattr(rollouts, "valid") else list(rollouts)
        self._added(self._ring.add(fragments))

    def _added(self, places: np.ndarray) -> None:
        self.metrics.log_value(NUM_ENV_STEPS_ADDED, len(places), reduce="sum")
        self.metrics.log_value(NUM_ENV_STEPS_ADDED_LIFETIME, len(places), reduce="lifetime_sum")
        self.metrics.log_value(NUM_ENV_STEPS_STORED, self._ring.size, reduce="mean", window=1)

    def sample(
        self,
        num_items: int | None = None,
        *,
        n_step: int | Sequence[int] = 1,
        gamma: float = 0.99,
        beta: float = 0.0,
        **kwargs: Any,
    ) -> dict[str, dict[str, np.ndarray]]:
        """Draw steps.

        Args:
            num_items: Number of rows.
            n_step: Number of steps whose rewards are summed, or the lowest and highest number to draw from.
            gamma: Discount of these rewards.
            beta: How far rows that are drawn often weigh less; 0 not at all, 1 in full. Only of prioritized buffers.

        Returns:
            Columns by module id; ``"weights"`` are those of the loss, ``"n_step"`` the numbers of summed rewards.

        Raises:
            ValueError: nothing was added yet.
        """
        if not self._ring.size:
            raise ValueError("sample() of an empty replay buffer; add() fragments first")
        count = num_items or self.batch_size_B
        places, weights = self._draw(count, beta)
        if isinstance(n_step, int):
            lengths = np.full(count, n_step)
        else:
            lengths = self._numbers.integers(int(n_step[0]), int(n_step[-1]) + 1, count)
        rows = self._ring.windows(places, lengths, gamma)
        rows["weights"] = weights
        return {DEFAULT_MODULE_ID: rows}

    def _draw(self, count: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
        return self._numbers.integers(0, self._ring.size, count), np.ones(count, np.float32)

    def update_priorities(self, priorities: Any, module_id: str | None = None) -> None:
        """Take the errors of the rows that were drawn last; has no effect on equal probabilities.

        Args:
            priorities: Errors, or a dict of them by module id.
            module_id: Taken for compatibility.
        """

    def get_metrics(self) -> dict[str, Any]:
        """Return what was counted since the last call."""
        return self.metrics.reduce()

    def get_state(self) -> dict[str, Any]:
        """Return everything that is stored, and the state of the random draws."""
        return {"ring": self._ring.get_state(), "numbers": self._numbers.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what :meth:`get_state` returned."""
        self._ring.set_state(state["ring"])
        self._numbers.bit_generator.state = state["numbers"]
