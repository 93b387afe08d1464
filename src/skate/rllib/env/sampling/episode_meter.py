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
        self._ended: list[tuple[float, int, float]] = []
        #: Lanes whose episodes are dropped at present.
        self.muted = np.zeros(num_lanes, bool)

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
        """Take note of the end of a lane's episode, and begin the next."""
        if self.muted[lane]:
            self.begin(lane)
            return
        seconds = time.perf_counter() - float(self.starts[lane])
        self._ended.append((float(self.returns[lane]), int(self.lengths[lane]), seconds))
        self.num_episodes += 1
        self.returns[lane], self.lengths[lane], self.starts[lane] = 0.0, 0, time.perf_counter()

    def flush(self) -> None:
        """Log the episodes that ended since the last call."""
        ended, self._ended = self._ended, []
        if ended:
            totals, lengths, seconds = (list(values) for values in zip(*ended, strict=True))
            log_episodes(self.metrics, totals, lengths, seconds, self.window)

    def get_state(self) -> dict[str, Any]:
        """Return the running episodes' numbers."""
        return {"returns": self.returns.copy(), "lengths": self.lengths.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from another meter's numbers."""
        self.returns[:] = state["returns"]
        self.lengths[:] = state["lengths"]
        self.starts[:] = time.perf_counter()


def log_episodes(
    metrics: MetricsLogger, totals: list[float], lengths: list[int], seconds: list[float], window: int
) -> None:
    """Log ended episodes of a single agent.

    Args:
        metrics: Where to log.
        totals: Sums of the rewards.
        lengths: Numbers of steps.
        seconds: Durations.
        window: Number of newest episodes over which results are averaged.
    """
    metrics.log_values(names.EPISODE_LEN_MEAN, lengths, window=window)
    metrics.log_values(names.EPISODE_RETURN_MEAN, totals, window=window)
    metrics.log_values(names.EPISODE_DURATION_SEC_MEAN, seconds, window=window)
    # Runs of one agent have these two in the singular, runs of many in the plural; plots use either.
    for agents, modules in (
        ("agent_episode_return_mean", "module_episode_return_mean"),
        (names.EPISODE_AGENT_RETURN_MEAN, names.EPISODE_MODULE_RETURN_MEAN),
    ):
        metrics.log_values((agents, DEFAULT_AGENT_ID), totals, window=window)
        metrics.log_values((modules, DEFAULT_MODULE_ID), totals, window=window)
    for low, high, values in (
        (names.EPISODE_LEN_MIN, names.EPISODE_LEN_MAX, lengths),
        (names.EPISODE_RETURN_MIN, names.EPISODE_RETURN_MAX, totals),
    ):
        metrics.log_values(low, values, reduce="min", window=window)
        metrics.log_values(high, values, reduce="max", window=window)


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
