"""AddOneTsToEpisodesAndTruncate: a last row whose value stands for what follows an episode's chunk."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.connectors.learner.add_columns_from_episodes_to_train_batch import at_the_end
from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module.rl_module import RLModule


class AddOneTsToEpisodesAndTruncate(ConnectorV2):
    """Adds a step to each episode that repeats its last observation, action and outputs, with a reward of 0.

    An episode that continues counts as truncated then. The loss mask is False for the added rows. Episodes are changed;
    a learner gives copies of them to its connectors.
    """

    def __call__(
        self,
        *,
        rl_module: RLModule | None,
        batch: dict[str, Any],
        episodes: list[Any],
        shared_data: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            size = len(episode)
            if not size:
                continue
            add_one_step(episode)
            columns = {
                Columns.LOSS_MASK: np.arange(size + 1) < size,
                Columns.TERMINATEDS: np.append(at_the_end(size, episode.is_terminated), False),
                Columns.TRUNCATEDS: np.append(at_the_end(size, episode.is_truncated), False),
            }
            for name, items in columns.items():
                self.add_n_batch_items(batch, name, items, size + 1, episode)
        return batch


def add_one_step(episode: Any) -> None:
    """Repeat the last step of an episode, in place; it is truncated then, unless it has ended."""
    episode.t += 1
    for column in (
        episode.observations,
        episode.infos,
        episode.actions,
        *episode.extra_model_outputs.values(),
    ):
        column.append(column.get(-1))
    episode.rewards.append(0.0)
    if not episode.is_done:
        episode.is_truncated = True
    episode.validate()
