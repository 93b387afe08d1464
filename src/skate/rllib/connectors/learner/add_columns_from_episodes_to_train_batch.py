"""AddColumnsFromEpisodesToTrainBatch: actions, rewards, ends and outputs of the module."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module.rl_module import RLModule

_MEMORY = frozenset({Columns.STATE_IN, Columns.STATE_OUT})


class AddColumnsFromEpisodesToTrainBatch(ConnectorV2):
    """Adds actions, rewards, ends and the outputs of the module for all steps; columns that are in the batch stay."""

    def __call__(
        self, *, rl_module: RLModule | None, batch: dict[str, Any], episodes: list[Any], **kwargs: Any
    ) -> Any:
        present = frozenset(batch) | _MEMORY
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            size = len(episode)
            if not size:
                continue
            columns = {
                Columns.ACTIONS: episode.get_actions(slice(0, size)),
                Columns.REWARDS: episode.get_rewards(slice(0, size)),
                Columns.TERMINATEDS: at_the_end(size, episode.is_terminated),
                Columns.TRUNCATEDS: at_the_end(size, episode.is_truncated),
            }
            for key in episode.extra_model_outputs:
                if key not in present:
                    columns[key] = episode.get_extra_model_outputs(key, slice(0, size))
            for name, items in columns.items():
                if name not in present:
                    self.add_n_batch_items(batch, name, items, size, episode)
        return batch


def at_the_end(size: int, value: bool) -> np.ndarray:
    """Return a column of so many steps that is False but for the last one."""
    column: np.ndarray = np.zeros(size, bool)
    column[-1] = value
    return column
