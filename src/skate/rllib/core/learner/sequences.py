"""Sequences for modules with memory: episodes in pieces, each with the recurrent state at its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module.torch.torch_rl_module import to_tensors

State = dict[str, Any]


@dataclass
class Memory:
    """A pass of a module with memory over a fragment.

    Attributes:
        values: Values before each step, shape ``(T, N)``.
        last_values: Values after each step; set only where ``bootstrap`` was True.
        states: The recurrent states before each step: one dict per step, each tensor ``(N, ...)``.
    """

    values: np.ndarray
    last_values: np.ndarray
    states: list[State]


def remembered(module: Any, rollout: Any, bootstrap: np.ndarray, device: Any) -> Memory:
    """Walk a module with memory over a fragment, step by step, without gradients.

    Args:
        module: The module; it has ``compute_values``.
        rollout: The fragment.
        bootstrap: Where the values after the steps are needed, shape ``(T, N)``.
        device: The device of the module.
    """
    steps, lanes = rollout.valid.shape
    initial = stacked(to_tensors(module.get_initial_state(), device), lanes)
    state = initial if rollout.state_in is None else to_tensors(rollout.state_in, device)
    fresh = fresh_starts(rollout)
    found = Memory(np.zeros((steps, lanes), np.float32), np.zeros((steps, lanes), np.float32), [])
    with torch.no_grad():
        for t in range(steps):
            state = where(torch.as_tensor(fresh[t], device=device), initial, state)
            found.states.append(state)
            batch = _one_step(rollout.columns[Columns.OBS][t], state, device)
            found.values[t] = module.compute_values(batch).reshape(lanes).cpu().numpy()
            state = module.forward_exploration(batch)[Columns.STATE_OUT]
            if bootstrap[t].any():
                after = module.compute_values(_one_step(rollout.next_obs[t], state, device))
                found.last_values[t] = after.reshape(lanes).cpu().numpy()
    return found


def _one_step(observations: np.ndarray, state: State, device: Any) -> dict[str, Any]:
    batch = to_tensors({Columns.OBS: observations}, device)
    return {Columns.OBS: batch[Columns.OBS].unsqueeze(1), Columns.STATE_IN: state}


def fresh_starts(rollout: Any) -> np.ndarray:
    """Return where an episode begins within the fragment, shape ``(T, N)``; never in its first row."""
    fresh: np.ndarray = np.zeros_like(rollout.valid)
    done = rollout.columns[Columns.TERMINATEDS] | rollout.columns[Columns.TRUNCATEDS] | ~rollout.valid
    fresh[1:] = done[:-1]
    return fresh


def pieces_of(rollout: Any, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut every episode of a fragment into pieces.

    Args:
        rollout: The fragment.
        length: The most steps in a piece.

    Returns:
        Rows ``t * N + lane`` of each piece, shape ``(pieces, length)``, and which of them are steps; others are padding.
    """
    steps, lanes = rollout.valid.shape
    fresh = fresh_starts(rollout)
    pieces: list[list[int]] = []
    for lane in range(lanes):
        current: list[int] = []
        for t in range(steps):
            if current and (fresh[t, lane] or not rollout.valid[t, lane] or len(current) == length):
                pieces.append(current)
                current = []
            if rollout.valid[t, lane]:
                current.append(t * lanes + lane)
        if current:
            pieces.append(current)
    rows = np.zeros((len(pieces), length), np.int64)
    mask = np.zeros((len(pieces), length), bool)
    for index, piece in enumerate(pieces):
        rows[index, : len(piece)] = piece
        rows[index, len(piece) :] = piece[-1]
        mask[index, : len(piece)] = True
    return rows, mask


def sequences_of(
    rollout: Any, columns: Mapping[str, np.ndarray], states: list[State], length: int, device: Any
) -> dict[str, Any]:
    """Return the columns ``(T, N, ...)`` of a fragment as a batch of padded sequences ``(pieces, length, ...)``.

    Args:
        rollout: The fragment.
        columns: Its columns, and others of the same shape.
        states: The recurrent states before each step.
        length: The most steps in a piece.
        device: The device of the batch.
    """
    rows, mask = pieces_of(rollout, length)
    lanes = rollout.valid.shape[1]
    padded = {name: column.reshape(-1, *column.shape[2:])[rows] for name, column in columns.items()}
    batch = to_tensors({**padded, Columns.LOSS_MASK: mask}, device)
    firsts = [divmod(int(row), lanes) for row in rows[:, 0]]
    batch[Columns.STATE_IN] = gathered([states[t] for t, _ in firsts], [lane for _, lane in firsts])
    return batch


def stacked(state: Mapping[str, Any], count: int) -> State:
    """Return a state without batch dimension ``count`` times."""
    return {
        name: stacked(value, count)
        if isinstance(value, Mapping)
        else value.expand(count, *value.shape).clone()
        for name, value in state.items()
    }


def where(choose: Tensor, first: State, second: State) -> State:
    """Return the rows of the first state where ``choose`` is True, and of the second elsewhere."""
    chosen: State = {}
    for name, value in first.items():
        if isinstance(value, Mapping):
            chosen[name] = where(choose, dict(value), second[name])
        else:
            chosen[name] = torch.where(choose.reshape(-1, *[1] * (value.dim() - 1)), value, second[name])
    return chosen


def gathered(states: list[State], lanes: list[int]) -> State:
    """Return one row of each state, stacked."""
    return {
        name: gathered([state[name] for state in states], lanes)
        if isinstance(value, Mapping)
        else torch.stack([state[name][lane] for state, lane in zip(states, lanes, strict=True)])
        for name, value in states[0].items()
    }


def concatenated(batches: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rows of several batches one after another, also in nested columns."""
    return {
        name: concatenated([batch[name] for batch in batches])
        if isinstance(value, Mapping)
        else torch.cat([batch[name] for batch in batches])
        for name, value in batches[0].items()
    }
