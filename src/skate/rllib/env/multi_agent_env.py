"""MultiAgentEnv: an environment in which several agents act, together or in turns."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym

AgentID = Any
#: Key of the environment's own state in a Dict of observations.
ENV_STATE = "state"
#: Keys of a group's infos: the rewards and the infos of its agents, in their order.
GROUP_REWARDS = "_group_rewards"
GROUP_INFO = "_group_info"


class MultiAgentEnv(gym.Env[Any, Any]):
    """Base class of environments with several agents.

    Observations, actions, rewards, infos and ends are dicts by agent. An agent acts when it got an observation. The key
    ``"__all__"`` of the two dicts of ends is True when the episode ended for all.

    Attributes:
        possible_agents: Ids of all agents that may ever appear.
        agents: Ids of the agents that are present.
        observation_spaces: Space of observations by agent.
        action_spaces: Space of actions by agent.
    """

    observation_spaces: dict[AgentID, gym.Space[Any]] | None = None
    action_spaces: dict[AgentID, gym.Space[Any]] | None = None
    agents: list[AgentID] = []
    possible_agents: list[AgentID] = []
    observation_space: Any = None
    action_space: Any = None

    def __init__(self) -> None:
        super().__init__()
        known = list(getattr(self, "_agent_ids", None) or ())
        if not self.agents:
            self.agents = known
        if not self.possible_agents:
            self.possible_agents = list(self.agents)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode.

        Args:
            seed: Seed of the environment's random stream.
            options: For the environment.

        Returns:
            Observations and infos, dicts by agent.
        """
        return super().reset(seed=seed, options=options)

    def step(self, action_dict: dict[AgentID, Any]) -> Any:
        """Let agents act.

        Args:
            action_dict: Actions by agent.

        Returns:
            Observations, rewards, terminateds, truncateds and infos, dicts by agent.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define step(action_dict)")

    def get_observation_space(self, agent_id: AgentID) -> Any:
        """Return the space of an agent's observations."""
        return space_of(self.observation_spaces, self.observation_space, agent_id)

    def get_action_space(self, agent_id: AgentID) -> Any:
        """Return the space of an agent's actions."""
        return space_of(self.action_spaces, self.action_space, agent_id)

    def with_agent_groups(
        self,
        groups: dict[str, list[AgentID]],
        obs_space: gym.Space[Any] | None = None,
        act_space: gym.Space[Any] | None = None,
    ) -> MultiAgentEnv:
        """Return this environment with groups of agents in the place of agents.

        The agents of a group act together. A group's observations and actions are tuples, its reward is the sum.

        Args:
            groups: Ids of agents by id of the group; agents in no group stay.
            obs_space: The space of observations of a group. Default: a Tuple of the agents' own.
            act_space: The space of actions of a group. Default: a Tuple of the agents' own.
        """
        return GroupAgentsWrapper(self, groups, obs_space, act_space)

    @property
    def num_agents(self) -> int:
        """The number of agents that are present."""
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        """The number of agents that may ever appear."""
        return len(self.possible_agents)


