"""Advantages over columns against the sums that a textbook writes for one episode."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skate.rllib.core.advantages import bootstrap_rows, following, generalized_advantages, standardized


def textbook(
    rewards: list[float], values: list[float], last_value: float, gamma: float, lambda_: float
) -> list[float]:
    """A(t) is the sum over k of (gamma lambda)^k delta(t + k), with V after the last step as given."""
    after = [*values[1:], last_value]
    deltas = [r + gamma * n - v for r, n, v in zip(rewards, after, values, strict=True)]
    return [
        sum((gamma * lambda_) ** k * delta for k, delta in enumerate(deltas[t:])) for t in range(len(rewards))
    ]


def lane(kinds: list[str], numbers: np.random.Generator) -> dict[str, np.ndarray]:
    """Columns of one lane; a row's kind is step, end (terminated), cut (truncated), both, or reset."""
    count = len(kinds)
    return {
        "rewards": numbers.normal(size=count).astype(np.float32),
        "values": numbers.normal(size=count).astype(np.float32),
        "finals": numbers.normal(size=count).astype(np.float32),
        "terminateds": np.array([kind in ("end", "both") for kind in kinds]),
        "truncateds": np.array([kind in ("cut", "both") for kind in kinds]),
        "valid": np.array([kind != "reset" for kind in kinds]),
    }


def expected(columns: dict[str, np.ndarray], gamma: float, lambda_: float) -> np.ndarray:
    """Walk over the episodes of one lane."""
    count = len(columns["rewards"])
    found = np.zeros(count)
    start = 0
    for t in range(count):
        if not columns["valid"][t]:
            start = t + 1
            continue
        done = columns["terminateds"][t] or columns["truncateds"][t]
        if done or t == count - 1 or not columns["valid"][t + 1]:
            last = 0.0 if columns["terminateds"][t] else float(columns["finals"][t])
            rows = slice(start, t + 1)
            found[rows] = textbook(
                columns["rewards"][rows].tolist(), columns["values"][rows].tolist(), last, gamma, lambda_
            )
            start = t + 1
    return found


@settings(max_examples=150, deadline=None)
@given(
    st.data(),
    st.integers(1, 9),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.3, 0.95, 1.0]),
    st.sampled_from([0.0, 0.9, 1.0]),
    st.integers(0, 999),
)
def test_advantages_are_those_of_the_textbook(
    data: st.DataObject, steps: int, lanes: int, lambda_: float, gamma: float, seed: int
) -> None:
    numbers = np.random.default_rng(seed)
    kinds = st.lists(
        st.sampled_from(["step", "step", "end", "cut", "both", "reset"]), min_size=steps, max_size=steps
    )
    columns = [lane(data.draw(kinds), numbers) for _ in range(lanes)]
    stacked = {name: np.stack([each[name] for each in columns], axis=1) for name in columns[0]}
    done = stacked["terminateds"], stacked["truncateds"]
    next_values = following(stacked["values"])
    rows = bootstrap_rows(*done, stacked["valid"])
    next_values[rows] = stacked["finals"][rows]
    advantages = generalized_advantages(
        rewards=stacked["rewards"],
        values=stacked["values"],
        next_values=next_values,
        terminateds=done[0],
        truncateds=done[1],
        valid=stacked["valid"],
        gamma=gamma,
        lambda_=lambda_,
    )
    assert advantages.dtype == np.float32
    for n, each in enumerate(columns):
        np.testing.assert_allclose(advantages[:, n], expected(each, gamma, lambda_), rtol=1e-4, atol=1e-4)


def test_a_value_that_is_not_read_may_be_anything() -> None:
    one = np.ones((2, 1), np.float32)
    ended = np.array([[True], [True]])
    advantages = generalized_advantages(
        rewards=one, values=one, next_values=one * np.nan, terminateds=ended, truncateds=~ended,
        valid=np.ones((2, 1), bool), gamma=0.9, lambda_=0.9,
    )  # fmt: skip
    assert advantages.tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("spread", [1.0, 0.0])
def test_standardized_advantages_have_mean_0(spread: float) -> None:
    found = standardized(np.arange(8, dtype=np.float32) * spread + 3)
    assert abs(found.mean()) < 1e-6 and found.dtype == np.float32
    assert abs(found.std() - spread) < 1e-3
