"""Episodes as the fragments that replay buffers store, and the rows that are drawn from them as episodes of one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skate.rllib.core.columns import Columns
from skate.rllib.env.nested import unbatch
from skate.rllib.env.rollout import AgentChunk, Rollout
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.replay_buffers.episode_book import AgentLane
from skate.rllib.utils.replay_buffers.pool import LANE, TIME
from skate.rllib.utils.replay_buffers.step_columns import DONE, NEXT_INFOS

#: Columns of the steps of the environment at which an agent acted and got its next observation.
ENV_TIME = "env_t"
NEXT_ENV_TIME = "next_env_t"
#: Columns that are no outputs of a module.
NOT_OUTPUTS = frozenset(
    (
        Columns.OBS,
        Columns.ACTIONS,
        Columns.REWARDS,
        Columns.NEXT_OBS,
        *DONE,
        Columns.INFOS,
        NEXT_INFOS,
        LANE,
        TIME,
        ENV_TIME,
        NEXT_ENV_TIME,
        "n_step",
        "weights",
    )
)


def episodes_of(rows: dict[str, np.ndarray], to_numpy: bool) -> list[SingleAgentEpisode]:
    """Return an episode of one step for each row.

    Args:
        rows: Columns of windows, with the last observation of each, their lengths and their weights.
        to_numpy: Let the episodes hold arrays.
    """
    made = []
    for row in range(len(rows[Columns.REWARDS])):
        episode = SingleAgentEpisode(
            observations=[rows[Columns.OBS][row], rows[Columns.NEXT_OBS][row]],
            actions=[rows[Columns.ACTIONS][row]],
            rewards=[float(rows[Columns.REWARDS][row])],
            terminated=bool(rows[Columns.TERMINATEDS][row]),
            truncated=bool(rows[Columns.TRUNCATEDS][row]),
            extra_model_outputs={name: [rows[name][row]] for name in ("n_step", "weights")},
            len_lookback_buffer=0,
        )
        made.append(episode.to_numpy() if to_numpy else episode)
    return made


def agent_rollout(
    episode: SingleAgentEpisode, chunk: AgentChunk, times: Sequence[int] | None = None
) -> Rollout:
    """Return the steps of an agent as a fragment of one lane, with infos and outputs of its module.

    Args:
        episode: The agent's episode, or a part of one, with at least one step.
        chunk: The part of the episode that it is.
        times: The step of the environment of each of its observations; None if there is one agent.
    """
    steps = len(episode)
    observations = any_column(episode.get_observations())
    ends = np.zeros((2, steps), bool)
    ends[:, -1] = episode.is_terminated, episode.is_truncated
    columns = {
        name: any_column(episode.get_extra_model_outputs(name))
        for name in episode.extra_model_outputs
        if name not in NOT_OUTPUTS
    }
    columns |= {
        Columns.OBS: observations[:-1],
        Columns.ACTIONS: any_column(episode.get_actions()),
        Columns.REWARDS: np.asarray(episode.get_rewards()),
        Columns.TERMINATEDS: ends[0],
        Columns.TRUNCATEDS: ends[1],
    }
    if times is not None:
        columns |= {
            ENV_TIME: np.asarray(times[:-1], np.int64),
            NEXT_ENV_TIME: np.asarray(times[1:], np.int64),
        }
    infos = list(episode.get_infos())
    if any(infos):
        held = any_column(infos)
        columns |= {Columns.INFOS: held[:-1], NEXT_INFOS: held[1:]}
    lanes = {name: column[:, None] for name, column in columns.items()}
    return Rollout(lanes, np.ones((steps, 1), bool), observations[1:][:, None], chunks=(chunk,))


def any_column(values: Any) -> np.ndarray:
    """Return values as one array; nested ones, and those of different shapes, as an array of objects."""
    items = list(unbatch(values)) if isinstance(values, dict | tuple) else values
    if not any(isinstance(each, dict | tuple) for each in items[:1]):
        try:
            found = np.asarray(items)
        except ValueError:  # of different shapes
            found = np.empty(0, object)
        if found.dtype != object:
            return found
    made = np.empty(len(items), object)
    for index, each in enumerate(items):
        made[index] = each
    return made


def drawn_episode(
    rows: dict[str, np.ndarray], row: int, lane: AgentLane, outputs: Sequence[str], infos: bool
) -> SingleAgentEpisode:
    """Return a row that was drawn as an episode of one step.

    Args:
        rows: Columns of windows.
        row: Number of the row.
        lane: The agent's lane.
        outputs: Names of the outputs of the module that it gets.
        infos: True if it gets infos.
    """
    return SingleAgentEpisode(
        **lane.like,
        observations=[rows[Columns.OBS][row], rows[Columns.NEXT_OBS][row]],
        infos=[rows[Columns.INFOS][row] or {}, rows[NEXT_INFOS][row] or {}] if infos else None,
        actions=[rows[Columns.ACTIONS][row]],
        rewards=[float(rows[Columns.REWARDS][row])],
        terminated=bool(rows[Columns.TERMINATEDS][row]),
        truncated=bool(rows[Columns.TRUNCATEDS][row]),
        extra_model_outputs={name: [rows[name][row]] for name in (*outputs, "n_step", "weights")},
        len_lookback_buffer=0,
        t_started=int(rows[TIME][row]),
    )
