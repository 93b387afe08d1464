"""Consecutive steps that are drawn from the episodes of one agent: rows for world models, episodes for modules with memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skate.rllib.core.columns import Columns
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.replay_buffers.episode_book import AgentLane
from skate.rllib.utils.replay_buffers.episode_steps import NOT_OUTPUTS
from skate.rllib.utils.replay_buffers.pool import LANE, TIME, ColumnPool
from skate.rllib.utils.replay_buffers.step_columns import NEXT_INFOS

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


def sequence_episodes(
    pool: ColumnPool,
    lanes: Mapping[int, AgentLane],
    count: int,
    lengths: tuple[int, int, int],
    rng: np.random.Generator,
    which: tuple[bool, bool, bool],
) -> list[SingleAgentEpisode]:
    """Return parts of episodes; each begins at a step that is drawn with equal probabilities.

    With a lookback, a part has the memory of the module at its beginning.

    Args:
        pool: The steps.
        lanes: The episodes by number.
        count: Observations that the parts have together, at least.
        lengths: The least steps of a part, as far as its episode has as many, the most, and those before it.
        rng: The source of the draws.
        which: True each to add infos, to add the outputs of the module, and for episodes that hold arrays.
    """
    infos, outputs, to_numpy = which
    least, most, before = lengths
    names = [name for name in pool.columns if name not in NOT_OUTPUTS] if outputs else []
    made: list[SingleAgentEpisode] = []
    taken = 0
    while taken < count:
        drawn = int(pool.live[rng.integers(0, pool.size)])
        lane = lanes[int(pool.columns[LANE][drawn])]
        start = max(0, min(int(pool.columns[TIME][drawn]), len(lane.places) - least))
        lookback = min(before, start)
        places = np.asarray(lane.places[start - lookback : start + most], np.int64)
        columns = {name: column[places] for name, column in pool.columns.items()}
        following = {Columns.OBS: Columns.NEXT_OBS, Columns.INFOS: NEXT_INFOS}
        seen = {
            name: [*columns[name], columns[after][-1]] for name, after in following.items() if name in columns
        }
        part = SingleAgentEpisode(
            **lane.like,
            observations=seen[Columns.OBS],
            infos=[each or {} for each in seen[Columns.INFOS]] if infos and Columns.INFOS in seen else None,
            actions=list(columns[Columns.ACTIONS]),
            rewards=columns[Columns.REWARDS].tolist(),
            terminated=bool(columns[Columns.TERMINATEDS][-1]),
            truncated=bool(columns[Columns.TRUNCATEDS][-1]),
            # Steps at random have no outputs.
            extra_model_outputs={
                name: list(columns[name])
                for name in names
                if columns[name].dtype != object or all(each is not None for each in columns[name])
            },
            len_lookback_buffer=lookback,
            t_started=start,
        )
        made.append(part.to_numpy() if to_numpy else part)
        taken += len(part) + 1
    return made
