"""Channels between nodes keep the order of what was written, and have no holes; the clock of all nodes is one."""

from __future__ import annotations

import random

import pytest

from skate.simulation.nodes.star import Star


@pytest.mark.parametrize("seed", range(8))
def test_a_node_that_was_given_up_hears_the_first_of_what_was_under_way_and_nothing_after(seed: int) -> None:
    world = Star(random.Random(seed), [1, 1, 1])
    down = world.down[1]
    down.clear()
    messages = [("message", number) for number in range(5)]
    for frame in messages[:3]:
        world.post(0, 1, frame)
    node = world.nodes[1]
    node.fenced = True
    world.fenced[1] = 1.0
    world.lose(node)
    kept = len(down)
    world.post(0, 1, messages[3])
    world.post(2, 1, messages[4])
    while world.up[2]:
        world.carry_up(2)
    assert [frame for _, _, frame in down] == messages[:kept]


def test_a_node_that_was_killed_hears_nothing() -> None:
    world = Star(random.Random(1), [1, 1, 1])
    world.post(0, 1, ("message", 1))
    world.kill(world.nodes[1])
    assert not world.down[1]


def test_a_new_node_does_not_set_the_clock_back() -> None:
    world = Star(random.Random(1), [1, 1])
    world.now = 5.0
    world.add(1)
    assert world.now == 5.0
