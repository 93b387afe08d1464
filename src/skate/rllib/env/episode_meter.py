"""Returns, lengths and durations of episodes, kept per lane while they run and logged when they end."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from skate.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from skate.rllib.utils import metrics as names
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger


class EpisodeMeter:
    """Counts the steps and the rewards of each lane's episode.

    Args:
        num_lanes: Number of environments.
        metrics: Where an ended episode is logged.
        window: Number of newest episodes over which results are averaged.
    """

    def __init__(self, num_lanes: int, metrics: MetricsLogger, window: int) -> None:
        self.metrics = metrics
        self.window = max(1, int(window))
        self.returns = np.zeros(num_lanes)
        self.lengths = np.zeros(num_lanes, np.int64)
        self.starts = np.full(num_lanes, time.perf_counter())
        self.num_episodes = 0

    def begin(self, lane: int | None = None) -> None:
        """Begin a new episode in one lane, or in all."""
        chosen = slice(None) if lane is None else lane
        self.returns[chosen] = 0.0
        self.lengths[chosen] = 0
        self.starts[chosen] = time.perf_counter()

    def add(self, rewards: Any, stepped: Any = None) -> None:
        """Add the rewards of one step of all lanes.

        Args:
            rewards: One per lane.
            stepped: Per lane, False if it only reset; None if all stepped.
        """
        self.returns += rewards
        self.lengths += 1 if stepped is None else stepped

    def end(self, lane: int) -> None:
        """Log the episode of a lane and begin the next."""
        seconds = time.perf_counter() - float(self.starts[lane])
        log_episode(self.metrics, float(self.returns[lane]), int(self.lengths[lane]), seconds, self.window)
        self.num_episodes += 1
        self.begin(lane)

    def get_state(self) -> dict[str, Any]:
        """Return the running episodes' numbers."""
        return {"returns": self.returns.copy(), "lengths": self.lengths.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from another meter's numbers."""
        self.returns[:] = state["returns"]
        self.lengths[:] = state["lengths"]
        self.starts[:] = time.perf_counter()


def log_episode(metrics: MetricsLogger, total: float, length: int, seconds: float, window: int) -> None:
    """Log one ended episode of a single agent.

    Args:
        metrics: Where to log.
        total: Sum of the rewards.
        length: Number of steps.
        seconds: Duration.
        window: Number of newest episodes over which results are averaged.
    """
    metrics.log_value(names.EPISODE_LEN_MEAN, length, window=window)
    metrics.log_value(names.EPISODE_RETURN_MEAN, total, window=window)
    metrics.log_value(names.EPISODE_DURATION_SEC_MEAN, seconds, window=window)
    # Runs of one agent have these two in the singular, runs of many in the plural; plots use either.
    for agents, modules in (
        ("agent_episode_return_mean", "module_episode_return_mean"),
        (names.EPISODE_AGENT_RETURN_MEAN, names.EPISODE_MODULE_RETURN_MEAN),
    ):
        metrics.log_value((agents, DEFAULT_AGENT_ID), total, window=window)
        metrics.log_value((modules, DEFAULT_MODULE_ID), total, window=window)
    for low, high, value in (
        (names.EPISODE_LEN_MIN, names.EPISODE_LEN_MAX, length),
        (names.EPISODE_RETURN_MIN, names.EPISODE_RETURN_MAX, total),
    ):
        metrics.log_value(low, value, reduce="min", window=window)
        metrics.log_value(high, value, reduce="max", window=window)


def log_sampled(metrics: MetricsLogger, num_steps: int, num_episodes: int) -> None:
    """Log how much one call sampled from an environment of a single agent.

    Args:
        metrics: Where to log.
        num_steps: Steps of environments.
        num_episodes: Episodes that ended.
    """
    metrics.log_value(names.NUM_ENV_STEPS_SAMPLED, num_steps, reduce="sum")
    metrics.log_value((names.NUM_AGENT_STEPS_SAMPLED, DEFAULT_AGENT_ID), num_steps, reduce="sum")
    metrics.log_value((names.NUM_MODULE_STEPS_SAMPLED, DEFAULT_MODULE_ID), num_steps, reduce="sum")
    metrics.log_value(names.NUM_EPISODES, num_episodes, reduce="sum")
    metrics.log_value(
        names.NUM_ENV_STEPS_SAMPLED_LIFETIME, num_steps, reduce="lifetime_sum", with_throughput=True
    )
    metrics.log_value(
        (names.NUM_AGENT_STEPS_SAMPLED_LIFETIME, DEFAULT_AGENT_ID), num_steps, reduce="lifetime_sum"
    )
    metrics.log_value(
        (names.NUM_MODULE_STEPS_SAMPLED_LIFETIME, DEFAULT_MODULE_ID), num_steps, reduce="lifetime_sum"
    )
    metrics.log_value(names.NUM_EPISODES_LIFETIME, num_episodes, reduce="lifetime_sum")
