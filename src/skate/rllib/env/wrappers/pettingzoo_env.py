"""Environments of PettingZoo, in turns or in parallel, as environments with several agents."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from skate.rllib.env.multi_agent_env import MultiAgentEnv


class PettingZooEnv(MultiAgentEnv):
    """An environment of PettingZoo in which agents act in turns (AEC).

    Args:
        env: The environment.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        env.reset()
        self.possible_agents = list(env.possible_agents)
        self.agents = list(env.agents)
        self.observation_spaces = {agent: env.observation_space(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in self.possible_agents}
        # Gymnasium has one name for spaces, under which programs look up those of an agent.
        self.observation_space = gym.spaces.Dict(self.observation_spaces)
        self.action_space = gym.spaces.Dict(self.action_spaces)
        super().__init__()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode; the agent whose turn it is gets an observation."""
        self.env.reset(seed=seed, options=options)
        agent = self.env.agent_selection
        return {agent: self.env.observe(agent)}, {agent: self.env.infos.get(agent, {})}

    def step(self, action_dict: dict[Any, Any]) -> Any:
        """Let the agent act whose turn it is.

        Args:
            action_dict: Its action.
        """
        self.env.step(action_dict[self.env.agent_selection])
        # Agents that have ended only take themselves out; the next one may still have to act.
        observations, rewards, terminateds, truncateds, infos = {}, {}, {}, {}, {}
        while self.env.agents:
            agent = self.env.agent_selection
            observation, reward, terminated, truncated, info = self.env.last()
            observations[agent], rewards[agent], infos[agent] = observation, reward, info
            terminateds[agent], truncateds[agent] = terminated, truncated
            if not (terminated or truncated):
                break
            self.env.step(None)
        over = not self.env.agents
        terminateds["__all__"] = over and any(terminateds.values())
        truncateds["__all__"] = over and not terminateds["__all__"]
        return observations, rewards, terminateds, truncateds, infos

    def render(self) -> Any:
        """Render the environment."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    @property
    def get_sub_environments(self) -> Any:
        """The environment without its wrappers."""
        return self.env.unwrapped


class ParallelPettingZooEnv(MultiAgentEnv):
    """An environment of PettingZoo in which all agents act at once.

    Args:
        env: The environment.
    """

    def __init__(self, env: Any) -> None:
        self.par_env = env
        env.reset()
        self.possible_agents = list(env.possible_agents)
        self.agents = list(env.agents)
        self.observation_spaces = {agent: env.observation_space(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in self.possible_agents}
        # Gymnasium has one name for spaces, under which programs look up those of an agent.
        self.observation_space = gym.spaces.Dict(self.observation_spaces)
        self.action_space = gym.spaces.Dict(self.action_spaces)
        super().__init__()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode."""
        return self.par_env.reset(seed=seed, options=options)

    def step(self, action_dict: dict[Any, Any]) -> Any:
        """Let all agents act.

        Args:
            action_dict: Actions by agent.
        """
        observations, rewards, terminateds, truncateds, infos = self.par_env.step(action_dict)
        over = not self.par_env.agents
        ended, cut = dict(terminateds), dict(truncateds)
        ended["__all__"] = over and any(terminateds.values())
        cut["__all__"] = over and not ended["__all__"]
        return observations, rewards, ended, cut, infos

    def render(self) -> Any:
        """Render the environment."""
        return self.par_env.render()

    def close(self) -> None:
        """Close the environment."""
        self.par_env.close()

    @property
    def get_sub_environments(self) -> Any:
        """The environment without its wrappers."""
        return self.par_env.unwrapped
