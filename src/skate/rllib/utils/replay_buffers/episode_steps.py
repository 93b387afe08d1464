"""Episodes as the fragments that replay buffers store, and the rows that are drawn from them as episodes of one step."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.core.columns import Columns
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.single_agent_episode import SingleAgentEpisode


def fragment_of(episode: SingleAgentEpisode) -> Rollout:
    """Return the steps of an episode as a fragment of one lane.

    Args:
        episode: An episode, or a part of one, with at least one step.

    Raises:
        ValueError: its observations or actions are not of one array each.
    """
    observations, actions = (
        column_of(name, values)
        for name, values in (("observations", episode.get_observations()), ("actions", episode.get_actions()))
    )
    steps = len(episode)
    terminateds, truncateds = np.zeros((2, steps, 1), bool)
    terminateds[-1], truncateds[-1] = episode.is_terminated, episode.is_truncated
    columns = {
        Columns.OBS: observations[:-1],
        Columns.ACTIONS: actions,
        Columns.REWARDS: np.asarray(episode.get_rewards(), np.float32)[:, None],
        Columns.TERMINATEDS: terminateds,
        Columns.TRUNCATEDS: truncateds,
    }
    return Rollout(columns, np.ones((steps, 1), bool), observations[1:])


def column_of(name: str, values: Any) -> np.ndarray:
    """Return values of equal shape as an array with a lane after its steps."""
    if isinstance(values, dict) or (len(values) and isinstance(values[0], dict | tuple)):
        raise ValueError(
            f"a replay buffer holds one array for each step, but the {name} of an episode are nested; flatten "
            "observations with FlattenObservations() as an env_to_module_connector"
        )
    column: np.ndarray = np.asarray(values)[:, None]
    return column


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
