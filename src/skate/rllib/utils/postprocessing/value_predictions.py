"""Value targets over the rows of episodes that stand one after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.core.advantages import generalized_advantages
from skate.rllib.core.columns import Columns


class Postprocessing:
    """The names of the columns that advantages and targets have in a batch."""

    ADVANTAGES = Columns.ADVANTAGES
    VALUE_TARGETS = Columns.VALUE_TARGETS


def compute_value_targets(
    values: Any, rewards: Any, terminateds: Any, truncateds: Any, gamma: float, lambda_: float
) -> np.ndarray:
    """Return the targets of a critic by generalized advantage estimation.

    Each episode has one row more than steps, as ``AddOneTsToEpisodesAndTruncate`` leaves it: its value is what follows the
    last step, and its own target means nothing.

    Args:
        values: What the critic says of each row.
        rewards: The reward of each step.
        terminateds: True at the last step of an episode that reached its end.
        truncateds: True at the last step of an episode that was cut off, or that continues.
        gamma: Discount per step.
        lambda_: 0 takes one step of rewards into account, 1 all of them.

    Returns:
        Targets of float32; advantages are these minus the values.
    """
    worth = np.asarray(values, np.float32)
    advantages = generalized_advantages(
        rewards=np.asarray(rewards, np.float32),
        values=worth,
        next_values=np.append(worth[1:], np.float32(0)),
        terminateds=np.asarray(terminateds, bool),
        truncateds=np.asarray(truncateds, bool),
        valid=np.ones(len(worth), bool),
        gamma=gamma,
        lambda_=lambda_,
    )
    targets: np.ndarray = advantages + worth
    return targets


def extract_bootstrapped_values(vf_preds: Any, episode_lengths: Any, T: int) -> np.ndarray:  # noqa: N803
    """Return what a critic says of the observations after each run of so many steps.

    Args:
        vf_preds: The critic's values; each episode has one row more than steps.
        episode_lengths: Steps of each episode.
        T: Steps of a run; runs go over the ends of episodes.

    Raises:
        ValueError: The steps of all episodes are no whole number of runs.
    """
    ends = np.cumsum(episode_lengths)
    total = int(ends[-1]) if len(ends) else 0
    if total % T:
        raise ValueError(f"{total} steps are no whole number of runs of {T} steps")
    steps = np.arange(T, total + 1, T)
    # Each episode before the one that a step belongs to has a row that is no step.
    found: np.ndarray = np.asarray(vf_preds)[steps + np.searchsorted(ends, steps)]
    return found
