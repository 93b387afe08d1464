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
