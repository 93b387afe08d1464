"""Advantages and value targets over columns of ``T`` steps and ``N`` lanes."""

from __future__ import annotations

import numpy as np


def generalized_advantages(
    *,
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    terminateds: np.ndarray,
    truncateds: np.ndarray,
    valid: np.ndarray,
    gamma: float,
    lambda_: float,
) -> np.ndarray:
    """Return generalized advantage estimates (Schulman et al. 2016, arXiv:1506.02438).

    A sum of discounted errors ends where an episode ends and where the fragment ends. A terminated episode is worth
    nothing after its end; a truncated one, and one that goes on after the fragment, is worth ``next_values``.

    Args:
        rewards: Shape ``(T, N)``.
        values: Value of the observation before each step, shape ``(T, N)``.
        next_values: Value of the observation after each step; not read where the episode terminated.
        terminateds: True at the last step of an episode that reached its end.
        truncateds: True at the last step of an episode that was cut off.
        valid: False where a lane only reset. These rows get the advantage 0.
        gamma: Discount per step.
        lambda_: 0 takes one step of rewards into account, 1 all of them.

    Returns:
        Advantages of float32, shape ``(T, N)``. Value targets are advantages plus values.
    """
    ends = terminateds | truncateds | ~valid
    errors = rewards + gamma * np.where(terminateds, np.float32(0), next_values) - values
    errors = np.where(valid, errors, np.float32(0)).astype(np.float32)
    carried = np.where(ends, np.float32(0), np.float32(gamma * lambda_)).astype(np.float32)
    advantages: np.ndarray = np.empty_like(errors)
    behind = np.zeros(errors.shape[1:], np.float32)
    for t in range(len(errors) - 1, -1, -1):
        behind = errors[t] + carried[t] * behind
        advantages[t] = behind
    return advantages


def bootstrap_rows(terminateds: np.ndarray, truncateds: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Return where the value after a step is not the value of the next row, shape ``(T, N)``.

    These are truncated steps, the last row of the fragment, and steps before a row that only reset.
    """
    cut = truncateds.copy()
    cut[-1] = True
    cut[:-1] |= ~valid[1:]
    rows: np.ndarray = cut & valid & ~terminateds
    return rows


def following(values: np.ndarray) -> np.ndarray:
    """Return the values of the next rows; the last row has zeros."""
    after = np.zeros_like(values)
    after[:-1] = values[1:]
    return after


def standardized(advantages: np.ndarray) -> np.ndarray:
    """Return advantages with mean 0 and standard deviation 1."""
    centered: np.ndarray = (advantages - advantages.mean()) / max(1e-4, float(advantages.std()))
    return centered.astype(np.float32)
