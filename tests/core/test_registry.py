"""The registry of a node: its own until it learns of a head, then the head's."""

from __future__ import annotations

from typing import Any

import pytest

from skate.core.cluster.head_registry import HeadRegistry
from skate.core.cluster.member_registry import MemberRegistry
from skate.core.node import NodeCore
from skate.protocol import messages as m
from skate.simulation.programs.spec import CPU

OF_THE_HEAD = {m.SEEK, m.ACTOR_REPORT, m.RESERVED}
OF_MEMBERS = {m.ACTOR_AT, m.RESERVE, m.UNRESERVE, m.GROUP, m.REPLY}
DRIVER = 1


def node_with_a_driver() -> NodeCore:
    node = NodeCore({"CPU": CPU}, node_id=b"here".ljust(28, b"."))
    node.connect(DRIVER, "job", "", True)
    return node


def join(node: NodeCore, cid: int, head: bool = False) -> None:
    name = str(cid).encode().ljust(28, b".")
    node.cluster.join(cid, {"node_id": name, "total": {"CPU": CPU}, "labels": {}, "head": head}, 0.0)


def received(node: NodeCore, cid: int, tag: int) -> list[Any]:
    """Return the messages of one kind to a process since the last look."""
    found = [message for to, message in node.effects if to == cid and message[0] == tag]
    node.effects.clear()
    return found


def asks(node: NodeCore, number: int) -> None:
    node.step(DRIVER, m.Request(m.REQUEST, number, "kv_get", (b"space", b"key")), 0.0)


def test_a_node_is_its_own_head_until_it_learns_of_another() -> None:
    node = node_with_a_driver()
    join(node, 50)
    assert isinstance(node.cluster.registry, HeadRegistry) and node.members.head is node.members.here
    assert node.handlers.keys() >= OF_THE_HEAD and not node.handlers.keys() & OF_MEMBERS
    asks(node, 1)
    assert received(node, DRIVER, m.REPLY) == [(m.REPLY, 1, True, None)]
    join(node, 51, head=True)
    assert isinstance(node.cluster.registry, MemberRegistry) and node.members.head.cid == 51
    assert node.handlers.keys() >= OF_MEMBERS and not node.handlers.keys() & OF_THE_HEAD
    asks(node, 2)
    assert received(node, 51, m.REQUEST) == [(m.REQUEST, 1, "kv_get", (b"space", b"key"))]


def test_all_who_ask_a_registry_get_the_new_one() -> None:
    node = node_with_a_driver()
    users = [each for each in vars(node).values() if hasattr(each, "registry")]
    assert len(users) >= 6
    assert {id(each.registry) for each in users} == {id(node.cluster.registry)}
    join(node, 50, head=True)
    assert {id(each.registry) for each in users} == {id(node.cluster.registry)}


def test_questions_outlive_the_head_that_they_went_to() -> None:
    node = node_with_a_driver()
    join(node, 50, head=True)
    asks(node, 1)
    node.cluster.left(50, "was killed", 0.0)
    join(node, 51, head=True)
    node.effects.clear()
    asks(node, 2)
    ((_, second, *_),) = received(node, 51, m.REQUEST)
    node.step(51, m.Reply(m.REPLY, second, True, b"value"), 0.0)
    assert received(node, DRIVER, m.REPLY) == [(m.REPLY, 2, True, b"value")]
    node.step(51, m.Reply(m.REPLY, 1, True, b"value"), 0.0)
    assert received(node, DRIVER, m.REPLY) == [(m.REPLY, 1, True, b"value")]


def test_a_group_of_a_lost_node_has_an_owner_and_one_of_a_lost_process_has_none() -> None:
    node = node_with_a_driver()
    join(node, 50)
    group = m.Request(m.REQUEST, 1, "create_group", (b"group", ({"CPU": CPU},), {}))
    node.step(50, group, 0.0)
    node.cluster.left(50, "was killed", 0.0)
    node.check()
    node.placement.groups[b"group"].owner = 99
    with pytest.raises(AssertionError, match="kept for process 99"):
        node.check()
