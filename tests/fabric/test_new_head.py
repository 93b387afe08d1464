"""The members of a mesh when their head ends and is started again: they stay, talk on, and return with their numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from skate.fabric.connection import HELLO
from skate.fabric.mesh_member import GRACE
from skate.protocol.version import VERSION
from tests.fabric.clusters import Node
from tests.fabric.manual_mesh import GRACE_S, WORD, Manual, talk


@pytest.fixture
def mesh() -> Iterator[Manual]:
    found = Manual()
    yield found
    found.close()


def start(mesh: Manual, count: int) -> list[Node]:
    """Start nodes whose head may return."""
    mesh.add()
    mesh.nodes[0].fabric.config = {GRACE: GRACE_S}
    for _ in range(count - 1):
        mesh.add()
    mesh.until(lambda: all(len(node.fabric.members()) == count - 1 for node in mesh.nodes))
    return mesh.nodes


def settled(mesh: Manual) -> None:
    """Wait until all nodes know each other."""
    numbers = {node.number for node in mesh.nodes}

    def ready() -> bool:
        mesh.advance(0.2)
        return all(
            {member[1] for member in node.fabric.members()} == numbers - {node.number} for node in mesh.nodes
        )

    mesh.until(ready)


def test_members_stay_and_return_with_their_numbers(mesh: Manual) -> None:
    _, one, other, third = start(mesh, 4)
    talk(mesh, one, other)
    numbers = [node.number for node in mesh.nodes]
    mesh.stop_head()
    mesh.advance(20)
    assert mesh.ends == {}
    talk(mesh, one, other)
    talk(mesh, other, third)  # a connection that did not exist before
    head = mesh.start_head()
    settled(mesh)
    assert [node.number for node in mesh.nodes] == numbers and head.fabric.epoch == 2
    for node in (one, other, third):
        assert node.fabric.epoch == 2
        talk(mesh, head, node)
        assert mesh.left(node, one) == mesh.left(node, other) == mesh.left(node, third) == ""
        assert len(node.handler.of("left", 0)) == 1
        joined = node.handler.of("joined", 0)
        assert [info.get("epoch") for info in joined] == [None, 2] and joined[1]["head"]
    talk(mesh, one, third)
    mesh.advance(15)
    assert mesh.ends == {}


@pytest.mark.parametrize("end", ["process", "silence"])
def test_members_find_a_head_at_another_address(mesh: Manual, end: str) -> None:
    old, one, other = start(mesh, 3)
    for node in (one, other):
        node.fabric.carrier.head_may_move = True
    if end == "process":
        mesh.stop_head()
        mesh.advance(12)
    else:  # a cut cable: no connection ends
        mesh.freeze(old)
        mesh.engine.blocked |= {frozenset((old.name, node.name)) for node in (one, other)}
        mesh.advance(4)
        assert one.fabric.carrier.seeks == other.fabric.carrier.seeks == 0
        mesh.advance(8)
        assert one.fabric.carrier.seeks == other.fabric.carrier.seeks == 1
    head = mesh.start_head(at="elsewhere")
    settled(mesh)
    for node in (one, other):
        assert node.fabric.epoch == 2
        talk(mesh, head, node)
    talk(mesh, one, other)
    mesh.advance(15)
    assert mesh.ends == {}
    if end == "silence":
        old.fabric.close()


def test_members_end_when_no_head_comes(mesh: Manual) -> None:
    _, one, other = start(mesh, 3)
    begin = mesh.now
    mesh.stop_head()
    mesh.advance(GRACE_S - 1)
    assert mesh.ends == {}
    mesh.advance(8)
    assert set(mesh.ends) == {one.name, other.name}
    assert all(GRACE_S <= end - begin <= GRACE_S + 6 for end in mesh.ends.values())


def test_without_state_members_end_at_once(mesh: Manual) -> None:
    mesh.start(3)
    mesh.stop_head()
    mesh.advance(1)
    assert len(mesh.ends) == 2


def test_a_single_member_that_is_cut_off_ends_before_it_is_declared_dead(mesh: Manual) -> None:
    head, one = start(mesh, 2)
    mesh.engine.block(head.name, one.name)
    mesh.stop_head()  # nobody answers: this member cannot know that the process has ended
    mesh.start_head(one)
    mesh.advance(7)
    assert set(mesh.ends) == {one.name}


def test_a_node_that_joined_later_is_known_to_all(mesh: Manual) -> None:
    _, one, other = start(mesh, 3)
    mesh.stop_head()
    mesh.start_head()
    settled(mesh)
    late = mesh.add()
    assert late.number == 11  # no number is used twice
    settled(mesh)
    for node in mesh.nodes:
        if node is not late:
            talk(mesh, late, node)
    mesh.stop_head()
    mesh.advance(2)
    mesh.start_head()
    settled(mesh)
    assert {node.fabric.epoch for node in mesh.nodes} == {3}
    for node in (one, other, late):
        talk(mesh, mesh.nodes[0], node)
    talk(mesh, one, late)


def test_who_does_not_return_is_dead_for_all(mesh: Manual) -> None:
    _, one, other, lost = start(mesh, 4)
    talk(mesh, one, lost)
    mesh.stop_head()
    lost.fabric.close()
    mesh.turn()
    head = mesh.start_head(lost)
    mesh.nodes.remove(lost)
    mesh.advance(8)
    assert mesh.left(one, lost) == "" and lost.number in {member[1] for member in one.fabric.members()}
    mesh.advance(4)
    assert "has not returned" in mesh.left(one, lost) and "has not returned" in mesh.left(other, lost)
    settled(mesh)
    talk(mesh, head, one)
    talk(mesh, one, other)
    assert lost.number not in head.fabric.lanes and mesh.ends == {}


def test_who_returns_too_late_has_to_end(mesh: Manual) -> None:
    _, one, other = start(mesh, 3)
    mesh.stop_head()
    mesh.freeze(other)
    mesh.start_head()
    mesh.advance(12)
    assert "has not returned" in mesh.left(one, other)
    hello = (HELLO, VERSION, b"n2", other.number, 0, 1, other.fabric.order.view, 0, other.fabric.info)
    answers: list[tuple[object, ...]] = []
    head = mesh.nodes[0].fabric
    connection = type("Stranger", (), {"refuse": lambda self, *frame: answers.append(frame)})()
    head.returns(connection, hello)
    assert answers == [("this node is no longer a member of the cluster", True)]


def test_a_message_that_follows_from_unknown_news_waits_for_them(mesh: Manual) -> None:
    """One member knows of a node that the other had not been told of when the head ended."""
    head, one, other = start(mesh, 3)
    talk(mesh, one, other)
    mesh.engine.block(head.name, other.name)  # the news does not reach it
    late = mesh.add()
    mesh.until(lambda: late.id_of(one) in late.fabric.members() and len(one.fabric.members()) == 3)
    one.send(other, WORD, "of the late one")
    mesh.turn()
    assert other.got(one)[20:] == []
    mesh.stop_head()
    mesh.engine.blocked.clear()
    mesh.start_head(one, late)  # the one that knows less returns first
    mesh.until(lambda: mesh.advance(0.1) is None and other.fabric.epoch == 2)
    mesh.advance(1)
    assert other.got(one)[20:] == []
    mesh.register(one)
    mesh.until(lambda: mesh.advance(0.1) is None and len(other.got(one)) == 21)
    events = [event[:2] for event in other.handler.events]
    assert events.index(("joined", late.number)) < len(events) - 1 - events[::-1].index(
        ("message", one.number)
    )
    mesh.register(late)
    settled(mesh)
    talk(mesh, late, other)


def test_a_head_of_an_earlier_epoch_is_refused(mesh: Manual) -> None:
    _, one, other = start(mesh, 3)
    old = mesh.nodes[0]
    mesh.freeze(old)  # it is stopped, and another one takes its place
    ended: list[int] = []
    old.fabric.on_end = lambda: ended.append(1)
    head = mesh.start_head()
    for node in (one, other):
        mesh.engine.cut(old.name, node.name)
    settled(mesh)
    assert one.fabric.epoch == other.fabric.epoch == 2
    before = len(one.handler.events)
    answers: list[tuple[object, ...]] = []
    connection = type("Stranger", (), {"refuse": lambda self, *frame: answers.append(frame)})()
    hello = (HELLO, VERSION, b"n0", 0, one.number, 1, 99, 0, None)
    one.fabric.returns(connection, hello)
    assert "epoch 2" in str(answers)
    assert not one.fabric.accepts(0, 1) and one.fabric.epoch == 2
    old.fabric.returns(connection, (HELLO, VERSION, b"n1", one.number, 0, 2, 99, 0, None))
    assert ended == [1]
    mesh.turn()
    assert len(one.handler.events) == before
    talk(mesh, head, one)
    old.fabric.close()
