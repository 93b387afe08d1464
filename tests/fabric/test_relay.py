"""Lanes of pairs that cannot connect: they go through the head or another member."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from skate.fabric.lane import STUCK_TICKS
from skate.fabric.lanes import BEHIND_HEAD
from tests.fabric.manual_mesh import STEP, WORD, Manual, talk


@pytest.fixture
def mesh() -> Iterator[Manual]:
    found = Manual()
    yield found
    found.close()


def test_a_pair_that_cannot_connect_talks_through_the_head(mesh: Manual) -> None:
    mesh.start(4)
    _, one, other, third = mesh.nodes
    talk(mesh, one, other)
    mesh.engine.block(one.name, other.name)
    before = len(other.got(one))
    for number in range(30):
        one.send(other, WORD, number, bytes(100_000))
    mesh.turn()
    assert len(other.got(one)) < before + 30
    mesh.advance(2)
    mesh.until(lambda: len(other.got(one)) == before + 30)
    assert [message[1] for message in other.got(one)[before:]] == list(range(30))
    assert one.fabric.lanes[other.number].connection.is_relayed
    talk(mesh, one, other)
    talk(mesh, one, third)
    mesh.advance(20)
    talk(mesh, other, one)
    assert not mesh.ends and len(mesh.nodes[0].fabric.ids) == 3


def test_a_lane_whose_bytes_get_lost_on_the_way_goes_through_the_head(mesh: Manual) -> None:
    mesh.start(3)
    _, one, other = mesh.nodes
    talk(mesh, one, other)
    silent = one.fabric.lanes[other.number].connection
    mesh.pump.remove(other.fabric.lanes[one.number].connection.channel.fd)  # the connection stays open
    mesh.engine.blocked.add(frozenset((one.name, other.name)))
    before = len(other.got(one))
    one.send(other, WORD, 7)
    mesh.advance(STUCK_TICKS * STEP)
    assert one.fabric.lanes[other.number].connection is silent
    mesh.advance(1.5)
    mesh.until(lambda: other.got(one)[before:] == [(WORD, 7)])
    assert silent.closed and one.fabric.lanes[other.number].connection.is_relayed
    talk(mesh, one, other)


def test_a_lane_is_kept_while_its_peer_is_only_slow(mesh: Manual) -> None:
    mesh.start(3)
    _, one, other = mesh.nodes
    talk(mesh, one, other)
    kept = one.fabric.lanes[other.number].connection
    for _ in range(10):
        one.send(other, WORD, 1)
        mesh.advance(0.5)
    assert one.fabric.lanes[other.number].connection is kept


def test_a_pair_that_never_could_connect_talks_through_the_head(mesh: Manual) -> None:
    mesh.start(3)
    _, one, other = mesh.nodes
    mesh.engine.block(one.name, other.name)
    one.send(other, WORD, 1)
    mesh.advance(2)
    mesh.until(lambda: other.got(one) == [(WORD, 1)])


def test_a_relay_ends_with_one_of_its_members(mesh: Manual) -> None:
    mesh.start(4)
    head, one, other, third = mesh.nodes
    mesh.engine.block(one.name, other.name)
    one.send(other, WORD, 1)
    mesh.advance(2)
    mesh.until(lambda: other.got(one) == [(WORD, 1)])
    mesh.kill(other)
    mesh.advance(1.5)  # what is on its way may still come
    assert mesh.left(one, other)
    assert one.handler.events[-1][:2] == ("left", other.number)
    assert not one.fabric._tunnels._tunnels
    talk(mesh, one, third)


def test_a_large_value_goes_through_the_head(mesh: Manual) -> None:
    mesh.start(3)
    _, one, other = mesh.nodes
    mesh.engine.block(one.name, other.name)
    one.handler.values[b"key"] = bytes(range(256)) * 40_000
    got = bytearray(256 * 40_000)
    done: list[bool] = []

    def write(at: int, piece: Any) -> None:
        got[at : at + len(piece)] = piece

    other.fabric.fetch(other.id_of(one), b"key", len(got), write, done.append, lambda: memoryview(got))
    other.fabric.flush()
    mesh.advance(2)
    mesh.until(lambda: bool(done))
    assert done == [True] and bytes(got) == one.handler.values[b"key"]


def test_a_node_that_only_others_reach_keeps_its_lane_to_the_head(mesh: Manual) -> None:
    mesh.start(4)
    head, one, other, third = mesh.nodes
    talk(mesh, one, third)
    talk(mesh, other, third)
    mesh.engine.block(head.name, third.name)
    for _ in range(20):
        for node in (one, other):  # who asks needs to have heard of it lately
            node.send(third, WORD, 0)
            third.send(node, WORD, 0)
        mesh.advance(1)
    assert not mesh.ends, third.fabric.reason
    assert third.number in head.fabric.ids
    talk(mesh, head, third)


def test_a_node_behind_the_head_connects_to_nothing_else(mesh: Manual) -> None:
    mesh.start(2)
    head, one = mesh.nodes
    behind = mesh.node()
    behind.fabric.info[BEHIND_HEAD] = True
    behind.fabric.greet(5.0)
    behind.fabric.begin()
    mesh.nodes.append(behind)
    mesh.until(lambda: len(one.fabric.members()) == 2)
    mesh.engine.dials.clear()
    for other in (head, one):
        talk(mesh, behind, other)
    large = bytes(range(256)) * 20_000
    for owner, reader in ((one, behind), (behind, one), (behind, head)):
        owner.handler.values[b"key"] = large
        got, done = bytearray(len(large)), list[bool]()

        def write(at: int, piece: bytes, got: bytearray = got) -> None:
            got[at : at + len(piece)] = piece

        reader.fabric.fetch(
            reader.id_of(owner), b"key", len(large), write, done.append, lambda got=got: memoryview(got)
        )
        reader.fabric.flush()
        mesh.until(lambda done=done: bool(done))
        assert done == [True] and got == large
    assert mesh.engine.dials == []
    # Its connection to the head is made again by itself.
    mesh.engine.cut(head.name, behind.name)
    mesh.until(lambda: bool(mesh.engine.dials))
    assert set(mesh.engine.dials) == {(behind.name, head.fabric.carrier.address)}
    for other in (head, one):
        talk(mesh, behind, other)
