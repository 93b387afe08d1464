"""EpisodeReplayBuffer: steps that are drawn with equal probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skate.rllib.core import DEFAULT_MODULE_ID
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.metrics import (
    NUM_ENV_STEPS_ADDED,
    NUM_ENV_STEPS_ADDED_LIFETIME,
    NUM_ENV_STEPS_STORED,
)
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger
from skate.rllib.utils.replay_buffers.episode_steps import episodes_of, fragment_of
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
        #: The source of all draws; it may be replaced.
        self.rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        return self._ring.size

    def get_num_timesteps(self) -> int:
        """Return the number of steps that are stored."""
        return self._ring.size

    def get_added_timesteps(self) -> int:
        """Return the number of steps that were ever added."""
        return self._ring.added

    def add(self, rollouts: Any) -> None:
        """Add the steps of fragments, or of episodes.

        Args:
            rollouts: One fragment or episode, or a list of them; fragments of one runner always at the same position. An
                episode that was cut may be continued by a later part of it.
        """
        is_one = hasattr(rollouts, "valid") or isinstance(rollouts, SingleAgentEpisode)
        given = [rollouts] if is_one else list(rollouts)
        episodes = [each for each in given if isinstance(each, SingleAgentEpisode)]
        if not episodes:
            self._added(self._ring.add(given))
            return
        if len(episodes) < len(given):
            raise TypeError(
                f"a replay buffer takes fragments or single-agent episodes, not {[type(each).__name__ for each in given]}"
            )
        stepped = [each for each in episodes if len(each)]
        self._added(self._ring.add(list(map(fragment_of, stepped)), [each.id_ for each in stepped]))

    def _added(self, places: np.ndarray) -> None:
        self.metrics.log_value(NUM_ENV_STEPS_ADDED, len(places), reduce="sum")
        self.metrics.log_value(NUM_ENV_STEPS_ADDED_LIFETIME, len(places), reduce="lifetime_sum")
        self.metrics.log_value(NUM_ENV_STEPS_STORED, self._ring.size, reduce="mean", window=1)

    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,
        batch_length_T: int | None = None,
        n_step: int | Sequence[int] | None = 1,
        gamma: float = 0.99,
        beta: float = 0.0,
        sample_episodes: bool = False,
        to_numpy: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Draw steps.

        Args:
            num_items: Number of rows.
            batch_size_B: Another name of it.
            batch_length_T: Only 1 is available.
            n_step: Number of steps whose rewards are summed, or the lowest and highest number to draw from.
            gamma: Discount of these rewards.
            beta: How far rows that are drawn often weigh less; 0 not at all, 1 in full. Only of prioritized buffers.
            sample_episodes: Return an episode of one step for each row, which learners take as well.
            to_numpy: Let these episodes hold arrays.
            **kwargs: Taken for compatibility if they are false.

        Returns:
            Columns by module id; ``"weights"`` are those of the loss, ``"n_step"`` the numbers of summed rewards. With
            ``sample_episodes`` a list of episodes, which have these two among their extra model outputs.

        Raises:
            ValueError: nothing was added yet, or an argument is not available.
        """
        if not self._ring.size:
            raise ValueError("sample() of an empty replay buffer; add() fragments or episodes first")
        asked = [name for name, value in kwargs.items() if value]
        if asked or batch_length_T not in (None, 1):
            asked += [] if batch_length_T in (None, 1) else [f"batch_length_T={batch_length_T}"]
            raise ValueError(
                f"sample() has no {', '.join(asked)}: the buffer keeps observations, actions, rewards and ends, and draws "
                "single steps"
            )
        count = num_items or batch_size_B or self.batch_size_B
        places, weights = self._draw(count, beta)
        if n_step is None or isinstance(n_step, int):
            lengths = np.full(count, n_step or 1)
        else:
            lengths = self.rng.integers(int(n_step[0]), int(n_step[-1]) + 1, count)
        rows = self._ring.windows(places, lengths, gamma)
        rows["weights"] = weights
        return episodes_of(rows, to_numpy) if sample_episodes else {DEFAULT_MODULE_ID: rows}

    def _draw(self, count: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
        return self.rng.integers(0, self._ring.size, count), np.ones(count, np.float32)

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
        return {"ring": self._ring.get_state(), "numbers": self.rng.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what :meth:`get_state` returned."""
        self._ring.set_state(state["ring"])
        self.rng.bit_generator.state = state["numbers"]
