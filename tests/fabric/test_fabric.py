"""The promises of a fabric: the same tests for the star of one machine and for the mesh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from skate.protocol import messages as m
from tests.fabric.clusters import Cluster, MeshCluster, Star, TLSCluster

WORD = 99  # a message that binds nothing


@pytest.fixture(params=[Star, MeshCluster, TLSCluster])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    found: Cluster = request.param()
    yield found
    found.close()


def test_members_learn_of_one_another(cluster: Cluster) -> None:
    cluster.start(4)
    for node in cluster.nodes:
        others = {each.number for each in cluster.nodes if each is not node}
        assert {number for _, number in node.fabric.members()} == others
        assert {info["node_id"] for info in node.fabric.members().values()} == {
            each.fabric.info["node_id"] for each in cluster.nodes if each is not node
        }
        assert sorted(each[1] for each in node.handler.events if each[0] == "joined") == sorted(others)
    heads = [info.get("head") for info in cluster.nodes[1].fabric.members().values()]
    assert heads.count(True) == 1


def test_messages_arrive_in_order_and_once(cluster: Cluster) -> None:
    cluster.start(3)
    for count in range(300):
        for source in cluster.nodes:
            for to in cluster.nodes:
                if source is not to:
                    source.fabric.send(source.id_of(to), (WORD, count, source.number))
                    if count % 7 == source.number:
                        source.fabric.flush()
    for node in cluster.nodes:
        node.fabric.flush()
    cluster.until(lambda: all(len(node.handler.of("message")) == 600 for node in cluster.nodes))
    for node in cluster.nodes:
        for source in cluster.nodes:
            if source is not node:
                assert node.got(source) == [(WORD, count, source.number) for count in range(300)]


def test_a_message_is_packed_when_it_is_sent(cluster: Cluster) -> None:
    cluster.start(2)
    head, node = cluster.nodes
    content = [1, 2]
    head.fabric.send(head.id_of(node), (WORD, content))
    content.append(3)
    head.fabric.flush()
    cluster.until(lambda: bool(node.got(head)))
    assert node.got(head) == [(WORD, (1, 2))]


def test_nothing_overtakes_a_binding_message(cluster: Cluster) -> None:
    """Two tells one of a borrower and lets go; the owner hears of the borrower first, however slow the lane is."""
    cluster.start(3)
    owner, lender, borrower = cluster.nodes
    borrower.handler.on_message = lambda member, message: None

    def lent(member: Any, message: tuple[Any, ...]) -> None:
        if message[1] == "lent":
            borrower.fabric.send(borrower.id_of(owner), (m.HOLD, "held"))
            borrower.fabric.send(borrower.id_of(lender), (WORD, "done"))

    def done(member: Any, message: tuple[Any, ...]) -> None:
        if message[1] == "done":
            lender.fabric.send(lender.id_of(owner), (WORD, "free"))

    borrower.handler.on_message = lent
    lender.handler.on_message = done
    for _ in range(20):
        lender.send(borrower, WORD, "lent")
    cluster.until(lambda: len(owner.handler.of("message")) == 40)
    texts = [message[1] for message in owner.handler.of("message")]
    held = [sum(text == "held" for text in texts[: at + 1]) for at in range(40)]
    freed = [sum(text == "free" for text in texts[: at + 1]) for at in range(40)]
    assert all(one >= other for one, other in zip(held, freed, strict=True))


def test_a_departure_comes_after_the_last_message(cluster: Cluster) -> None:
    cluster.start(3)
    head, one, other = cluster.nodes
    for count in range(200):
        one.fabric.send(one.id_of(other), (WORD, count))
        one.fabric.send(one.id_of(head), (WORD, count))
    one.fabric.flush()
    cluster.until(lambda: bool(other.got(one) and head.got(one)))
    cluster.kill(one)
    number = one.number
    cluster.until(lambda: all(node.handler.of("left", number) for node in (head, other)))
    for node in (head, other):
        assert node.handler.events[-1][:2] == ("left", number)
        got = node.got(one)
        assert got == [(WORD, count) for count in range(len(got))]
        assert number not in node.fabric.ids
    head.send(other, WORD, "on")
    cluster.until(lambda: other.got(head) == [(WORD, "on")])


def test_a_message_to_one_that_has_left_is_dropped(cluster: Cluster) -> None:
    cluster.start(3)
    head, one, other = cluster.nodes
    member = head.id_of(one)
    cluster.kill(one)
    cluster.until(lambda: one.number not in head.fabric.ids)
    head.fabric.send(member, (WORD,))
    head.fabric.flush()
    done: list[bool] = []
    head.fabric.fetch(member, b"key", 10, lambda at, piece: None, done.append)
    assert done == [False]


def test_output_and_requests_reach_their_nodes(cluster: Cluster) -> None:
    cluster.start(2)
    head, node = cluster.nodes
    node.fabric.print(True, "text")
    head.fabric.request_leave(head.id_of(node))
    cluster.until(
        lambda: ("leave",) in node.handler.events and ("printed", True, "text") in head.handler.events
    )


@pytest.mark.parametrize("size", [0, 5, 1 << 20, (7 << 20) + 11])
@pytest.mark.parametrize("in_space", [False, True])
def test_a_value_is_fetched(cluster: Cluster, size: int, in_space: bool) -> None:
    cluster.start(3)
    _, one, other = cluster.nodes
    value = one.handler.values[b"key"] = bytes(range(256)) * (size // 256) + bytes(size % 256)
    got = bytearray(size)
    done: list[bool] = []

    def write(at: int, piece: Any) -> None:
        got[at : at + len(piece)] = piece

    if size == 0 and isinstance(cluster, Star):
        return  # no node asks the star for nothing
    space = (lambda: memoryview(got)) if in_space else None
    other.fabric.fetch(other.id_of(one), b"key", size, write, done.append, space)
    other.fabric.flush()
    cluster.until(lambda: bool(done))
    assert done == [True]
    assert bytes(got) == value


def test_a_fetch_of_a_missing_value_ends(cluster: Cluster) -> None:
    cluster.start(3)
    _, one, other = cluster.nodes
    done: list[bool] = []
    for size in (10, 50 << 20):
        for space in (None, lambda size=size: memoryview(bytearray(size))):
            other.fabric.fetch(other.id_of(one), b"none", size, lambda at, piece: None, done.append, space)
    other.fabric.flush()
    cluster.until(lambda: len(done) == 4)
    assert done == [False] * 4


def test_a_fetch_ends_with_its_source(cluster: Cluster) -> None:
    cluster.start(3)
    _, one, other = cluster.nodes
    one.handler.read = lambda key, at, size, answer, visit=None: None  # type: ignore[method-assign]
    done: list[bool] = []
    for size in (10, 50 << 20):
        for space in (None, lambda size=size: memoryview(bytearray(size))):
            other.fabric.fetch(other.id_of(one), b"key", size, lambda at, piece: None, done.append, space)
    other.fabric.flush()
    cluster.settle()
    assert not done
    cluster.kill(one)
    cluster.until(lambda: len(done) == 4)
    assert done == [False] * 4
