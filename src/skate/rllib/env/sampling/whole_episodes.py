"""Fragments that end with their lanes' episodes, for ``batch_mode="complete_episodes"``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skate.rllib.env.rollout import Rollout, concatenate_steps
from skate.rllib.env.sampling.episode_meter import EpisodeMeter


def sample_whole(sample: Callable[[int], Rollout], num_steps: int, meter: EpisodeMeter) -> Rollout:
    """Sample a fragment, and further steps until every lane's episode has ended.

    Args:
        sample: Returns the next fragment of so many steps of all lanes.
        num_steps: Steps of each lane at the least.
        meter: Counts episodes; those that begin while other lanes are still at their last ones are not counted.

    Returns:
        One fragment; rows of a lane after the end of its last episode are not valid.
    """
    parts = [sample(num_steps)]
    try:
        while True:
            last = parts[-1]
            ended = (last.columns["terminateds"][-1] | last.columns["truncateds"][-1]) & last.valid[-1]
            meter.muted |= ended
            if meter.muted.all():
                return concatenate_steps(parts)
            part = sample(1)
            part.valid = part.valid & ~meter.muted
            parts.append(part)
    finally:
        meter.muted = np.zeros_like(meter.muted)
