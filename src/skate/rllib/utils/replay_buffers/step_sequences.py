"""Rows of consecutive steps that are drawn from the episodes of one agent, as world models learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skate.rllib.core.columns import Columns
from skate.rllib.utils.replay_buffers.episode_book import AgentLane
from skate.rllib.utils.replay_buffers.pool import LANE, TIME, ColumnPool

_FLAGS = ("is_first", "is_last", "is_terminated", "is_truncated")


def sequences(
    pool: ColumnPool, lanes: Mapping[int, AgentLane], rows: int, length: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return rows of steps; where an episode ends in a row, another one begins there.

    A step has an observation, the reward that came with it, and the action that followed; the last observation of an
    episode repeats the action before.

    Args:
        pool: The steps.
        lanes: The episodes by number.
        rows: Number of rows.
        length: Steps in each.
        rng: The source of the draws.

    Returns:
        Columns of shape ``(rows, length, ...)``; flags say where a part of an episode begins and ends in a row, and
        whether the episode terminated or was cut off there.
    """
    made: dict[str, list[Any]] = {Columns.OBS: [], Columns.ACTIONS: [], Columns.REWARDS: []}
    flags = {name: np.zeros((rows, length), bool) for name in _FLAGS}
    for row in range(rows):
        parts: list[dict[str, np.ndarray]] = []
        at = 0
        while at < length:
            drawn = pool.live[int(rng.integers(0, pool.size))]
            lane = lanes[int(pool.columns[LANE][drawn])]
            start = int(pool.columns[TIME][drawn]) if at == 0 else 0
            part = _part(pool, lane.places, start)
            parts.append({name: column[: length - at] for name, column in part.items()})
            flags["is_first"][row, at] = True
            whole = len(part[Columns.REWARDS])
            at = min(at + whole, length)
            flags["is_last"][row, at - 1] = True
            if len(parts[-1][Columns.REWARDS]) == whole:
                last = lane.places[-1]
                flags["is_terminated"][row, at - 1] = pool.columns[Columns.TERMINATEDS][last]
                flags["is_truncated"][row, at - 1] = pool.columns[Columns.TRUNCATEDS][last]
        for name, columns in made.items():
            columns.append(np.concatenate([part[name] for part in parts]))
    return {**{name: np.stack(columns) for name, columns in made.items()}, **flags}


def _part(pool: ColumnPool, lane: Sequence[int], start: int) -> dict[str, np.ndarray]:
    """Return the steps of a lane from one on, and its last observation."""
    places = np.asarray(lane[start:], np.int64)
    rewards = pool.columns[Columns.REWARDS][places]
    actions = pool.columns[Columns.ACTIONS][places]
    before = (
        np.zeros(1, rewards.dtype) if start == 0 else pool.columns[Columns.REWARDS][lane[start - 1]][None]
    )
    return {
        Columns.OBS: np.concatenate(
            [pool.columns[Columns.OBS][places], pool.columns[Columns.NEXT_OBS][places[-1:]]]
        ),
        Columns.ACTIONS: np.concatenate([actions, actions[-1:]]),
        Columns.REWARDS: np.concatenate([before, rewards]),
    }
