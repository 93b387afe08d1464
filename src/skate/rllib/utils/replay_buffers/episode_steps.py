"""Episodes as the fragments that replay buffers store, and the rows that are drawn from them as episodes of one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
#: The entry of an episode's custom data with the observations before its last one, if its step stands for several.
OBSERVATIONS_BEFORE_LAST = "observations_before_last"
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
    rows: dict[str, np.ndarray],
    row: int,
    lane: AgentLane,
    outputs: Sequence[str],
    infos: bool,
    columns: Mapping[str, np.ndarray] | None = None,
    lookback: int = 0,
) -> SingleAgentEpisode:
    """Return a row that was drawn as an episode of one step.

    If the step stands for several, those between its two observations are no steps of the episode. Their observations
    are in its custom data, for connectors that stack observations.

    Args:
        rows: Columns of windows.
        row: Number of the row.
        lane: The agent's lane.
        outputs: Names of the outputs of the module that it gets.
        infos: True if it gets infos.
        columns: The columns of all steps; needed for a lookback.
        lookback: The most steps before it that the episode remembers.
    """
    start = int(rows[TIME][row])
    before = np.asarray(lane.places[max(0, start - lookback) : start], np.int64)
    held = {} if columns is None else columns

    def items(name: str) -> list[Any]:
        return [*held[name][before], rows[name][row]] if len(before) else [rows[name][row]]

    made = SingleAgentEpisode(
        **lane.like,
        observations=[*items(Columns.OBS), rows[Columns.NEXT_OBS][row]],
        infos=[each or {} for each in (*items(Columns.INFOS), rows[NEXT_INFOS][row])] if infos else None,
        actions=items(Columns.ACTIONS),
        rewards=[float(reward) for reward in items(Columns.REWARDS)],
        terminated=bool(rows[Columns.TERMINATEDS][row]),
        truncated=bool(rows[Columns.TRUNCATEDS][row]),
        extra_model_outputs={name: items(name) for name in outputs}
        | {name: [1.0] * len(before) + [rows[name][row]] for name in ("n_step", "weights")},
        len_lookback_buffer=len(before),
        t_started=start,
    )
    end = start + int(rows["n_step"][row])
    if lookback and end > start + 1:
        between = np.asarray(lane.places[max(0, end - lookback) : end], np.int64)
        made.custom_data[OBSERVATIONS_BEFORE_LAST] = held[Columns.OBS][between]
    return made
