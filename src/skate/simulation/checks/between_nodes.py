"""Agreement of nodes about objects and actors that they share, once no message is in flight.

What one node holds at another, the other counts. Every node knows where an actor is that it may call.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Protocol

from skate.core.node import NodeCore
from skate.protocol.states import ALIVE, DEAD


class Node(Protocol):
    """One node of several."""

    number: int
    node_id: bytes
    core: NodeCore
    #: The numbers of other nodes, by the ids that this one gave them.
    peers: dict[int, int]

    @property
    def head(self) -> object:
        """The node that registers all actors."""


def check(nodes: Sequence[Node]) -> None:
    """Raise AssertionError if two nodes count a grant differently, or see an actor at different places."""
    for node in nodes:
        for other in nodes:
            if other is not node:
                check_objects(node, other)
                check_actors(node, other)


def check_recorded(nodes: Sequence[Node], recorded: Container[bytes]) -> None:
    """Assert that no member runs an actor of which the head, which is lost, has stored nothing."""
    for node in nodes:
        for actor_id, actor in node.core.actors.actors.items():
            assert not actor.hosted or actor_id in recorded, f"{node} runs {actor}, which is not stored"


def cid_of(node: Node, other: Node) -> int:
    """Return the id that a node gives to another one."""
    return next(cid for cid, number in node.peers.items() if number == other.number)


def check_objects(node: Node, holder: Node) -> None:
    """Assert that a node counts the grants of objects that another one holds at it."""
    cid, at = cid_of(node, holder), cid_of(holder, node)
    counted = {
        oid: record.holders[cid] for oid, record in node.core.objects.records.items() if cid in record.holders
    }
    claimed = {}
    for oid, record in holder.core.objects.records.items():
        remote = record.remote
        if remote is None:
            continue
        assert not remote.readers, f"{holder} waits for {list(remote.readers)} to read {record}"
        grants = remote.grants if remote.owner is not None and remote.owner.cid == at else 0
        grants += sum(place.cid == at for place in (remote.place, *remote.copies) if place is not None)
        if grants:
            claimed[oid] = grants
    assert counted == claimed, f"{holder} holds {claimed} at {node}, which counts {counted}"


def check_actors(node: Node, holder: Node) -> None:
    """Assert that a node counts the holds of its actors by another one: members hold at the head, and the head at the host."""
    cid, at = cid_of(node, holder), cid_of(holder, node)
    is_head = node is node.head
    for actor_id, actor in node.core.actors.actors.items():
        if actor.state == DEAD or not (is_head or actor.hosted):
            continue
        entry = holder.core.actors.actors.get(actor_id)
        at_host = (
            entry is not None and holder is node.head and entry.node is not None and entry.node.cid == at
        )
        claimed = entry.grants if entry is not None and (is_head or at_host) else 0
        counted = actor.holders.get(cid, 0)
        assert counted == claimed, f"{holder} holds {actor} {claimed} times at {node}, which counts {counted}"
        if is_head and actor.state == ALIVE and entry is not None and not entry.hosted:
            place = None if actor.node is None else actor.node.node_id
            known = None if entry.node is None else entry.node.node_id
            assert entry.state == ALIVE and known == (place or node.node_id), (
                f"{actor} is at {place or node.node_id!r}, and {holder} waits for it at {known!r}"
            )


def check_killed(head: Node, killed: Iterable[bytes]) -> None:
    """Assert that the actors that members have killed for good have ended, once no message is in flight."""
    for actor_id in killed:
        actor = head.core.actors.actors.get(actor_id)
        assert actor is None or actor.state == DEAD, f"{actor} lives on, though a member has killed it"
