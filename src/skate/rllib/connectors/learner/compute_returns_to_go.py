"""ComputeReturnsToGo: the discounted rewards from each step to the end of its episode."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module.rl_module import RLModule


class ComputeReturnsToGo(ConnectorV2):
    """Adds the discounted sum of rewards from each step to the end of its episode or chunk.

    Args:
        input_observation_space: The space of observations.
        input_action_space: The space of actions.
        gamma: Discount per step.
    """

    def __init__(
        self, input_observation_space: Any = None, input_action_space: Any = None, *, gamma: float
    ) -> None:
        super().__init__(input_observation_space, input_action_space)
        self.gamma = gamma

    def __call__(
        self, *, rl_module: RLModule | None, batch: dict[str, Any], episodes: list[Any], **kwargs: Any
    ) -> Any:
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            rewards = np.asarray(episode.get_rewards(), np.float64)
            returns = np.zeros(len(rewards), np.float32)
            behind = 0.0
            for step in range(len(rewards) - 1, -1, -1):
                behind = float(rewards[step]) + self.gamma * behind
                returns[step] = behind
            self.add_n_batch_items(batch, Columns.RETURNS_TO_GO, returns, len(returns), episode)
        return batch
