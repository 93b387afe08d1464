"""A last row whose value stands for what follows an episode: put onto episodes, and taken off again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skate.rllib.connectors.learner.add_one_ts_to_episodes_and_truncate import add_one_step


def add_one_ts_to_episodes_and_truncate(episodes: Sequence[Any]) -> list[bool]:
    """Repeat the last step of each episode, in place, with a reward of 0; what has not ended counts as truncated then.

    Args:
        episodes: The episodes.

    Returns:
        Which of them were truncated before.
    """
    before = [bool(episode.is_truncated) for episode in episodes]
    for episode in episodes:
        add_one_step(episode)
    return before


def remove_last_ts_from_data(episode_lens: Sequence[int], *data: Any) -> Any:
    """Return rows of episodes that stand one after another without the last row of each.

    Args:
        episode_lens: Rows of each episode.
        data: Arrays of these rows.

    Returns:
        The shorter arrays: a tuple, or the array if there is one.
    """
    last = np.cumsum(episode_lens) - 1
    shorter = tuple(np.delete(np.asarray(each), last, axis=0) for each in data)
    return shorter if len(shorter) > 1 else shorter[0]


def remove_last_ts_from_episodes_and_restore_truncateds(
    episodes: Sequence[Any], orig_truncateds: Sequence[bool]
) -> None:
    """Take the last step of each episode off again.

    Args:
        episodes: Episodes as `add_one_ts_to_episodes_and_truncate` left them.
        orig_truncateds: What it returned.
    """
    for episode, was_truncated in zip(episodes, orig_truncateds, strict=True):
        episode.t -= 1
        for column in (
            episode.observations,
            episode.infos,
            episode.actions,
            episode.rewards,
            *episode.extra_model_outputs.values(),
        ):
            column.pop()
        episode.is_truncated = was_truncated
