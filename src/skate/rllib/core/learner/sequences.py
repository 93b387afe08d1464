"""Sequences for modules with memory: episodes in pieces, each with the recurrent state at its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module.torch.torch_rl_module import to_tensors
from skate.rllib.env.sampling.sequence_rows import fresh_starts, pieces_of

State = dict[str, Any]


@dataclass
class Memory:
    """A pass of a module with memory over a fragment, whose episodes are cut into pieces.

    Attributes:
        values: Values before each step, shape ``(T, N)``; 0 where a lane only reset.
        last_values: Values after each step; set only where ``bootstrap`` was True.
        rows: Rows ``t * N + lane`` of each piece, shape ``(pieces, length)``.
        mask: Which of them are steps; others are padding.
        states: The recurrent state before each piece; each tensor is of shape ``(pieces, ...)``.
    """

    values: np.ndarray
    last_values: np.ndarray
    rows: np.ndarray
    mask: np.ndarray
    states: State


def remembered(module: Any, rollout: Any, bootstrap: np.ndarray, length: int, device: Any) -> Memory:
    """Walk a module with memory over a fragment without gradients: all first pieces, all second ones, and so on.

    If the states before the pieces were kept while the fragment was sampled, all pieces are evaluated at once.

    Args:
        module: The module; it has ``compute_values``.
        rollout: The fragment.
        bootstrap: Where the values after the steps are needed, shape ``(T, N)``.
        length: The most steps in a piece.
        device: The device of the module.
    """
    rows, mask = pieces_of(rollout, length)
    lanes = rollout.valid.shape[1]
    states = stacked(to_tensors(module.get_initial_state(), device), len(rows))
    begins = np.flatnonzero(rows[:, 0] < lanes)
    if rollout.state_in is not None:
        put_rows(states, begins, rows_of_state(to_tensors(rollout.state_in, device), rows[begins, 0]))
    found = Memory(
        np.zeros(bootstrap.shape, np.float32), np.zeros(bootstrap.shape, np.float32), rows, mask, states
    )
    kept = rollout.piece_states
    if kept is not None and kept.length == length and has_parts_of(kept.before, states):
        found.states = to_tensors(kept.before, device)
        with torch.no_grad():
            _evaluate(module, rollout, bootstrap, found, np.arange(len(rows)), found.states, device)
        return found
    depths = depths_of(rollout, rows, mask)
    with torch.no_grad():
        for depth in range(int(depths.max(initial=-1)) + 1):
            chosen = np.flatnonzero(depths == depth)
            state = rows_of_state(states, chosen)
            goes_on = np.isin(chosen + 1, np.flatnonzero(depths == depth + 1))
            if not goes_on.all():
                ending = rows_of_state(state, ~goes_on)
                _evaluate(module, rollout, bootstrap, found, chosen[~goes_on], ending, device)
            if goes_on.any():
                _walk(module, rollout, found, chosen[goes_on], rows_of_state(state, goes_on), device)
    return found


def _walk(module: Any, rollout: Any, found: Memory, chosen: np.ndarray, state: State, device: Any) -> None:
    """Fill in the values of some whole pieces that others follow, and the states before those, in one pass."""
    rows = found.rows[chosen]
    batch = {**to_tensors({Columns.OBS: _observed(rollout, rows)}, device), Columns.STATE_IN: state}
    out = module.forward_train(batch)
    values = module.compute_values(batch, embeddings=out.get(Columns.EMBEDDINGS))
    found.values.reshape(-1)[rows] = values.reshape(rows.shape).cpu().numpy()
    after = out.get(Columns.STATE_OUT)
    if after is None:  # a module of the user may return states only where actions are drawn
        after = module.forward_exploration(batch)[Columns.STATE_OUT]
    put_rows(found.states, chosen + 1, after)


def _evaluate(
    module: Any,
    rollout: Any,
    bootstrap: np.ndarray,
    found: Memory,
    chosen: np.ndarray,
    state: State,
    device: Any,
) -> None:
    """Fill in the values of the steps of some pieces, and of the observations after them."""
    rows, mask = found.rows[chosen], found.mask[chosen]
    each, last = np.arange(len(chosen)), mask.sum(1) - 1
    ends = rows[each, last]
    # One step more, for the observation after the last step.
    seen = _observed(rollout, np.concatenate((rows, rows[:, -1:]), axis=1))
    seen[each, last + 1] = rollout.next_obs.reshape(-1, *seen.shape[2:])[ends]
    batch = {**to_tensors({Columns.OBS: seen}, device), Columns.STATE_IN: state}
    values = module.compute_values(batch).reshape(seen.shape[:2]).cpu().numpy()
    found.values.reshape(-1)[rows[mask]] = values[:, :-1][mask]
    needed = bootstrap.reshape(-1)[ends]
    found.last_values.reshape(-1)[ends[needed]] = values[each, last + 1][needed]


def _observed(rollout: Any, rows: np.ndarray) -> np.ndarray:
    observations = rollout.columns[Columns.OBS]
    chosen: np.ndarray = observations.reshape(-1, *observations.shape[2:])[rows]
    return chosen


def depths_of(rollout: Any, rows: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return how many pieces of its episode are before each piece in the fragment.

    Args:
        rollout: The fragment.
        rows: See `Memory`.
        mask: See `Memory`.
    """
    fresh = fresh_starts(rollout).reshape(-1)
    lanes = rollout.valid.shape[1]
    depths = np.zeros(len(rows), np.int64)
    for index in range(1, len(rows)):
        first, before = rows[index, 0], rows[index - 1, -1]
        if mask[index - 1, -1] and first == before + lanes and not fresh[first]:
            depths[index] = depths[index - 1] + 1
    return depths


