"""MeanStdFilter: observations with mean zero and deviation one, by running statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from skate.rllib.connectors.env_to_module.observation_preprocessor import PerAgentObservations


@dataclass
class RunningStat:
    """Count, mean and sum of squared deviations of arrays (Welford, 1962; merged as by Chan et al., 1979)."""

    count: int
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> RunningStat:
        """Return statistics of nothing."""
        return cls(0, np.zeros(shape), np.zeros(shape))

    def push(self, value: np.ndarray) -> None:
        """Add one array."""
        self.count += 1
        delta = value - self.mean
        self.mean = self.mean + delta / self.count
        self.squares = self.squares + delta * (value - self.mean)

    def merge(self, other: RunningStat) -> RunningStat:
        """Return the statistics of both."""
        count = self.count + other.count
        if not count:
            return self
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.count / count)
        squares = self.squares + other.squares + delta**2 * (self.count * other.count / count)
        return RunningStat(count, mean, squares)

    @property
    def deviation(self) -> np.ndarray:
        """The standard deviation of the sample; the size of the mean while there is one value."""
        variance = self.squares / (self.count - 1) if self.count > 1 else np.square(self.mean)
        return np.sqrt(variance)


class MeanStdFilter(PerAgentObservations):
    """Normalizes the numbers of observations by their running mean and deviation, each for itself.

    States of several runners merge exactly: each counts what it saw since the last merge.

    Args:
        input_observation_space: The space of observations.
        input_action_space: The space of actions.
        de_mean_to_zero: True to subtract the mean.
        de_std_to_one: True to divide by the deviation.
        clip_by_value: Bound of the results; None for none.
        update_stats: False to leave the statistics as they are.
        kwargs: ``multi_agent=True`` if the spaces are by agent.
    """

    def __init__(
        self,
        input_observation_space: gym.Space[Any] | None = None,
        input_action_space: gym.Space[Any] | None = None,
        *,
        de_mean_to_zero: bool = True,
        de_std_to_one: bool = True,
        clip_by_value: float | None = 10.0,
        update_stats: bool = True,
        **kwargs: Any,
    ) -> None:
        self.de_mean_to_zero = de_mean_to_zero
        self.de_std_to_one = de_std_to_one
        self.clip_by_value = clip_by_value
        self.update_stats = update_stats
        #: By agent and path: all that was seen, and the part of it since the last merge.
        self._seen: dict[tuple[Any, ...], RunningStat] = {}
        self._new: dict[tuple[Any, ...], RunningStat] = {}
        super().__init__(input_observation_space, input_action_space, **kwargs)

    def output_space(
        self, observations: gym.Space[Any], actions: gym.Space[Any] | None, agent_id: Any = None
    ) -> gym.Space[Any]:
        bound = float("inf") if self.clip_by_value is None else self.clip_by_value

        def bounded(space: gym.Space[Any]) -> gym.Space[Any]:
            if isinstance(space, gym.spaces.Dict):
                return gym.spaces.Dict({key: bounded(inner) for key, inner in space.spaces.items()})
            if isinstance(space, gym.spaces.Tuple):
                return gym.spaces.Tuple([bounded(inner) for inner in space.spaces])
            if isinstance(space, gym.spaces.Box):
                return gym.spaces.Box(-bound, bound, space.shape, np.float32)
            return space

        return bounded(observations)

    def preprocess(self, observation: Any, episode: Any) -> Any:
        agent = episode.agent_id if self.multi_agent else None
        space: Any = self.input_observation_space
        return self._normalized(observation, space[agent] if self.multi_agent else space, (agent,))

    def _normalized(self, value: Any, space: Any, path: tuple[Any, ...]) -> Any:
        if isinstance(space, gym.spaces.Dict):
            return {
                key: self._normalized(value[key], inner, (*path, key)) for key, inner in space.spaces.items()
            }
        if isinstance(space, gym.spaces.Tuple):
            return tuple(
                self._normalized(value[at], inner, (*path, at)) for at, inner in enumerate(space.spaces)
            )
        if not isinstance(space, gym.spaces.Box):
            return value
        array = np.asarray(value, np.float64)
        seen = self._seen.setdefault(path, RunningStat.empty(array.shape))
        if self.update_stats:
            seen.push(array)
            self._new.setdefault(path, RunningStat.empty(array.shape)).push(array)
        if self.de_mean_to_zero:
            array = array - seen.mean
        if self.de_std_to_one:
            array = array / (seen.deviation + 1e-8)
        if self.clip_by_value is not None:
            array = np.clip(array, -self.clip_by_value, self.clip_by_value)
        return array.astype(np.float32)

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        return {
            "seen": {path: (stat.count, stat.mean, stat.squares) for path, stat in self._seen.items()},
            "new": {path: (stat.count, stat.mean, stat.squares) for path, stat in self._new.items()},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self._seen = {path: RunningStat(*parts) for path, parts in state["seen"].items()}
        self._new = {path: RunningStat(*parts) for path, parts in state["new"].items()}

    def reset_state(self) -> None:
        self._seen, self._new = {}, {}

    def merge_states(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the statistics of all that the given runners saw.

        Args:
            states: Of runners that began with the same statistics, by `set_state` of an earlier merge.
        """
        merged: dict[tuple[Any, ...], RunningStat] = {}
        # The base is what was seen before the last merge: the same for all, so the first that has it gives it.
        for state in states:
            for path, parts in state["seen"].items():
                if path not in merged:
                    merged[path] = without(RunningStat(*parts), state["new"].get(path))
        for state in states:
            for path, parts in state["new"].items():
                merged[path] = merged[path].merge(RunningStat(*parts))
        return {
            "seen": {path: (stat.count, stat.mean, stat.squares) for path, stat in merged.items()},
            "new": {},
        }


def without(whole: RunningStat, part: Any) -> RunningStat:
    """Return the statistics of what is in the whole but not in the part."""
    if part is None:
        return whole
    taken = RunningStat(*part)
    count = whole.count - taken.count
    if count <= 0:
        return RunningStat.empty(whole.mean.shape)
    mean = (whole.mean * whole.count - taken.mean * taken.count) / count
    delta = taken.mean - mean
    squares = whole.squares - taken.squares - delta**2 * (count * taken.count / whole.count)
    return RunningStat(count, mean, np.maximum(squares, 0.0))
