"""MultiAgentEpisode: the steps of an environment with several agents, each with an episode of its own.

An agent's step reaches from one of its observations to its next. Rewards in between are added up, so that agents
may act in turns, skip steps, come late and leave early.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from skate.rllib.env.episode_buffer import InfiniteLookbackBuffer
from skate.rllib.env.multi_agent_columns import EpisodeReads
from skate.rllib.env.multi_agent_parts import EpisodeParts, space_of_agent
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.error import MultiAgentEnvError

ALL = "__all__"
DEFAULT_MODULE = "default_policy"


class MultiAgentEpisode(EpisodeReads, EpisodeParts):
    """Episodes of several agents in one environment.

    Args:
        id_: Name of the episode; chunks of one episode share it. Default: a new one.
        observation_space: A Dict of spaces by agent, or a plain dict.
        action_space: Likewise.
        agent_to_module_mapping_fn: Returns the module's id for an agent's id and this episode.
        env_t_started: The step of the environment at which this chunk begins.
        steps: Lists with one dict by agent for each step: ``observations`` (one more than steps), ``actions``,
            ``rewards``, ``infos``, ``extra_model_outputs``; ``terminateds`` and ``truncateds`` of the last step;
            ``len_lookback_buffer``, the number of steps that are lookback, default ``"auto"`` for all; and by agent
            ``agent_module_ids``, ``agent_episode_ids`` and ``agent_t_started``.
    """

    #: Stands in `env_t_to_agent_t` for steps in which an agent got no observation.
    SKIP_ENV_TS_TAG = "S"
    #: The step up to which the agents' steps were given at once; after their end they were not asked about.
    _given_to = -1

    def __init__(
        self,
        id_: str | None = None,
        *,
        observation_space: Any = None,
        action_space: Any = None,
        agent_to_module_mapping_fn: Callable[..., str] | None = None,
        env_t_started: int = 0,
        **steps: Any,
    ) -> None:
        self.id_ = id_ or uuid.uuid4().hex
        self.observation_space = observation_space
        self.action_space = action_space
        self.agent_to_module_mapping_fn = agent_to_module_mapping_fn
        self.env_t_started = self.env_t = env_t_started
        self.agent_episodes: dict[Any, SingleAgentEpisode] = {}
        self.is_terminated = self.is_truncated = False
        self._custom_data: dict[str, Any] = {}
        self._pending: dict[Any, dict[str, Any]] = {}
        self._early: dict[Any, float] = {}
        self._lookback = 0
        self._newest: list[Any] = []
        self._modules: dict[Any, str] = dict(steps.pop("agent_module_ids", None) or {})
        self._times: dict[Any, list[int]] = {}
        self._start_time: float | None = None
        self._last_step_time: float | None = None
        if steps:
            self._fill(**steps)
            self._given_to = self.env_t

    def __getstate__(self) -> dict[str, Any]:
        # The function may be one that no other process can load; the modules of known agents are kept.
        return {**self.__dict__, "agent_to_module_mapping_fn": None}

    @property
    def custom_data(self) -> dict[str, Any]:
        """A dict for whatever callbacks and connectors keep with the episode."""
        return self._custom_data

    @property
    def agent_ids(self) -> set[Any]:
        """Ids of the agents that appeared so far."""
        return set(self.agent_episodes)

    @property
    def agent_episode_ids(self) -> dict[Any, str]:
        """Ids of the agents' episodes."""
        return {agent_id: one.id_ for agent_id, one in self.agent_episodes.items()}

    @property
    def is_reset(self) -> bool:
        """True if the first observations are in."""
        return bool(self.agent_episodes)

    @property
    def is_numpy(self) -> bool:
        """True if the agents' columns are arrays."""
        return any(episode.is_numpy for episode in self.agent_episodes.values())

    @property
    def env_t_to_agent_t(self) -> dict[Any, InfiniteLookbackBuffer]:
        """By agent, which of its own steps each step of the environment is, from the lookback on: a number or ``"S"``.

        It is made anew each time; an agent that has not appeared has an empty one.
        """
        found: dict[Any, InfiniteLookbackBuffer] = defaultdict(InfiniteLookbackBuffer)
        begin = self.env_t_started - self._lookback
        for agent_id, one in self.agent_episodes.items():
            times = self._times[agent_id]
            first = one.t_started - one.observations.lookback
            steps = {time: first + at for at, time in enumerate(times)}
            end = times[-1] if one.is_done and times[-1] <= self._given_to else self.env_t
            data = [steps.get(time, self.SKIP_ENV_TS_TAG) for time in range(begin, end + 1)]
            found[agent_id] = InfiniteLookbackBuffer(data, lookback=self._lookback)
        return found

    def validate(self) -> None:
        """Check that the columns of every agent have lengths that go together."""
        for episode in self.agent_episodes.values():
            episode.validate()

    def module_for(self, agent_id: Any) -> str:
        """Return the id of the module that acts for an agent; it stays the same for the whole episode."""
        if agent_id not in self._modules:
            mapping = self.agent_to_module_mapping_fn
            self._modules[agent_id] = DEFAULT_MODULE if mapping is None else mapping(agent_id, self)
        return self._modules[agent_id]

    @property
    def modules_in_use(self) -> set[str]:
        """The ids of the modules that act for the agents seen so far."""
        return set(self._modules.values())

    def add_env_reset(
        self, *, observations: Mapping[Any, Any], infos: Mapping[Any, Any] | None = None
    ) -> None:
        """Add the first observations.

        Args:
            observations: By agent.
            infos: By agent.
        """
        assert not self.is_reset, "this episode was reset already; make a new one"
        self._start_time = time.perf_counter()
        self._newest = list(observations)
        for agent_id, observation in observations.items():
            self._appear(agent_id, observation, (infos or {}).get(agent_id))

    def _appear(self, agent_id: Any, observation: Any, info: Any) -> None:
        made = SingleAgentEpisode(
            observation_space=space_of_agent(self.observation_space, agent_id),
            action_space=space_of_agent(self.action_space, agent_id),
            agent_id=agent_id,
            module_id=self.module_for(agent_id),
            multi_agent_episode_id=self.id_,
        )
        made.add_env_reset(observation, info)
        self.agent_episodes[agent_id] = made
        self._times[agent_id] = [self.env_t]

    def add_env_step(
        self,
        observations: Mapping[Any, Any],
        actions: Mapping[Any, Any],
        rewards: Mapping[Any, Any],
        infos: Mapping[Any, Any] | None = None,
        *,
        terminateds: Mapping[Any, bool] | bool | None = None,
        truncateds: Mapping[Any, bool] | bool | None = None,
        extra_model_outputs: Mapping[Any, dict[str, Any]] | None = None,
    ) -> None:
        """Add one step of the environment.

        Args:
            observations: By agent; agents without one do not act next.
            actions: By agent that acted.
            rewards: By agent.
            infos: By agent.
            terminateds: By agent, and ``"__all__"``; a bool is for all.
            truncateds: By agent, and ``"__all__"``; a bool is for all.
            extra_model_outputs: By agent, what its module returned beside the action.
        """
        self._check_step(observations, actions)
        ended = terminateds if isinstance(terminateds, Mapping) else {ALL: bool(terminateds)}
        cut = truncateds if isinstance(truncateds, Mapping) else {ALL: bool(truncateds)}
        given = infos or {}
        self.env_t += 1
        self._last_step_time = time.perf_counter()
        self._newest = list(observations)
        everyone = bool(ended.get(ALL)), bool(cut.get(ALL))
        for agent_id, action in actions.items():
            pending = self._pending.setdefault(agent_id, {"reward": 0.0})
            pending["action"] = action
            pending["outputs"] = (extra_model_outputs or {}).get(agent_id, {})
        for agent_id, reward in rewards.items():
            if agent_id not in self.agent_episodes:
                # Rewards from before an agent's first observation belong to none of its actions.
                self._early[agent_id] = self._early.get(agent_id, 0.0) + reward
                continue
            pending = self._pending.setdefault(agent_id, {"reward": 0.0})
            pending["reward"] = pending["reward"] + reward
        for agent_id in {**dict.fromkeys(self.agent_episodes), **dict.fromkeys(observations)}:
            over = bool(ended.get(agent_id)) or everyone[0], bool(cut.get(agent_id)) or everyone[1]
            self._step_agent(agent_id, observations, given, over)
        self.is_terminated, self.is_truncated = everyone
        if (
            not self.is_done
            and self.agent_episodes
            and all(one.is_done for one in self.agent_episodes.values())
        ):
            self.is_terminated = True

    def _check_step(self, observations: Mapping[Any, Any], actions: Mapping[Any, Any]) -> None:
        if self.is_done:
            raise MultiAgentEnvError("this episode has ended; no step can be added to it")
        ended = {
            agent_id: self._times[agent_id][-1]
            for agent_id, one in self.agent_episodes.items()
            if one.is_done
        }
        if ended:
            check_still_takes_part(ended, {**observations, **actions}, self.env_t + 1)

    def _step_agent(
        self,
        agent_id: Any,
        observations: Mapping[Any, Any],
        infos: Mapping[Any, Any],
        over: tuple[bool, bool],
    ) -> None:
        episode = self.agent_episodes.get(agent_id)
        info = infos.get(agent_id)
        if episode is None:
            self._appear(agent_id, observations[agent_id], info)
            return
        if episode.is_done or not (agent_id in observations or any(over)):
            return
        pending = self._pending.get(agent_id)
        if pending is None or "action" not in pending:
            if agent_id in observations:
                # It did not act on its newest observation, which the new one replaces.
                episode.set_observations(at_indices=-1, new_data=observations[agent_id])
                self._times[agent_id][-1] = self.env_t
            if any(over):
                episode.is_terminated, episode.is_truncated = over
                if pending is not None and len(episode):
                    episode.set_rewards(at_indices=-1, new_data=episode.get_rewards(-1) + pending["reward"])
                self._pending.pop(agent_id, None)
            return
        last = observations[agent_id] if agent_id in observations else episode.get_observations(-1)
        episode.add_env_step(
            last,
            pending["action"],
            pending["reward"],
            info,
            terminated=over[0],
            truncated=over[1],
            extra_model_outputs=pending["outputs"],
        )
        self._times[agent_id].append(self.env_t)
        del self._pending[agent_id]

    def get_agents_to_act(self) -> set[Any]:
        """Return the ids of agents that got an observation in the last step and have not ended."""
        return {agent_id for agent_id in self.newest_agents() if not self.agent_episodes[agent_id].is_done}

    def get_agents_that_stepped(self) -> set[Any]:
        """Return the ids of agents that got an observation in the last step."""
        return set(self.newest_agents())

    def newest_agents(self) -> list[Any]:
        """Return the ids of agents that got an observation in the last step, in the environment's order."""
        # An agent that ended with the chunk before is not in this one.
        return [agent_id for agent_id in self._newest if agent_id in self.agent_episodes]

    def cut(self, len_lookback_buffer: int = 0) -> MultiAgentEpisode:
        """Return the chunk that begins where this one stops; agents that ended are not in it.

        Args:
            len_lookback_buffer: Steps of the environment that the new one remembers, and for each agent steps of its
                own.
        """
        if self.is_done:
            raise RuntimeError("this episode has ended; nothing follows it")
        made = self._continued()
        made._pending = {agent_id: dict(pending) for agent_id, pending in self._pending.items()}
        running = {agent_id: one for agent_id, one in self.agent_episodes.items() if not one.is_done}
        # The observation that a hanging action belongs to is remembered in any case.
        hanging = [
            self.env_t - self._times[each][-1] for each in running if "action" in self._pending.get(each, {})
        ]
        made._lookback = max(min(len_lookback_buffer, self._lookback + len(self)), *hanging, 0)
        for agent_id, one in running.items():
            inside = sum(time >= self.env_t - made._lookback for time in self._times[agent_id])
            made.agent_episodes[agent_id] = cut = one.cut(max(len_lookback_buffer, inside - 1))
            made._times[agent_id] = self._times[agent_id][-cut.observations.len_incl_lookback() :]
        made._newest = list(self._newest)
        made._start_time = self._start_time
        return made

    def to_numpy(self) -> MultiAgentEpisode:
        """Turn the agents' columns into arrays, in place, and return the episode."""
        for episode in self.agent_episodes.values():
            episode.to_numpy()
        return self

    def get_return(self, include_hanging_rewards: bool = False) -> float:
        """Return the sum of the rewards of all agents in this chunk.

        Args:
            include_hanging_rewards: True to count rewards of steps that have not ended, or not begun.
        """
        total = sum(float(one.get_return()) for one in self.agent_episodes.values() if len(one))
        if include_hanging_rewards:
            total += sum(each["reward"] for each in self._pending.values()) + sum(self._early.values())
        return total

    def get_terminateds(self) -> dict[Any, bool]:
        """Return by agent whether its episode ended by itself, and for ``"__all__"``."""
        return {agent_id: one.is_terminated for agent_id, one in self.agent_episodes.items()} | {
            ALL: self.is_terminated
        }

    def get_truncateds(self) -> dict[Any, bool]:
        """Return by agent whether its episode was cut off, and for ``"__all__"``."""
        return {agent_id: one.is_truncated for agent_id, one in self.agent_episodes.items()} | {
            ALL: self.is_truncated
        }

    def get_duration_s(self) -> float:
        """Return the seconds from the reset to the last step."""
        if self._last_step_time is None or self._start_time is None:
            return 0.0
        return self._last_step_time - self._start_time

    def env_steps(self) -> int:
        """Return the number of steps of the environment in this chunk."""
        return len(self)

    def agent_steps(self) -> int:
        """Return the number of steps of all agents in this chunk."""
        return sum(len(one) for one in self.agent_episodes.values())

    def __repr__(self) -> str:
        return (
            f"MAEps(len={len(self)} done={self.is_done} "
            f"Rs={ ({agent_id: one.get_return() for agent_id, one in self.agent_episodes.items()}) } id_={self.id_})"
        )


def check_still_takes_part(ended: Mapping[Any, int], taking_part: Mapping[Any, Any], now: int) -> None:
    """Raise MultiAgentEnvError if an agent that ended has an observation or an action.

    Args:
        ended: The steps at which agents ended, by agent.
        taking_part: By agent.
        now: The present step.
    """
    for agent_id, step in ended.items():
        if agent_id in taking_part:
            raise MultiAgentEnvError(
                f"agent {agent_id!r} ended at step {step} of the environment, and has an observation or action at step "
                f"{now}; an agent that ended takes part no more"
            )
