"""AddNextObservationsFromEpisodesToTrainBatch: the observation after each step."""

from __future__ import annotations

from typing import Any

from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module.rl_module import RLModule


class AddNextObservationsFromEpisodesToTrainBatch(ConnectorV2):
    """Adds the observation after each step, unless a connector before added them."""

    def __call__(
        self, *, rl_module: RLModule | None, batch: dict[str, Any], episodes: list[Any], **kwargs: Any
    ) -> Any:
        if Columns.NEXT_OBS in batch:
            return batch
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            size = len(episode)
            following = episode.get_observations(slice(1, size + 1))
            self.add_n_batch_items(batch, Columns.NEXT_OBS, following, size, episode)
        return batch
