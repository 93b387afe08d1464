"""Draws among the likeliest tokens are those among all tokens, sorted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skate.llm.embedded import sampler
from skate.llm.embedded.sampler import Choice, choose
from skate.llm.sampling import SamplingParams

VOCABULARY = 4000
params = st.fixed_dictionaries(
    {"seed": st.integers(0, 1000)},
    optional={
        "top_p": st.floats(0.05, 1),
        "top_k": st.integers(1, 900),
        "min_p": st.floats(0, 0.9),
        "temperature": st.floats(0.2, 2),
    },
)


def drawn(logits: torch.Tensor, rows: list[dict[str, Any]]) -> list[int]:
    choices = [Choice(SamplingParams(**each), [1], VOCABULARY, each["seed"]) for each in rows]
    return choose(logits.clone(), choices, [()] * len(rows))[0]


@given(st.lists(params, min_size=1, max_size=5), st.integers(0, 99), st.sampled_from([0.0, 0.5, 3.0, 8.0]))
@settings(deadline=None, max_examples=60)
def test_the_best_suffice(rows: list[dict[str, Any]], seed: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Of bfloat16, so that many are equal.
    logits = (torch.randn(len(rows), VOCABULARY, generator=generator) * spread).bfloat16().float()
    fast = drawn(logits, rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sampler, "_BEST", VOCABULARY)
        assert drawn(logits, rows) == fast
    assert [drawn(logits[row : row + 1], [each])[0] for row, each in enumerate(rows)] == fast


def test_a_usual_request_does_not_sort_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(3, VOCABULARY, generator=torch.Generator().manual_seed(1)) * 6
    rows: list[dict[str, Any]] = [
        {"seed": 1, "top_p": 0.9},
        {"seed": 2, "top_k": 40},
        {"seed": 3, "min_p": 0.1},
    ]
    wanted = drawn(logits, rows)
    monkeypatch.delattr(sampler, "_all_sorted")
    assert drawn(logits, rows) == wanted


def test_rows_that_are_not_finite_fail_alone() -> None:
    logits = torch.randn(5, VOCABULARY)
    logits[0, 7], logits[1, 7], logits[2] = torch.nan, torch.inf, -torch.inf
    logits[3, 9] = -torch.inf
    choices = [Choice(SamplingParams(temperature=0), [1], VOCABULARY, None) for _ in range(5)]
    wanted = logits.argmax(-1).tolist()
    tokens, _, failed = choose(logits, choices, [()] * 5)
    assert sorted(failed) == [0, 1, 2]
    assert tokens[3:] == wanted[3:]
