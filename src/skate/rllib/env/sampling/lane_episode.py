"""The episode of a lane while it is sampled: it takes its steps from those of all lanes when somebody reads it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from skate.rllib.core.columns import Columns
from skate.rllib.env.episode_buffer import Indices, InfiniteLookbackBuffer
from skate.rllib.env.lanes import Step
from skate.rllib.env.sampling.action_source import ActionSource
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.metrics import WEIGHTS_SEQ_NO


@dataclass(slots=True)
class Acted:
    """One step of all lanes with what led to it.

    Attributes:
        seen: The batch that the module acted on.
        outputs: What came out beside actions, one item per lane.
        actions: The module's actions, one per lane.
        step: The step of the lanes.
        weights_seq_no: Version of the weights that chose the actions.
        source: Where the actions come from, if their log-probabilities are among the outputs but not computed yet.
        finals: The batch made of the observations after the step, where lanes that ended have their last one.
        ended_at: When the step was over, in seconds of `time.perf_counter`.
    """

    seen: dict[str, Any]
    outputs: dict[str, Sequence[Any]]
    actions: Sequence[Any]
    step: Step
    weights_seq_no: int = 0
    source: ActionSource | None = None
    finals: dict[str, Any] = field(default_factory=dict)
    ended_at: float = field(default_factory=time.perf_counter)

    def whole_outputs(self) -> dict[str, Sequence[Any]]:
        """Return the outputs with the log-probabilities of the actions."""
        if self.source is not None:
            inputs, actions = self.outputs[Columns.ACTION_DIST_INPUTS], self.actions
            self.outputs[Columns.ACTION_LOGP] = self.source.logp(inputs, actions)
            self.source = None
        return self.outputs

    def observed(self, lane: int) -> Any:
        """Return a lane's observation after the step; the last one of an episode that ended."""
        final = self.step.finals.get(lane)
        return self.step.observations[lane] if final is None else final[0]

    def informed(self, lane: int) -> dict[str, Any]:
        """Return a lane's infos that go with `observed`."""
        final = self.step.finals.get(lane)
        infos: dict[str, Any] = self.step.infos[lane] if final is None else final[1]
        return infos or {}


