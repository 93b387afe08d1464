"""SingleAgentEpisode: the steps of one agent from a reset on, or a chunk of them with a lookback."""

from __future__ import annotations

import copy
import time
import uuid
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from skate.rllib.core.columns import Columns
from skate.rllib.env.episode_buffer import Indices, InfiniteLookbackBuffer, equal

_REWARD_SPACE = spaces.Box(float("-inf"), float("inf"), (), np.float32)


class SingleAgentEpisode:
    """Observations, actions, rewards, infos and outputs of the module, step by step.

    An episode of n steps has n + 1 observations and infos, and n of everything else.

    Args:
        id_: Name of the episode; chunks of one episode share it. Default: a new one.
        observations: Items, or a buffer, with the lookback.
        observation_space: The space of one observation.
        infos: Dicts, as many as observations. Default: empty ones.
        actions: Items or a buffer.
        action_space: The space of one action.
        rewards: Numbers or a buffer.
        terminated: True if the episode ended by itself.
        truncated: True if the episode was cut off.
        extra_model_outputs: Lists or buffers by name.
        t_started: The step at which this chunk begins.
        len_lookback_buffer: Number of steps in the lists that are lookback; ``"auto"`` for all.
        agent_id: Agent, in an episode of many.
        module_id: Module that acts for it.
        multi_agent_episode_id: Name of the episode of many agents.
    """

    def __init__(
        self,
        id_: str | None = None,
        *,
        observations: Any = None,
        observation_space: gym.Space[Any] | None = None,
        infos: Any = None,
        actions: Any = None,
        action_space: gym.Space[Any] | None = None,
        rewards: Any = None,
        terminated: bool = False,
        truncated: bool = False,
        extra_model_outputs: dict[str, Any] | None = None,
        t_started: int | None = None,
        len_lookback_buffer: int | str = "auto",
        agent_id: Any = None,
        module_id: str | None = None,
        multi_agent_episode_id: str | None = None,
    ) -> None:
        self.id_ = id_ or uuid.uuid4().hex
        self.agent_id, self.module_id = agent_id, module_id
        self.multi_agent_episode_id = multi_agent_episode_id
        steps = len(rewards) if rewards is not None else 0
        lookback = steps if isinstance(len_lookback_buffer, str) else min(len_lookback_buffer, steps)
        if not infos and not isinstance(infos, InfiniteLookbackBuffer):
            infos = [{} for _ in range(0 if observations is None else len(observations))]

        def column(given: Any, space: gym.Space[Any] | None = None) -> InfiniteLookbackBuffer:
            return (
                given
                if isinstance(given, InfiniteLookbackBuffer)
                else InfiniteLookbackBuffer(given, lookback, space)
            )

        self.observations = column(observations)
        self.infos = column(infos)
        self.actions = column(actions)
        self.rewards = column(rewards, _REWARD_SPACE)
        self.extra_model_outputs = {key: column(value) for key, value in (extra_model_outputs or {}).items()}
        self.observation_space = observation_space
        self.action_space = action_space
        self.is_terminated, self.is_truncated = terminated, truncated
        self.t_started = t_started or 0
        self.t = self.t_started + len(self.rewards)
        self._custom_data: dict[str, Any] = {}
        self._start_time: float | None = None
        self._last_step_time: float | None = None
        self.validate()

    @property
    def observation_space(self) -> gym.Space[Any] | None:
        """The space of one observation."""
        return self.observations.space

    @observation_space.setter
    def observation_space(self, space: gym.Space[Any] | None) -> None:
        self.observations.space = space

    @property
    def action_space(self) -> gym.Space[Any] | None:
        """The space of one action."""
        return self.actions.space

    @action_space.setter
    def action_space(self, space: gym.Space[Any] | None) -> None:
        self.actions.space = space

    @property
    def custom_data(self) -> dict[str, Any]:
        """A dict for whatever callbacks and connectors keep with the episode."""
        return self._custom_data

    @property
    def is_reset(self) -> bool:
        """True if the first observation is in."""
        return len(self.observations) > 0

    @property
    def is_done(self) -> bool:
        """True if the episode has ended."""
        return self.is_terminated or self.is_truncated

    @property
    def is_numpy(self) -> bool:
        """True if the columns are arrays."""
        return self.rewards.finalized

    def add_env_reset(self, observation: Any, infos: dict[str, Any] | None = None) -> None:
        """Add the first observation.

        Args:
            observation: As the environment returned it.
            infos: As the environment returned them.
        """
        assert not self.is_reset, "this episode was reset already; make a new one"
        self.observations.append(observation)
        self.infos.append(infos or {})
        self._start_time = time.perf_counter()

    def add_env_step(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        infos: dict[str, Any] | None = None,
        *,
        terminated: bool = False,
        truncated: bool = False,
        extra_model_outputs: dict[str, Any] | None = None,
    ) -> None:
        """Add one step.

        Args:
            observation: The observation after the step.
            action: The action that was taken.
            reward: The reward of the step.
            infos: The infos of the step.
            terminated: True if the episode ended by itself.
            truncated: True if the episode was cut off.
            extra_model_outputs: What the module returned beside the action.
        """
        assert not self.is_done, "this episode has ended; no step can be added to it"
        self.observations.append(observation)
        self.actions.append(action)
        self.rewards.append(reward)
        self.infos.append(infos or {})
        self.t += 1
        for key, value in (extra_model_outputs or {}).items():
            held = self.extra_model_outputs.get(key)
            if held is None:
                self.extra_model_outputs[key] = InfiniteLookbackBuffer([value])
            else:
                held.append(value)
        self.is_terminated, self.is_truncated = terminated, truncated
        self._last_step_time = time.perf_counter()
        if self._start_time is None:
            self._start_time = self._last_step_time

    def validate(self) -> None:
        """Raise AssertionError if the columns disagree about the number of steps."""
        seen, steps = len(self.observations), len(self.rewards)
        sizes = {"infos": len(self.infos), "actions": len(self.actions), "rewards": steps}
        assert seen == len(self.infos) and steps == len(self.actions) and steps == max(seen - 1, 0), (
            f"{seen} observations do not go with {sizes}; there have to be one observation and one info more than steps"
        )
        for key, value in self.extra_model_outputs.items():
            assert len(value) == steps, f"{key!r} has {len(value)} values for {steps} steps"

    def to_numpy(self) -> SingleAgentEpisode:
        """Turn the columns into arrays, in place, and return the episode."""
        self.validate()
        self.observations.finalize()
        if len(self):
            for column in (self.actions, self.rewards, *self.extra_model_outputs.values()):
                column.finalize()
        return self

    def concat_episode(self, other: SingleAgentEpisode) -> None:
        """Add the steps of the chunk that follows this one.

        Args:
            other: Has the same id and begins with the last observation of this chunk.
        """
        assert other.id_ == self.id_ and not self.is_done and other.t_started == self.t, (
            f"{other} does not follow {self}: ids have to agree, and it has to begin at step {self.t}"
        )
        self.validate()
        other.validate()
        assert equal(self.get_observations(-1), other.get_observations(0)), (
            "the chunks do not share an observation"
        )
        self.observations.pop()
        self.infos.pop()
        for own, new in (
            (self.observations, other.observations),
            (self.actions, other.actions),
            (self.rewards, other.rewards),
            (self.infos, other.infos),
        ):
            own.concat(new)
        for key, values in other.extra_model_outputs.items():
            self.extra_model_outputs.setdefault(key, InfiniteLookbackBuffer()).concat(values)
        self.t = other.t
        self.is_terminated, self.is_truncated = (
            other.is_terminated,
            other.is_truncated and not other.is_terminated,
        )
        self.custom_data.update(other.custom_data)
        self.validate()

    def cut(self, len_lookback_buffer: int = 0) -> SingleAgentEpisode:
        """Return the chunk that begins where this one stops.

        Args:
            len_lookback_buffer: Steps of this chunk that the new one remembers.
        """
        assert not self.is_done, "this episode has ended; nothing follows it"
        assert len_lookback_buffer >= 0
        seen = slice(-len_lookback_buffer - 1, None)
        steps = slice(-len_lookback_buffer, None) if len_lookback_buffer else slice(None, 0)
        made = SingleAgentEpisode(
            id_=self.id_,
            observations=self.get_observations(seen),
            observation_space=self.observation_space,
            infos=self.get_infos(seen),
            actions=self.get_actions(steps),
            action_space=self.action_space,
            rewards=self.get_rewards(steps),
            extra_model_outputs={key: value.get(steps) for key, value in self.extra_model_outputs.items()},
            t_started=self.t,
            agent_id=self.agent_id,
            module_id=self.module_id,
            multi_agent_episode_id=self.multi_agent_episode_id,
        )
        made._custom_data = copy.deepcopy(self._custom_data)
        return made

    def get_observations(
        self,
        indices: Indices = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        """Return observations; arguments as of `InfiniteLookbackBuffer.get`."""  # fmt: skip
        return self.observations.get(
            indices, neg_index_as_lookback=neg_index_as_lookback, fill=fill, one_hot_discrete=one_hot_discrete
        )

    def get_infos(
        self, indices: Indices = None, *, neg_index_as_lookback: bool = False, fill: Any = None
    ) -> Any:
        """Return infos; arguments as of `InfiniteLookbackBuffer.get`."""
        return self.infos.get(indices, neg_index_as_lookback=neg_index_as_lookback, fill=fill)

    def get_actions(
        self,
        indices: Indices = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        """Return actions; arguments as of `InfiniteLookbackBuffer.get`."""  # fmt: skip
        return self.actions.get(
            indices, neg_index_as_lookback=neg_index_as_lookback, fill=fill, one_hot_discrete=one_hot_discrete
        )

    def get_rewards(
        self, indices: Indices = None, *, neg_index_as_lookback: bool = False, fill: Any = None
    ) -> Any:
        """Return rewards; arguments as of `InfiniteLookbackBuffer.get`."""
        return self.rewards.get(indices, neg_index_as_lookback=neg_index_as_lookback, fill=fill)

    def get_extra_model_outputs(
        self, key: str, indices: Indices = None, *, neg_index_as_lookback: bool = False, fill: Any = None
    ) -> Any:
        """Return one output of the module; arguments as of `InfiniteLookbackBuffer.get`."""
        return self.extra_model_outputs[key].get(
            indices, neg_index_as_lookback=neg_index_as_lookback, fill=fill
        )

    def set_observations(
        self, *, new_data: Any, at_indices: Indices = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite observations; arguments as of `InfiniteLookbackBuffer.set`."""
        self.observations.set(new_data, at_indices=at_indices, neg_index_as_lookback=neg_index_as_lookback)

    def set_actions(
        self, *, new_data: Any, at_indices: Indices = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite actions; arguments as of `InfiniteLookbackBuffer.set`."""
        self.actions.set(new_data, at_indices=at_indices, neg_index_as_lookback=neg_index_as_lookback)

    def set_rewards(
        self, *, new_data: Any, at_indices: Indices = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite rewards; arguments as of `InfiniteLookbackBuffer.set`."""
        self.rewards.set(new_data, at_indices=at_indices, neg_index_as_lookback=neg_index_as_lookback)

    def set_extra_model_outputs(
        self, *, key: str, new_data: Any, at_indices: Indices = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite one output of the module; arguments as of `InfiniteLookbackBuffer.set`.

        Raises:
            AssertionError: the module has no output of that name.
        """
        assert key in self.extra_model_outputs, (
            f"there is no output {key!r} to overwrite; there are {list(self.extra_model_outputs)}"
        )
        self.extra_model_outputs[key].set(
            new_data, at_indices=at_indices, neg_index_as_lookback=neg_index_as_lookback
        )

    def slice(self, slice_: slice, *, len_lookback_buffer: int | None = None) -> SingleAgentEpisode:
        """Return a part of this chunk as an episode of its own.

        Args:
            slice_: Steps of this chunk; its end counts from this chunk's own end if negative.
            len_lookback_buffer: Steps before the part that it remembers; default as many as this chunk does.
        """
        size = len(self)
        start = 0 if slice_.start is None else slice_.start + (size if slice_.start < 0 else 0)
        stop = size if slice_.stop is None else slice_.stop + (size if slice_.stop < 0 else 0)
        start, whole = max(start, 0), stop == size
        stop = max(stop, start)

        def part(
            column: InfiniteLookbackBuffer, extra: int, space: gym.Space[Any] | None = None
        ) -> InfiniteLookbackBuffer:
            lookback = column.lookback if len_lookback_buffer is None else len_lookback_buffer
            lookback = min(lookback, column.lookback + start)
            chosen = slice(start - lookback, stop + extra, slice_.step)
            return InfiniteLookbackBuffer(column.get(chosen, neg_index_as_lookback=True), lookback, space)

        return SingleAgentEpisode(
            id_=self.id_,
            observations=part(self.observations, 1),
            observation_space=self.observation_space,
            infos=part(self.infos, 1),
            actions=part(self.actions, 0),
            action_space=self.action_space,
            rewards=part(self.rewards, 0, _REWARD_SPACE),
            extra_model_outputs={key: part(value, 0) for key, value in self.extra_model_outputs.items()},
            terminated=self.is_terminated and whole,
            truncated=self.is_truncated and whole,
            t_started=self.t_started + start,
            agent_id=self.agent_id,
            module_id=self.module_id,
            multi_agent_episode_id=self.multi_agent_episode_id,
        )

    def __getitem__(self, item: Any) -> SingleAgentEpisode:
        if isinstance(item, slice):
            return self.slice(item)
        raise NotImplementedError(
            f"episode[{item!r}] is not one step; write episode[a:b], or get_observations({item!r})"
        )

    def get_data_dict(self) -> dict[str, Any]:
        """Return all columns by name, one value per step."""
        size = len(self)
        kept: dict[str, Any] = {
            Columns.TERMINATEDS: [False] * (size - 1) + [self.is_terminated],
            Columns.TRUNCATEDS: [False] * (size - 1) + [self.is_truncated],
            Columns.T: list(range(self.t_started, self.t)),
            Columns.EPS_ID: [self.id_] * size,
        }
        if self.is_numpy:
            kept = {key: np.array(value) for key, value in kept.items()}
        kept[Columns.OBS] = self.get_observations(slice(None, -1))
        kept[Columns.INFOS] = self.get_infos(slice(None, -1))
        kept[Columns.ACTIONS], kept[Columns.REWARDS] = self.get_actions(), self.get_rewards()
        return kept | {key: value.get() for key, value in self.extra_model_outputs.items()}

    def get_return(self) -> float:
        """Return the sum of the rewards of this chunk."""
        return sum(self.get_rewards())  # type: ignore[no-any-return]

    def get_duration_s(self) -> float:
        """Return the seconds from the reset to the last step."""
        if self._last_step_time is None or self._start_time is None:
            return 0.0
        return self._last_step_time - self._start_time

    def env_steps(self) -> int:
        """Return the number of steps of this chunk."""
        return len(self)

    def agent_steps(self) -> int:
        """Return the number of steps of this chunk."""
        return len(self)

    def __len__(self) -> int:
        return self.t - self.t_started

    def __repr__(self) -> str:
        return f"SAEps(len={len(self)} done={self.is_done} R={self.get_return()} id_={self.id_})"

    _PLAIN = (
        "id_", "agent_id", "module_id", "multi_agent_episode_id", "is_terminated", "is_truncated", "t_started", "t",
        "_start_time", "_last_step_time",
    )  # fmt: skip
    _BUFFERS = ("observations", "actions", "rewards", "infos")

    def get_state(self) -> dict[str, Any]:
        """Return this episode as a picklable dict."""
        state = {name: getattr(self, name) for name in self._PLAIN}
        state |= {name: getattr(self, name).get_state() for name in self._BUFFERS}
        outputs = {key: value.get_state() for key, value in self.extra_model_outputs.items()}
        return state | {"extra_model_outputs": outputs, "custom_data": self._custom_data}

    @staticmethod
    def from_state(state: dict[str, Any]) -> SingleAgentEpisode:
        """Return the episode that `get_state` described."""
        made = SingleAgentEpisode()
        for name in SingleAgentEpisode._PLAIN:
            setattr(made, name, state[name])
        for name in SingleAgentEpisode._BUFFERS:
            setattr(made, name, InfiniteLookbackBuffer.from_state(state[name]))
        outputs = state["extra_model_outputs"] or {}
        made.extra_model_outputs = {
            key: InfiniteLookbackBuffer.from_state(value) for key, value in outputs.items()
        }
        made._custom_data = state.get("custom_data", {})
        return made
