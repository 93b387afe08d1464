"""MultiAgentEpisode: the steps of an environment with several agents, each with an episode of its own.

An agent's step reaches from one of its observations to its next. Rewards in between are added up, so that agents
may act in turns, skip steps, come late and leave early.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from skate.rllib.env.episode_buffer import Indices, InfiniteLookbackBuffer
from skate.rllib.env.multi_agent_parts import EpisodeParts, space_of_agent, wanted
from skate.rllib.env.single_agent_episode import SingleAgentEpisode

ALL = "__all__"
DEFAULT_MODULE = "default_policy"


class MultiAgentEpisode(EpisodeParts):
    """Episodes of several agents in one environment.

    Args:
        id_: Name of the episode; chunks of one episode share it. Default: a new one.
        observation_space: A Dict of spaces by agent, or a plain dict.
        action_space: Likewise.
        agent_to_module_mapping_fn: Returns the module's id for an agent's id and this episode.
        env_t_started: The step of the environment at which this chunk begins.
        steps: Lists with one dict by agent for each step: ``observations`` (one more than steps), ``actions``,
            ``rewards``, ``infos``, ``extra_model_outputs``; ``terminateds`` and ``truncateds`` of the last step; and
            ``len_lookback_buffer``, the number of steps that are lookback, default ``"auto"`` for all.
    """

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
        self._steps = {
            name: InfiniteLookbackBuffer() for name in ("observations", "infos", "actions", "rewards")
        }
        self._modules: dict[Any, str] = {}
        self._times: dict[Any, list[int]] = {}
        self._start_time: float | None = None
        self._last_step_time: float | None = None
        if steps:
            self._fill(**steps)

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
    def is_reset(self) -> bool:
        """True if the first observations are in."""
        return len(self._steps["observations"]) > 0

    @property
    def is_numpy(self) -> bool:
        """True if the agents' columns are arrays."""
        return any(episode.is_numpy for episode in self.agent_episodes.values())

    def module_for(self, agent_id: Any) -> str:
        """Return the id of the module that acts for an agent; it stays the same for the whole episode."""
        if agent_id not in self._modules:
            mapping = self.agent_to_module_mapping_fn
            self._modules[agent_id] = DEFAULT_MODULE if mapping is None else mapping(agent_id, self)
        return self._modules[agent_id]

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
        self._steps["observations"].append(dict(observations))
        self._steps["infos"].append(dict(infos or {}))
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
        assert not self.is_done, "this episode has ended; no step can be added to it"
        ended = terminateds if isinstance(terminateds, Mapping) else {ALL: bool(terminateds)}
        cut = truncateds if isinstance(truncateds, Mapping) else {ALL: bool(truncateds)}
        given = infos or {}
        self.env_t += 1
        self._last_step_time = time.perf_counter()
        for name, values in (
            ("observations", observations),
            ("actions", actions),
            ("rewards", rewards),
            ("infos", given),
        ):
            self._steps[name].append({agent: value for agent, value in values.items() if agent != ALL})
        everyone = bool(ended.get(ALL)), bool(cut.get(ALL))
        for agent_id, action in actions.items():
            pending = self._pending.setdefault(agent_id, {"reward": 0.0})
            pending["action"] = action
            pending["outputs"] = (extra_model_outputs or {}).get(agent_id, {})
        for agent_id, reward in rewards.items():
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
            self.is_terminated = ended.get(ALL, True) is True

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
            # Rewards from before an agent's first observation belong to none of its actions.
            self._pending.pop(agent_id, None)
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
        return {
            agent_id
            for agent_id in self.get_agents_that_stepped()
            if not self.agent_episodes[agent_id].is_done
        }

    def get_agents_that_stepped(self) -> list[Any]:
        """Return the ids of agents that got an observation in the last step, in the environment's order."""
        newest = self._steps["observations"]
        # An agent that ended with the chunk before is not in this one.
        agents = newest.get(-1) if newest.len_incl_lookback() else ()
        return [agent_id for agent_id in agents if agent_id in self.agent_episodes]

    def cut(self, len_lookback_buffer: int = 0) -> MultiAgentEpisode:
        """Return the chunk that begins where this one stops; agents that ended are not in it.

        Args:
            len_lookback_buffer: Steps of the environment that the new one remembers, and for each agent steps of its
                own.
        """
        assert not self.is_done, "this episode has ended; nothing follows it"
        made = self._continued()
        made._pending = {agent_id: dict(pending) for agent_id, pending in self._pending.items()}
        running = {agent_id: one for agent_id, one in self.agent_episodes.items() if not one.is_done}
        made.agent_episodes = {agent_id: one.cut(len_lookback_buffer) for agent_id, one in running.items()}
        made._times = {
            agent_id: self._times[agent_id][-one.observations.len_incl_lookback() :]
            for agent_id, one in made.agent_episodes.items()
        }
        for name, buffer in self._steps.items():
            extra = int(name in ("observations", "infos"))
            kept = buffer.data[max(buffer.len_incl_lookback() - len_lookback_buffer - extra, 0) :]
            made._steps[name] = InfiniteLookbackBuffer(list(kept), max(len(kept) - extra, 0))
        made._start_time = self._start_time
        return made

    def to_numpy(self) -> MultiAgentEpisode:
        """Turn the agents' columns into arrays, in place, and return the episode."""
        for episode in self.agent_episodes.values():
            episode.to_numpy()
        return self

    def _get(
        self,
        name: str,
        indices: Indices,
        agent_ids: Any,
        env_steps: bool,
        return_list: bool,
        options: dict[str, Any],
    ) -> Any:
        if not env_steps:
            chosen = wanted(agent_ids)
            return {
                agent_id: getattr(one, f"get_{name}")(indices, **options)
                for agent_id, one in self.agent_episodes.items()
                if chosen is None or agent_id in chosen
            }
        return self._by_env_step(self._steps[name], indices, agent_ids, return_list, options)

    def _by_env_step(
        self,
        held: InfiniteLookbackBuffer,
        indices: Indices,
        agent_ids: Any,
        return_list: bool,
        options: dict[str, Any],
    ) -> Any:
        chosen = wanted(agent_ids)
        back, fill = options.get("neg_index_as_lookback", False), options.get("fill")
        found = held.get(indices, neg_index_as_lookback=back, fill=None if fill is None else {})

        def of_agents(step: dict[Any, Any]) -> dict[Any, Any]:
            kept = {
                agent_id: value for agent_id, value in step.items() if chosen is None or agent_id in chosen
            }
            if fill is not None:
                kept = {agent_id: kept.get(agent_id, fill) for agent_id in (chosen or self.agent_ids)}
            return kept

        if isinstance(found, dict):
            return of_agents(found)
        steps = [of_agents(step) for step in found]
        if return_list:
            return steps
        by_agent: dict[Any, list[Any]] = {}
        for step in steps:
            for agent_id, value in step.items():
                by_agent.setdefault(agent_id, []).append(value)
        return by_agent

    def get_observations(
        self,
        indices: Indices = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        return_list: bool = False,
        **options: Any,
    ) -> Any:
        """Return observations by agent.

        Args:
            indices: Steps; see `InfiniteLookbackBuffer.get`. An int gives one value for each agent, others lists.
            agent_ids: An id or several; all if None.
            env_steps: True if indices count steps of the environment, False if each agent's own.
            return_list: True for a list with one dict per step.
            options: ``neg_index_as_lookback``, ``fill`` and ``one_hot_discrete``.
        """  # fmt: skip
        return self._get("observations", indices, agent_ids, env_steps, return_list, options)

    def get_infos(
        self,
        indices: Indices = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        return_list: bool = False,
        **options: Any,
    ) -> Any:
        """Return infos by agent; arguments as of `get_observations`."""  # fmt: skip
        return self._get("infos", indices, agent_ids, env_steps, return_list, options)

    def get_actions(
        self,
        indices: Indices = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        return_list: bool = False,
        **options: Any,
    ) -> Any:
        """Return actions by agent; arguments as of `get_observations`."""  # fmt: skip
        return self._get("actions", indices, agent_ids, env_steps, return_list, options)

    def get_rewards(
        self,
        indices: Indices = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        return_list: bool = False,
        **options: Any,
    ) -> Any:
        """Return rewards by agent; arguments as of `get_observations`."""  # fmt: skip
        return self._get("rewards", indices, agent_ids, env_steps, return_list, options)

    def get_extra_model_outputs(
        self,
        key: str | None = None,
        indices: Indices = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        return_list: bool = False,
        **options: Any,
    ) -> Any:
        """Return what the modules returned beside actions, by agent.

        Args:
            key: Name of an output; None for a dict of all.
            indices: See `get_observations`.
            agent_ids: See `get_observations`.
            env_steps: See `get_observations`.
            return_list: See `get_observations`.
            options: See `get_observations`.
        """
        if key is None:
            names = sorted({name for one in self.agent_episodes.values() for name in one.extra_model_outputs})
            inner = (indices, agent_ids)
            flags: dict[str, Any] = {"env_steps": env_steps, "return_list": return_list, **options}
            return {name: self.get_extra_model_outputs(name, *inner, **flags) for name in names}
        if env_steps:
            return self._by_env_step(self._outputs_by_step(key), indices, agent_ids, return_list, options)
        chosen = wanted(agent_ids)
        return {
            agent_id: one.get_extra_model_outputs(key, indices, **options)
            for agent_id, one in self.agent_episodes.items()
            if (chosen is None or agent_id in chosen) and key in one.extra_model_outputs
        }

    def get_return(self, include_hanging_rewards: bool = False) -> float:
        """Return the sum of the rewards of all agents in this chunk.

        Args:
            include_hanging_rewards: True to count rewards of steps that have not ended.
        """
        total = sum(float(one.get_return()) for one in self.agent_episodes.values() if len(one))
        return total + (
            sum(each["reward"] for each in self._pending.values()) if include_hanging_rewards else 0.0
        )

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
