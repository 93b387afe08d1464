"""Pieces of the episodes in a fragment, for modules with memory: the rows of each, and the states before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from skate.rllib.core.columns import Columns


def sequence_length(module: Any) -> int:
    """Return the most steps in a piece: `max_seq_len` of the module's settings, 20 by default."""
    settings = getattr(module, "model_config", None) or {}
    found = settings.get("max_seq_len", 20) if isinstance(settings, Mapping) else settings.max_seq_len
    return max(1, int(found))


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
    fresh, valid = fresh_starts(rollout).T.tolist(), rollout.valid.T.tolist()
    pieces: list[list[int]] = []
    for lane in range(lanes):
        current: list[int] = []
        for t, (begins, counts) in enumerate(zip(fresh[lane], valid[lane], strict=True)):
            if current and (begins or not counts or len(current) == length):
                pieces.append(current)
                current = []
            if counts:
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


def states_before(rows: np.ndarray, states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the recurrent states before pieces of a fragment.

    Args:
        rows: The first row ``t * N + lane`` of each piece.
        states: The states of all lanes before each step, as tensors ``(N, ...)``.

    Returns:
        A state of arrays ``(pieces, ...)``.
    """
    return {
        name: states_before(rows, [state[name] for state in states])
        if isinstance(value, Mapping)
        else torch.cat([state[name] for state in states])[torch.from_numpy(rows)].cpu().numpy()
        for name, value in states[0].items()
    }
