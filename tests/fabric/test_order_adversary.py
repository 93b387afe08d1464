"""Order under an adversary: events of several members in any sequence, by hypothesis and in long random runs."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fabric.adversary import KINDS, Action, drawn, finish, play, run_lanes
from tests.fabric.net import Net, Overtaken

ACTIONS = st.lists(
    st.tuples(st.sampled_from(KINDS), *[st.integers(0, 5)] * 2, *[st.integers(0, 3)] * 2), max_size=60
)


@settings(max_examples=300, deadline=None)
@given(st.integers(2, 5), ACTIONS)
def test_an_adversary_cannot_break_the_order(count: int, actions: list[Action]) -> None:
    net = Net(count)
    play(net, actions)
    finish(net)


@pytest.mark.parametrize("block", range(4))
def test_nor_in_long_runs(block: int) -> None:
    for seed in range(block, 1200, 4):
        run_lanes(seed)


def test_the_adversary_notices_when_nothing_binds() -> None:
    overtaken = 0
    for seed in range(300):
        rng = random.Random(seed)
        try:
            play(Net(rng.choice((3, 4, 5)), binding=False), drawn(rng))
        except Overtaken:
            overtaken += 1
    assert overtaken > 10