class GroupAgentsWrapper(MultiAgentEnv):
    """An environment whose groups of agents act as one agent each.

    Args:
        env: The environment.
        groups: Ids of agents by id of the group; agents in no group stay.
        obs_space: The space of observations of a group. Default: a Tuple of the agents' own.
        act_space: The space of actions of a group. Default: a Tuple of the agents' own.

    Raises:
        ValueError: An agent is in several groups.
    """

    def __init__(
        self,
        env: MultiAgentEnv,
        groups: dict[str, list[AgentID]],
        obs_space: gym.Space[Any] | None = None,
        act_space: gym.Space[Any] | None = None,
    ) -> None:
        self.env = env
        self.groups = {group: list(members) for group, members in groups.items()}
        self.agent_id_to_group: dict[AgentID, str] = {}
        for group, members in self.groups.items():
            for agent in members:
                if agent in self.agent_id_to_group:
                    raise ValueError(
                        f"agent {agent!r} is in several groups, {self.agent_id_to_group[agent]!r} and {group!r}; leave it "
                        "in one"
                    )
                self.agent_id_to_group[agent] = group
        self.possible_agents = self._grouped(env.possible_agents)
        self.agents = self._grouped(env.agents)
        self.observation_spaces = {
            each: self._space(each, env.get_observation_space, obs_space) for each in self.possible_agents
        }
        self.action_spaces = {
            each: self._space(each, env.get_action_space, act_space) for each in self.possible_agents
        }
        # As given: a subclass that makes a Dict by group of them finds them here.
        self.observation_space, self.action_space = obs_space, act_space
        super().__init__()

    def _grouped(self, agents: list[AgentID]) -> list[AgentID]:
        return list(dict.fromkeys(self.agent_id_to_group.get(agent, agent) for agent in agents))

    def _space(self, name: AgentID, of: Callable[[AgentID], Any], given: Any) -> Any:
        if name not in self.groups:
            return of(name)
        return given if given is not None else gym.spaces.Tuple([of(agent) for agent in self.groups[name]])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observations, infos = self.env.reset(seed=seed, options=options)
        return self._together(observations, tuple), self._infos(infos)

    def step(self, action_dict: dict[AgentID, Any]) -> Any:
        actions: dict[AgentID, Any] = {}
        for name, action in action_dict.items():
            actions |= (
                dict(zip(self.groups[name], action, strict=True)) if name in self.groups else {name: action}
            )
        observations, rewards, terminateds, truncateds, infos = self.env.step(actions)
        lists = self._together(rewards, list)
        grouped = self._infos(infos)
        for group in self.groups:
            if group in lists:
                grouped.setdefault(group, {})[GROUP_REWARDS] = lists[group]
                lists[group] = sum(lists[group])
        return (
            self._together(observations, tuple),
            lists,
            self._ends(terminateds),
            self._ends(truncateds),
            grouped,
        )

    def _infos(self, infos: dict[AgentID, Any]) -> dict[AgentID, Any]:
        present = {self.agent_id_to_group[agent] for agent in infos if agent in self.agent_id_to_group}
        members: dict[AgentID, Any] = {agent: {} for group in present for agent in self.groups[group]}
        return self._together({**members, **infos}, lambda values: {GROUP_INFO: list(values)})

    def _ends(self, flags: dict[AgentID, bool]) -> dict[AgentID, bool]:
        """Return ends by group: it ended if all of its agents did."""
        present = {self.agent_id_to_group[agent] for agent in flags if agent in self.agent_id_to_group}
        members = {agent: False for group in present for agent in self.groups[group]}
        return self._together({**members, **flags}, all)

    def _together(self, by_agent: dict[AgentID, Any], make: Callable[[list[Any]], Any]) -> dict[AgentID, Any]:
        """Return values by group, and by agent for those in none.

        Raises:
            ValueError: Some agents of a group have a value, and others have none.
        """
        found: dict[AgentID, Any] = {}
        for agent, value in by_agent.items():
            group = self.agent_id_to_group.get(agent)
            if group is None:
                found[agent] = value
            elif group not in found:
                missing = [each for each in self.groups[group] if each not in by_agent]
                if missing:
                    raise ValueError(
                        f"agents {missing} of group {group!r} are missing among {list(by_agent)}; agents of a group have "
                        "to observe and act together"
                    )
                found[group] = make([by_agent[each] for each in self.groups[group]])
        return found

    def close(self) -> None:
        self.env.close()


def space_of(by_agent: dict[AgentID, gym.Space[Any]] | None, shared: Any, agent_id: AgentID) -> Any:
    """Return an agent's space: its own, its part of a Dict of agents, or the one that all share."""
    if by_agent is not None:
        return by_agent[agent_id]
    if isinstance(shared, gym.spaces.Dict) and agent_id in shared.spaces:
        return shared[agent_id]
    return shared


def make_multi_agent(env_name_or_creator: str | Callable[[Any], Any]) -> type[MultiAgentEnv]:
    """Return a class of environments in which agents 0, 1, ... each play a game of their own.

    Args:
        env_name_or_creator: Id of gymnasium, or a function of the settings that makes one environment.

    Returns:
        A class that takes settings; ``num_agents`` among them is the number of agents, default 1.
    """

    class MultiEnv(MultiAgentEnv):
        """Independent copies of one environment, one for each agent."""

        def __init__(self, config: Any = None) -> None:
            settings: Any = {} if config is None else copy.deepcopy(config)  # knows its runner and lane
            count = settings.pop("num_agents", 1)
            if isinstance(env_name_or_creator, str):
                self.envs = [gym.make(env_name_or_creator) for _ in range(count)]
            else:
                self.envs = [env_name_or_creator(settings) for _ in range(count)]
            self.agents = list(range(count))
            self.possible_agents = list(self.agents)
            self.observation_spaces = {agent: env.observation_space for agent, env in enumerate(self.envs)}
            self.action_spaces = {agent: env.action_space for agent, env in enumerate(self.envs)}
            self._ended: set[int] = set()
            self._cut: set[int] = set()
            super().__init__()

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            self._ended, self._cut = set(), set()
            # Copies that begin with the same seed would all play the same game.
            pairs = [
                env.reset(seed=None if seed is None else seed + agent, options=options)
                for agent, env in enumerate(self.envs)
            ]
            return {agent: pair[0] for agent, pair in enumerate(pairs)}, {
                agent: pair[1] for agent, pair in enumerate(pairs)
            }

        def step(self, action_dict: dict[AgentID, Any]) -> Any:
            if not action_dict:
                raise ValueError("action_dict is empty; at least one agent has to act")
            results: tuple[dict[Any, Any], ...] = ({}, {}, {}, {}, {})
            for agent, action in action_dict.items():
                for by_agent, value in zip(results, self.envs[agent].step(action), strict=True):
                    by_agent[agent] = value
                if results[2][agent]:
                    self._ended.add(agent)
                if results[3][agent]:
                    self._cut.add(agent)
            everyone = len(self.envs)
            results[2]["__all__"] = len(self._ended | self._cut) == everyone
            results[3]["__all__"] = len(self._cut) == everyone
            return results

        def close(self) -> None:
            for env in self.envs:
                env.close()

    return MultiEnv
