"""Messages that are larger than a frame may be, with the limits made small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from skate.fabric import large_message, mesh
from skate.fabric.large_message import PART, Assembly, parts_of
from skate.protocol import messages as m
from skate.wire import channel
from tests.fabric.clusters import MeshCluster

FRAME_MAX = 300_000
PART_MAX = 30_000


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[MeshCluster]:
    """Three nodes whose channels take no frame of more than 300 kB."""
    unpacker = channel._unpacker
    monkeypatch.setattr(channel, "_unpacker", lambda size: unpacker(min(size, FRAME_MAX)))
    for module in (large_message, mesh):
        monkeypatch.setattr(module, "PART_BYTES", PART_MAX)
    made = MeshCluster()
    made.start(3)
    yield made
    made.close()


def test_a_message_larger_than_a_frame_arrives_in_order(nodes: MeshCluster) -> None:
    _, one, other = nodes.nodes
    sent: list[tuple[Any, ...]] = []
    for number, size in enumerate((1, 4_000, 1_000_000, 10, PART_MAX, PART_MAX + 1, 4 * FRAME_MAX, 0)):
        sent += [(99, number, bytes([number]) * size), (99, "next")]
        for message in sent[-2:]:
            one.send(other, *message)
    nodes.until(lambda: len(other.got(one)) >= len(sent))
    assert other.got(one) == sent
    connections = [purpose for _, purpose, *_ in nodes.engine.pairs if purpose == "lane"]
    assert len(connections) <= 3, "no connection was broken"


def test_a_large_message_binds(nodes: MeshCluster) -> None:
    """Nothing that follows from it reaches its receiver before it, also by way of a third node."""
    head, one, other = nodes.nodes
    big = (m.HOLD, b"x" * (3 * FRAME_MAX))
    one.fabric.send(one.id_of(other), big)
    one.send(head, 99, "next")
    nodes.until(lambda: bool(head.got(one)))
    head.send(other, 99, "after it")
    nodes.until(lambda: bool(other.got(head)) and bool(other.got(one)))
    order = [event[2] for event in other.handler.events if event[0] == "message"]
    assert order.index(big) < order.index((99, "after it"))


def test_a_member_that_dies_in_the_middle_leaves_no_part() -> None:
    assembly = Assembly()
    assert assembly.take(3, False, b"half") is None
    assembly.left(3)
    assert not assembly._parts


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x01", b"\x90", b"\x91\xa1x", b"\x91\xff"])
def test_parts_that_make_no_message_are_dropped(data: bytes) -> None:
    assert Assembly().take(1, True, data) is None


def test_parts_of_a_message() -> None:
    assert list(parts_of(b"xy")) == [(PART, True, b"xy")]
