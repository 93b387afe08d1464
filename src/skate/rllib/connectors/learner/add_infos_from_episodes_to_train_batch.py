"""AddInfosFromEpisodesToTrainBatch: the infos that go with the observations."""

from __future__ import annotations

from typing import Any

from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module.rl_module import RLModule


class AddInfosFromEpisodesToTrainBatch(ConnectorV2):
    """Adds the infos of all steps, for connectors after this one; the loss does not see them."""

    def __call__(
        self, *, rl_module: RLModule | None, batch: dict[str, Any], episodes: list[Any], **kwargs: Any
    ) -> Any:
        if Columns.INFOS in batch:
            return batch
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            size = len(episode)
            infos = list(episode.get_infos(slice(0, size)))
            self.add_n_batch_items(batch, Columns.INFOS, infos, size, episode)
        return batch
