"""MeanStdFilter: observations with mean zero and deviation one, by running statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from skate.rllib.connectors.env_to_module.observation_preprocessor import PerAgentObservations
from skate.rllib.utils.filter import Moments, deviations, packed, unpacked, without

#: Batches of rows that are kept at most until they are counted as new.
_MOST_WAITING = 256


#: By agent and path in its space.
Statistics = dict[tuple[Any, ...], Moments]


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
        self._seen: Statistics = {}
        self._new: Statistics = {}
        #: Rows that are not in `_new` yet.
        self._waiting: dict[tuple[Any, ...], list[np.ndarray]] = {}
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
        found: np.ndarray = self._normalized_rows(np.asarray(value, np.float64)[None], path)[0]
        return found

    def preprocess_batch(self, observations: list[Any], episodes: list[Any]) -> Sequence[Any]:
        by_rows = isinstance(self.input_observation_space, gym.spaces.Box) and not self.multi_agent
        if not by_rows or not observations or type(self).preprocess is not MeanStdFilter.preprocess:
            return super().preprocess_batch(observations, episodes)
        return list(self._normalized_rows(np.array(observations, np.float64), (None,)))

    def _normalized_rows(self, rows: np.ndarray, path: tuple[Any, ...]) -> np.ndarray:
        """Return rows of observations normalized, each by the statistics with it and without those after it."""
        seen = self._seen.get(path)
        if seen is None:
            seen = self._seen[path] = Moments.empty(rows.shape[1:])
        if self.update_stats:
            self._waiting.setdefault(path, []).append(rows)
            if len(self._waiting[path]) == _MOST_WAITING:
                self._count_new()
            counts, means, squares = seen.push(rows)
        else:
            counts, means, squares = np.array(float(seen.count)), seen.mean, seen.squares
        made = rows
        if self.de_mean_to_zero:
            made = made - means
        if self.de_std_to_one:
            made = made / (deviations(counts, squares) + 1e-8)
        if self.clip_by_value is not None:
            made = np.minimum(np.maximum(made, -self.clip_by_value), self.clip_by_value)
        return made.astype(np.float32)

    def _count_new(self) -> None:
        """Add the rows that wait to the statistics since the last merge: many at once, which gives the same bits."""
        for path, waiting in self._waiting.items():
            rows = np.concatenate(waiting)
            self._new.setdefault(path, Moments.empty(rows.shape[1:])).push(rows)
        self._waiting = {}

    def _spaces(self) -> dict[Any, Any]:
        """Return the space of each agent; that of None if agents are not told apart."""
        space: Any = self.input_observation_space
        if space is None:
            return {}
        return dict(space.spaces) if self.multi_agent else {None: space}

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the statistics by agent, as Ray has them in checkpoints."""
        self._count_new()
        return self._state_of(self._seen, self._new)

    def _state_of(self, seen: Statistics, new: Statistics) -> dict[Any, Any]:
        return {
            agent: {
                "shape": shape_of(space),
                "de_mean_to_zero": self.de_mean_to_zero,
                "de_std_to_one": self.de_std_to_one,
                "clip_by_value": self.clip_by_value,
                "running_stats": [
                    packed(seen.get(path, Moments.empty(shape)), new.get(path, Moments.empty(shape)))
                    for path, shape in numbers_in(space, (agent,))
                ],
            }
            for agent, space in self._spaces().items()
        }

    def _statistics_in(self, state: dict[Any, Any]) -> tuple[Statistics, Statistics]:
        seen, new = {}, {}
        spaces = self._spaces()
        for agent, held in state.items():
            if agent not in spaces:
                raise KeyError(f"the state is of agent {agent!r}; this filter has {list(spaces)}")
            paths = (path for path, _ in numbers_in(spaces[agent], (agent,)))
            for path, each in zip(paths, held["running_stats"], strict=True):
                seen[path], new[path] = unpacked(each)
        return seen, new

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from statistics, Ray's as well; the kind of normalization is theirs too.

        Raises:
            KeyError: They are of an agent that this filter does not have.
        """
        for held in state.values():
            self.de_mean_to_zero, self.de_std_to_one = held["de_mean_to_zero"], held["de_std_to_one"]
            self.clip_by_value = held["clip_by_value"]
        seen, _ = self._statistics_in(state)
        self._seen.update(seen)
        # Several runners may continue from this state; what is in it is new to none of them.
        self._new, self._waiting = {}, {}

    def reset_state(self) -> None:
        self._seen, self._new, self._waiting = {}, {}, {}

    def merge_states(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the statistics of all that the given runners saw.

        Args:
            states: Of runners that began with the same statistics, by `set_state` of an earlier merge.
        """
        merged: Statistics = {}
        found = [self._statistics_in(state) for state in states]
        # The base is what was seen before the last merge: the same for all, so the first that has it gives it.
        for seen, new in found:
            for path, each in seen.items():
                if path not in merged:
                    merged[path] = without(each, new[path])
        for _, new in found:
            for path, each in new.items():
                merged[path] = merged[path].merge(each)
        return self._state_of(merged, {})


def numbers_in(space: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], tuple[int, ...]]]:
    """Yield the path and the shape of each Box in a space."""
    if isinstance(space, gym.spaces.Dict):
        for key, inner in space.spaces.items():
            yield from numbers_in(inner, (*path, key))
    elif isinstance(space, gym.spaces.Tuple):
        for at, inner in enumerate(space.spaces):
            yield from numbers_in(inner, (*path, at))
    elif isinstance(space, gym.spaces.Box):
        yield path, space.shape


def shape_of(space: Any) -> Any:
    """Return the shapes in a space, nested as the space is; None in the place of choices."""
    if isinstance(space, gym.spaces.Dict):
        return {key: shape_of(inner) for key, inner in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(shape_of(inner) for inner in space.spaces)
    return np.array(space.shape) if isinstance(space, gym.spaces.Box) else None