class LaneEpisode(SingleAgentEpisode):
    """An episode that reads its newest steps from those of all lanes, and becomes a plain one in the end.

    Callbacks that look at few of the steps cost little so; one that looks at all of them sees what it would see in a
    `SingleAgentEpisode`.
    """

    #: The steps of all lanes since sampling began, this episode's lane, and the range of those not taken yet.
    taken: list[Acted]
    lane: int
    since: int
    until: int

    @classmethod
    def attach(cls, episode: SingleAgentEpisode, taken: list[Acted], lane: int) -> LaneEpisode:
        """Turn a plain episode, in place, into one that reads the coming steps of a lane."""
        if isinstance(episode, cls):
            episode.detach()
        # The object stays the same, since callbacks may hold it from one sample to the next.
        episode.__class__ = cls
        made: Any = episode
        made.taken, made.lane = taken, lane
        made.since = made.until = len(taken)
        attached: LaneEpisode = made
        return attached

    def detach(self) -> None:
        """Take all steps, and become a plain episode."""
        self.fill()
        for name in ("taken", "lane", "since", "until"):
            del self.__dict__[name]
        self.__class__ = SingleAgentEpisode  # type: ignore[assignment]

    def begin(self, observation: Any, infos: dict[str, Any]) -> None:
        """Add the first observation, which comes after the steps that all lanes have taken so far."""
        self.add_env_reset(observation, infos)
        self.since = self.until = len(self.taken)

    def fill(self) -> None:
        """Take the steps that were not taken yet."""
        since, until = self.since, self.until
        if since == until:
            return
        self.since = until
        held, lane, steps = self.__dict__, self.lane, self.taken[since:until]
        held["observations"].extend([each.observed(lane) for each in steps])
        held["infos"].extend([each.informed(lane) for each in steps])
        held["actions"].extend([each.actions[lane] for each in steps])
        held["rewards"].extend([each.step.rewards[lane] for each in steps])
        outputs: dict[str, list[Any]] = {}
        for each in steps:
            for key, values in each.whole_outputs().items():
                outputs.setdefault(key, []).append(values[lane])
        outputs[WEIGHTS_SEQ_NO] = [each.weights_seq_no for each in steps]
        columns = held["extra_model_outputs"]
        for key, items in outputs.items():
            if key in columns:
                columns[key].extend(items)
            else:
                columns[key] = InfiniteLookbackBuffer(items)
        self._last_step_time = steps[-1].ended_at
        if self._start_time is None:
            self._start_time = steps[0].ended_at

    def newest(self) -> Any:
        """Return the newest observation, without taking steps."""
        if self.since < self.until:
            return self.taken[self.until - 1].observed(self.lane)
        return self.__dict__["observations"].get(-1)

    def replace_newest(self, observation: Any) -> None:
        """Put another observation in the place of the newest one."""
        if self.since == self.until:
            self.__dict__["observations"].set(observation, at_indices=-1)
            return
        step = self.taken[self.until - 1].step
        if self.lane in step.finals:
            step.finals[self.lane] = observation, step.finals[self.lane][1]
        else:
            step.observations[self.lane] = observation

    def _is_ahead(self, indices: Indices, how: dict[str, Any]) -> bool:
        """True if plainly the newest item is meant, and it is among the steps that were not taken yet."""
        return (
            type(indices) is int
            and indices == -1
            and self.since < self.until
            and not self.__dict__["rewards"].finalized
            and not how.get("neg_index_as_lookback")
            and not how.get("one_hot_discrete")
        )

    def get_observations(self, indices: Indices = None, **how: Any) -> Any:
        """Return observations; the newest one, which most readers want, without taking steps."""
        return self.newest() if self._is_ahead(indices, how) else super().get_observations(indices, **how)

    def set_observations(self, *, new_data: Any, at_indices: Indices = None, **how: Any) -> None:
        """Overwrite observations; the newest one without taking steps."""
        if self._is_ahead(at_indices, how):
            self.replace_newest(new_data)
        else:
            super().set_observations(new_data=new_data, at_indices=at_indices, **how)

    def get_rewards(self, indices: Indices = None, **how: Any) -> Any:
        """Return rewards; the newest one without taking steps."""
        if self._is_ahead(indices, how):
            return self.taken[self.until - 1].step.rewards[self.lane]
        return super().get_rewards(indices, **how)

    def get_actions(self, indices: Indices = None, **how: Any) -> Any:
        """Return actions; the newest one without taking steps."""
        if self._is_ahead(indices, how):
            return self.taken[self.until - 1].actions[self.lane]
        return super().get_actions(indices, **how)

    @property
    def observation_space(self) -> gym.Space[Any] | None:
        """The space of one observation."""
        space: gym.Space[Any] | None = self.__dict__["observations"].space
        return space

    @observation_space.setter
    def observation_space(self, space: gym.Space[Any] | None) -> None:
        self.__dict__["observations"].space = space

    @property
    def action_space(self) -> gym.Space[Any] | None:
        """The space of one action."""
        space: gym.Space[Any] | None = self.__dict__["actions"].space
        return space

    @action_space.setter
    def action_space(self, space: gym.Space[Any] | None) -> None:
        self.__dict__["actions"].space = space

    def get_duration_s(self) -> float:
        """Return the seconds from the reset to the last step."""
        self.fill()
        return super().get_duration_s()

    def get_state(self) -> dict[str, Any]:
        """Return this episode as a picklable dict."""
        self.fill()
        return super().get_state()

    def __reduce__(self) -> tuple[Any, ...]:
        self.fill()
        links = ("taken", "lane", "since", "until")
        return plain, ({name: value for name, value in self.__dict__.items() if name not in links},)


def plain(attributes: dict[str, Any]) -> SingleAgentEpisode:
    """Return an episode with the given attributes."""
    made = SingleAgentEpisode.__new__(SingleAgentEpisode)
    made.__dict__.update(attributes)
    return made


def filled(name: str) -> property:
    """Return an attribute that takes the missing steps before it is read."""

    def read(self: LaneEpisode) -> Any:
        self.fill()
        return self.__dict__[name]

    def write(self: LaneEpisode, value: Any) -> None:
        self.__dict__[name] = value

    return property(read, write)


for _name in ("observations", "infos", "actions", "rewards", "extra_model_outputs"):
    # These have setters, so they come before the values of the same name that the object itself holds.
    setattr(LaneEpisode, _name, filled(_name))
