"""AddNextObservationsFromEpisodesToTrainBatch: the observation after each step."""

from __future__ import annotations

from typing import Any

from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.connectors.env_to_module.frame_stacking import STACKED_NEXT_OBSERVATIONS
from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module.rl_module import RLModule


class AddNextObservationsFromEpisodesToTrainBatch(ConnectorV2):
    """Adds the observation after each step, unless a connector before added them; stacked, if those before are."""

    def __call__(
        self, *, rl_module: RLModule | None, batch: dict[str, Any], episodes: list[Any], **kwargs: Any
    ) -> Any:
        if Columns.NEXT_OBS in batch:
            return batch
        stacked = (kwargs.get("shared_data") or {}).get(STACKED_NEXT_OBSERVATIONS)
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            size = len(episode)
            following = episode.get_observations(slice(1, size + 1)) if stacked is None else stacked(episode)
            self.add_n_batch_items(batch, Columns.NEXT_OBS, following, size, episode)
        return batch
