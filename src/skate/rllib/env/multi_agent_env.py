"""MultiAgentEnv: an environment in which several agents act, together or in turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym

AgentID = Any


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

    @property
    def num_agents(self) -> int:
        """The number of agents that are present."""
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        """The number of agents that may ever appear."""
        return len(self.possible_agents)


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
            settings = dict(config or {})
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
