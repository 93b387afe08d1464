"""BufferCounts: how many steps and episodes were added, evicted and drawn, of each agent and module."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skate.rllib.utils.metrics.metrics_logger import MetricsLogger
from skate.rllib.utils.replay_buffers.episode_book import AgentLane

Key = str | tuple[str, str]


class BufferCounts:
    """Counts since the last report, and for the whole life of a buffer."""

    def __init__(self) -> None:
        self.recent: dict[Key, int] = {}
        self.means: dict[Key, list[float]] = {}
        self.lifetime: dict[Key, int] = {}

    def count(self, what: str, lanes: Iterable[tuple[AgentLane, int]] = (), **alone: int) -> None:
        """Count what happened to lanes of agents.

        Args:
            what: ``"added"``, ``"evicted"`` or ``"sampled"``.
            lanes: Lanes with their numbers of steps.
            alone: Numbers without an agent, by the word between ``num_`` and ``what``.
        """
        for word, number in alone.items():
            self.add(f"num_{word}_{what}", number)
        for lane, steps in lanes:
            self.add((f"num_agent_steps_{what}", str(lane.agent_id)), steps)
            self.add((f"num_module_steps_{what}", lane.module_id), steps)

    def count_episode(self, what: str, lane: AgentLane) -> None:
        """Count an agent's episode that was added or evicted."""
        self.add((f"num_agent_episodes_{what}", str(lane.agent_id)), 1)
        self.add((f"num_module_episodes_{what}", lane.module_id), 1)

    def count_drawn(self, lanes: list[AgentLane], places: np.ndarray, lengths: np.ndarray) -> None:
        """Count rows of one module that were drawn.

        Args:
            lanes: The lane of each row.
            places: Its place.
            lengths: The number of steps whose rewards were summed.
        """
        module_id = lanes[0].module_id
        steps: dict[int, int] = {}
        once: dict[int, set[int]] = {}
        by_number = {lane.number: lane for lane in lanes}
        for lane, place in zip(lanes, places.tolist(), strict=True):
            steps[lane.number] = steps.get(lane.number, 0) + 1
            once.setdefault(lane.number, set()).add(place)
        self.count("sampled", ((by_number[key], count) for key, count in steps.items()), env_steps=len(lanes))
        unlike = 0
        for key, found in once.items():
            self.add(("num_agent_steps_per_sample", str(by_number[key].agent_id)), len(found))
            self.add(("num_agent_episodes_per_sample", str(by_number[key].agent_id)), 1)
            unlike += len(found)
        self.add(("num_module_steps_per_sample", module_id), unlike)
        self.add(("num_module_episodes_per_sample", module_id), len(once))
        self.add("num_env_steps_per_sample", unlike)
        self.add("num_episodes_per_sample", len({lane.episode_id for lane in lanes}))
        for name, value in (
            ("actual_n_step", float(lengths.mean())),
            ("step_utilization", unlike / len(lanes)),
        ):
            self.means.setdefault(name if name == "actual_n_step" else f"env_{name}", []).append(value)
            self.means.setdefault((f"module_{name}", module_id), []).append(value)

    def add_resamples(self, module_id: str, number: int) -> None:
        """Count rows of a module that were drawn again."""
        self.add("num_resamples", number)
        self.add(("num_module_resamples", module_id), number)

    def add(self, key: Key, number: int) -> None:
        """Count a number under a key."""
        self.recent[key] = self.recent.get(key, 0) + number
        self.lifetime[key] = self.lifetime.get(key, 0) + number

    def ever(self, name: str, module_id: str | None) -> int:
        """Return the count of a buffer's whole life, of all modules or of one."""
        return self.lifetime.get(name if module_id is None else (name, module_id), 0)

    def report(self, metrics: MetricsLogger, window: int) -> None:
        """Log what was counted since the last report.

        Args:
            metrics: Where to.
            window: Number of values that a mean is of.
        """
        for key, number in self.recent.items():
            metrics.log_value(key, number, reduce="sum")
            if not _name(key).endswith(("episodes_per_sample", "resamples")):
                metrics.log_value(_lifetime(key), number, reduce="lifetime_sum")
        for key, values in self.means.items():
            for value in values:
                metrics.log_value(key, value, reduce="mean", window=window)
        self.recent, self.means = {}, {}


def _name(key: Key) -> str:
    return key if isinstance(key, str) else key[0]


def _lifetime(key: Key) -> Key:
    return f"{key}_lifetime" if isinstance(key, str) else (f"{key[0]}_lifetime", key[1])
