"""The columns of one fragment: T steps of N lanes, as plain arrays that no framework is needed for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skate.rllib.env.nested import map_nested


@dataclass(frozen=True, slots=True)
class AgentChunk:
    """The part of an agent's episode that one lane of a fragment holds.

    Attributes:
        episode_id: Name of the episode of all agents.
        agent_id: The agent.
        env_steps: Steps of the environment in this chunk of the episode.
    """

    episode_id: str
    agent_id: Any
    env_steps: int


@dataclass(frozen=True, slots=True)
class PieceStates:
    """Recurrent states that a module had while it sampled a fragment.

    Attributes:
        length: The most steps in a piece of an episode.
        before: The state before each piece of ``pieces_of(rollout, length)``, in arrays ``(pieces, ...)``.
    """

    length: int
    before: dict[str, Any]


@dataclass
class Rollout:
    """T steps of N environments that were stepped together.

    Attributes:
        columns: Arrays of shape ``(T, N, ...)`` by name of ``Columns``: observations, actions, rewards (float32),
            terminateds and truncateds (bool), log-probabilities, and what else the module returned.
        valid: ``(T, N)`` bool; False where a lane only reset, which is no step.
        next_obs: ``(T, N, ...)``, the observation after each step; the last one of an episode where it ended.
        state_in: Recurrent state ``(N, ...)`` at the start of the fragment; None for feed-forward modules.
        weights_seq_no: Version of the weights that chose the actions.
        chunks: With several agents, the part of an episode that each lane is.
        piece_states: States before pieces of the episodes, if they were kept; a fragment made of others has none.
    """

    columns: dict[str, np.ndarray]
    valid: np.ndarray
    next_obs: np.ndarray
    state_in: dict[str, Any] | None = None
    weights_seq_no: int = 0
    #: Lanes that started afresh because their environment failed in this fragment.
    num_lanes_restarted: int = field(default=0)
    chunks: tuple[AgentChunk, ...] = ()
    piece_states: PieceStates | None = None

    @property
    def num_steps(self) -> int:
        """The number of environment steps in this fragment, resets not counted."""
        return int(self.valid.sum())

    @property
    def num_lanes(self) -> int:
        """The number of environments, N."""
        return int(self.valid.shape[1])

    def check(self) -> None:
        """Raise ValueError if the arrays disagree about T and N."""
        shape = self.valid.shape
        named = {**self.columns, "next_obs": self.next_obs}
        wrong = {name: array.shape for name, array in named.items() if array.shape[:2] != shape}
        if wrong:
            raise ValueError(
                f"columns of a fragment of {shape[0]} steps and {shape[1]} lanes have shapes {wrong}"
            )


def concatenate_lanes(rollouts: Sequence[Rollout]) -> Rollout:
    """Put fragments of equal length side by side.

    Args:
        rollouts: At least one; all of the same T and with the same columns.

    Returns:
        One fragment with the lanes of all; the weights' version is the oldest.

    Raises:
        ValueError: The fragments differ in length or in columns.
    """
    first = rollouts[0]
    if len(rollouts) == 1:
        return first
    for other in rollouts[1:]:
        if other.valid.shape[0] != first.valid.shape[0] or other.columns.keys() != first.columns.keys():
            raise ValueError(
                f"fragments of {first.valid.shape[0]} and {other.valid.shape[0]} steps with columns "
                f"{sorted(first.columns)} and {sorted(other.columns)} cannot stand side by side"
            )
    states = [rollout.state_in for rollout in rollouts]
    state = None
    if all(each is not None for each in states):
        state = map_nested(lambda *parts: np.concatenate(parts), *states)
    return Rollout(
        columns={
            key: np.concatenate([rollout.columns[key] for rollout in rollouts], axis=1)
            for key in first.columns
        },
        valid=np.concatenate([rollout.valid for rollout in rollouts], axis=1),
        next_obs=np.concatenate([rollout.next_obs for rollout in rollouts], axis=1),
        state_in=state,
        weights_seq_no=min(rollout.weights_seq_no for rollout in rollouts),
        num_lanes_restarted=sum(rollout.num_lanes_restarted for rollout in rollouts),
        chunks=tuple(chunk for rollout in rollouts for chunk in rollout.chunks),
    )


def concatenate_steps(rollouts: Sequence[Rollout]) -> Rollout:
    """Put fragments of the same lanes one after the other.

    Args:
        rollouts: At least one, in order of time.

    Returns:
        One fragment with the steps of all; the weights' version is the oldest.
    """
    first = rollouts[0]
    return Rollout(
        columns={
            key: np.concatenate([rollout.columns[key] for rollout in rollouts]) for key in first.columns
        },
        valid=np.concatenate([rollout.valid for rollout in rollouts]),
        next_obs=np.concatenate([rollout.next_obs for rollout in rollouts]),
        state_in=first.state_in,
        weights_seq_no=min(rollout.weights_seq_no for rollout in rollouts),
        num_lanes_restarted=sum(rollout.num_lanes_restarted for rollout in rollouts),
    )
