"""PrevActionsPrevRewards: observations with the newest actions and rewards beside them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from skate.rllib.connectors.env_to_module.observation_preprocessor import PerAgentObservations
from skate.rllib.env.space_plan import SpacePlan


class PrevActionsPrevRewards(PerAgentObservations):
    """Makes a dict of each observation: the observation, the newest actions and the newest rewards.

    Args:
        input_observation_space: The space of observations.
        input_action_space: The space of actions; choices become one-hot vectors.
        n_prev_actions: Number of actions; zeros before the first one.
        n_prev_rewards: Number of rewards; zeros before the first one.
        kwargs: ``multi_agent=True`` if the spaces are by agent.
    """

    ORIG_OBS_KEY = "_orig_obs"
    PREV_ACTIONS_KEY = "prev_n_actions"
    PREV_REWARDS_KEY = "prev_n_rewards"

    def __init__(
        self,
        input_observation_space: gym.Space[Any] | None = None,
        input_action_space: gym.Space[Any] | None = None,
        *,
        n_prev_actions: int = 1,
        n_prev_rewards: int = 1,
        **kwargs: Any,
    ) -> None:
        self.n_prev_actions = n_prev_actions
        self.n_prev_rewards = n_prev_rewards
        self._actions: dict[Any, SpacePlan] = {}
        super().__init__(input_observation_space, input_action_space, **kwargs)

    @property
    def num_steps_back(self) -> int:
        """The number of steps that chunks of episodes have to remember."""
        return max(self.n_prev_actions, self.n_prev_rewards)

    def output_space(
        self, observations: gym.Space[Any], actions: gym.Space[Any] | None, agent_id: Any = None
    ) -> gym.Space[Any]:
        parts: dict[str, gym.Space[Any]] = {self.ORIG_OBS_KEY: observations}
        if self.n_prev_actions and actions is not None:
            plan = self._actions[agent_id] = SpacePlan(actions, images=False)
            low, high = (np.tile(bound, self.n_prev_actions) for bound in (plan.space.low, plan.space.high))
            parts[self.PREV_ACTIONS_KEY] = gym.spaces.Box(
                np.minimum(low, 0), np.maximum(high, 0), dtype=np.float32
            )
        if self.n_prev_rewards:
            size = (self.n_prev_rewards,)
            parts[self.PREV_REWARDS_KEY] = gym.spaces.Box(float("-inf"), float("inf"), size, np.float32)
        return gym.spaces.Dict(parts)

    def preprocess(self, observation: Any, episode: Any) -> Any:
        made = {self.ORIG_OBS_KEY: observation}
        if self.n_prev_actions:
            plan = self._actions[episode.agent_id if self.multi_agent else None]
            rows = np.zeros((self.n_prev_actions, *plan.shape), np.float32)
            taken = min(self.n_prev_actions, episode.actions.len_incl_lookback())
            if taken:
                plan.write(rows[-taken:], list(episode.get_actions(slice(-taken, None))))
            made[self.PREV_ACTIONS_KEY] = rows.reshape(-1)
        if self.n_prev_rewards:
            rewards = episode.get_rewards(slice(-self.n_prev_rewards, None), fill=0.0)
            made[self.PREV_REWARDS_KEY] = np.array(rewards, np.float32)
        return made
