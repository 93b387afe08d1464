"""A plain vector of environments with several agents, stepped one by one."""

from __future__ import annotations

import logging
from typing import Any

import gymnasium as gym

from skate.rllib.env.creation import make_one
from skate.rllib.env.env_checks import named
from skate.rllib.env.env_context import EnvContext

logger = logging.getLogger(__name__)


class MultiAgentVector:
    """N environments with several agents; ``envs[i]`` is one of them.

    Args:
        config: The algorithm's config.
        context: The settings and the place of the runner.
    """

    def __init__(self, config: Any, context: EnvContext) -> None:
        self.num_envs = int(config.num_envs_per_env_runner)
        self._config, self._context = config, context
        self.envs = [self.make(lane) for lane in range(self.num_envs)]
        self.describe(self.envs[0].unwrapped)

    def describe(self, first: Any) -> None:
        """Take the agents and the spaces of an environment for those of all.

        Args:
            first: The environment.

        Raises:
            ValueError: It names no agents.
        """
        if not hasattr(first, "possible_agents") and not hasattr(first, "agents"):
            raise ValueError(
                f"multi_agent(...) is configured, but {named(first)} is no MultiAgentEnv: leave multi_agent() out for one "
                "agent, or make an environment of several with make_multi_agent() of rllib.env.multi_agent_env"
            )
        agents = list(first.possible_agents or first.agents)
        if not agents:
            raise ValueError(
                f"{first} names no agents; set self.possible_agents to the ids of all agents in its __init__()"
            )
        self.single_observation_spaces = {each: first.get_observation_space(each) for each in agents}
        self.single_action_spaces = {each: first.get_action_space(each) for each in agents}
        self.single_observation_space = gym.spaces.Dict(self.single_observation_spaces)
        self.single_action_space = gym.spaces.Dict(self.single_action_spaces)
        self.observation_space, self.action_space = self.single_observation_space, self.single_action_space

    @property
    def unwrapped(self) -> MultiAgentVector:
        """This vector itself."""
        return self

    def make(self, lane: int) -> Any:
        """Make one environment anew."""
        return make_one(self._config.env, self._context.copy_with_overrides(vector_index=lane))

    def remake(self, lane: int) -> None:
        """Put a new environment in the place of one that has failed."""
        try:
            self.envs[lane].close()
        except Exception:  # the environment is broken, and its successor does not depend on it
            logger.warning("The failed environment of lane %d could not be closed", lane, exc_info=True)
        self.envs[lane] = self.make(lane)

    def close(self) -> None:
        """Close all environments."""
        for env in self.envs:
            env.close()


#: Ray's name, which callbacks compare the class of their `env` with.
VectorMultiAgentEnv = MultiAgentVector