def sequences_of(
    rollout: Any, columns: Mapping[str, np.ndarray], memory: Memory, device: Any
) -> dict[str, Any]:
    """Return the columns ``(T, N, ...)`` of a fragment as a batch of padded sequences ``(pieces, length, ...)``.

    Args:
        rollout: The fragment.
        columns: Its columns, and others of the same shape.
        memory: The pieces, and the recurrent states before them.
        device: The device of the batch.
    """
    padded = {name: column.reshape(-1, *column.shape[2:])[memory.rows] for name, column in columns.items()}
    batch = to_tensors({**padded, Columns.LOSS_MASK: memory.mask}, device)
    batch[Columns.STATE_IN] = memory.states
    return batch


def has_parts_of(state: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if two recurrent states are nested in the same way."""
    return state.keys() == other.keys() and all(
        has_parts_of(state[name], each) if isinstance(each, Mapping) else not isinstance(state[name], Mapping)
        for name, each in other.items()
    )


def stacked(state: Mapping[str, Any], count: int) -> State:
    """Return a state without batch dimension ``count`` times."""
    return {
        name: stacked(value, count)
        if isinstance(value, Mapping)
        else value.expand(count, *value.shape).clone()
        for name, value in state.items()
    }


def rows_of_state(state: Mapping[str, Any], rows: np.ndarray) -> State:
    """Return some rows of a state, by index or by mask."""
    chosen = torch.as_tensor(rows)
    return {
        name: rows_of_state(value, rows) if isinstance(value, Mapping) else value[chosen.to(value.device)]
        for name, value in state.items()
    }


def put_rows(state: Mapping[str, Any], rows: np.ndarray, new: Mapping[str, Any]) -> None:
    """Put a state into some rows of another one, in place."""
    for name, value in new.items():
        if isinstance(value, Mapping):
            put_rows(state[name], rows, value)
        else:
            state[name][torch.as_tensor(rows, device=value.device)] = value


def concatenated(batches: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rows of several batches one after another, also in nested columns."""
    return {
        name: concatenated([batch[name] for batch in batches])
        if isinstance(value, Mapping)
        else torch.cat([batch[name] for batch in batches])
        for name, value in batches[0].items()
    }
