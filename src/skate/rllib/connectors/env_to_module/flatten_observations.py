"""FlattenObservations: nested observations and choices as one vector."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import gymnasium as gym

from skate.rllib.connectors.env_to_module.observation_preprocessor import PerAgentObservations
from skate.rllib.env.space_plan import SpacePlan


class FlattenObservations(PerAgentObservations):
    """Makes one float32 vector of each observation: parts by sorted key, choices as one-hot vectors.

    Args:
        input_observation_space: The space of observations that arrive.
        input_action_space: The space of actions.
        agent_ids: Agents whose observations are flattened; all if None.
        keys_to_remove: Keys of a dict that are left out.
        kwargs: ``multi_agent=True`` if the spaces are by agent.
    """

    def __init__(
        self,
        input_observation_space: gym.Space[Any] | None = None,
        input_action_space: gym.Space[Any] | None = None,
        *,
        agent_ids: Collection[Any] | None = None,
        keys_to_remove: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.agent_ids = agent_ids
        self.keys_to_remove = frozenset(keys_to_remove or ())
        self._plans: dict[Any, SpacePlan] = {}
        super().__init__(input_observation_space, input_action_space, **kwargs)

    def output_space(
        self, observations: gym.Space[Any], actions: gym.Space[Any] | None, agent_id: Any = None
    ) -> gym.Space[Any]:
        if self.agent_ids is not None and agent_id not in self.agent_ids:
            return observations
        if self.keys_to_remove:
            if not isinstance(observations, gym.spaces.Dict):
                raise ValueError(
                    f"keys_to_remove={sorted(self.keys_to_remove)} needs a Dict space, not {observations}"
                )
            kept = {
                key: space for key, space in observations.spaces.items() if key not in self.keys_to_remove
            }
            observations = gym.spaces.Dict(kept)
        plan = self._plans[agent_id] = SpacePlan(observations, images=False)
        return plan.space

    def preprocess(self, observation: Any, episode: Any) -> Any:
        plan = self._plans.get(episode.agent_id if self.multi_agent else None)
        return observation if plan is None else plan.row(observation)
