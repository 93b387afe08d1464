"""The nodes of a cluster as one of them knows them: the members, their resources, and the head.

A table without decisions, which all components may read. `peer_table` changes it when nodes join and leave.
"""

from __future__ import annotations

from typing import Any

from skate.core.resource.capacity import Capacity
from skate.core.task.task import Task
from skate.protocol.values import LOOPBACK

#: The last lost nodes that are remembered, as in Ray.
DEAD_MAX = 1000


class Peer:
    """One node, as seen by another."""

    __slots__ = (
        "cid", "node_id", "tag", "total", "labels", "available", "pools", "alive", "reason", "known", "outstanding", "sent",
        "received", "classes", "facts", "jobs", "leaving", "draining", "deadline", "passes_on", "lost_at",
    )  # fmt: skip

    def __init__(self, cid: int, node_id: bytes, total: dict[str, int], labels: dict[str, str]) -> None:
        self.cid = cid
        self.node_id = node_id
        self.tag = node_id[:8]
        self.total = total
        self.labels = labels
        #: Free resources there, as far as known here.
        self.available = dict(total)
        self.pools: dict[str, int] = {}
        self.alive = True
        self.reason = ""
        self.lost_at: float | None = None
        self.draining = ""  # why it drains: it takes no new work
        self.deadline: float | None = None  # of the drain
        self.leaving = ""  # why it leaves, as it has announced
        self.known: set[bytes] = set()  # functions and templates sent to it
        self.jobs: set[str] = set()  # jobs that it was told of
        #: Unanswered tasks and creations forwarded there.
        self.outstanding: dict[bytes, Task] = {}
        self.classes: dict[Any, int] = {}  # number of them, by scheduling class
        self.sent = 0
        self.received = 0
        self.facts: dict[str, Any] = {}
        self.passes_on = False  # other nodes may read from it what it has read itself

    @property
    def address(self) -> str:
        """The IP address of the node."""
        return str(self.facts.get("address", LOOPBACK))

    def describe(self) -> str:
        """Return the node's id, with its address if it has one of its own."""
        name = f"node {self.node_id.hex()}"
        return name if self.address == LOOPBACK else f"{name} (ip={self.address})"

    def describe_pid(self, pid: int) -> str:
        """Return the number of a process on the node, with the node's address if it has one of its own."""
        return f"pid {pid}" if self.address == LOOPBACK else f"pid {pid}, ip={self.address}"

    def location(self, pid: int) -> dict[str, Any]:
        """Return where a process runs, as fields of its error; without an address for a node on loopback."""
        found = {"pid": pid, "node": self.node_id.hex()}
        return found if self.address == LOOPBACK else {**found, "ip": self.address}

    def fits(self, request: dict[str, int]) -> bool:
        """Return True if the request fits now, as far as known."""
        available = self.available
        return all(available.get(name, 0) >= units for name, units in request.items())

    def take(self, request: dict[str, int], sign: int = -1) -> None:
        """Count resources as taken, or as free with `sign` 1."""
        for name, units in request.items():
            self.available[name] = self.available.get(name, 0) + sign * units

    def __repr__(self) -> str:
        return f"<Peer {self.node_id.hex()[:8]} {'alive' if self.alive else 'dead'} outstanding={len(self.outstanding)}>"


#: The label of the head of a cluster with an autoscaler: what no node can run may wait for a new one.
GROWS_LABEL = "skate.io/autoscaler"


class Membership:
    """This node and its peers, by number and by the first bytes of their ids."""

    def __init__(self, node_id: bytes, capacity: Capacity) -> None:
        self.active = False  # another node has joined at some time
        self.alive: dict[int, Peer] = {}
        self.by_tag: dict[bytes, Peer] = {}  # including the last dead ones
        self._dead: dict[bytes, Peer] = {}  # these, oldest first
        self._unknown_peers: dict[bytes, Peer] = {}
        self.here = Peer(-2, node_id, capacity.total, capacity.labels)
        #: The head, which decides about actors and groups; this node until it learns of another one.
        self.head = self.here
        self.here.available = capacity.available

    def unknown_peer(self, tag: bytes) -> Peer:
        """Return a node known only by its objects, because it was lost before this one joined or is forgotten."""
        peer = self._unknown_peers.get(tag)
        if peer is None:
            peer = self._unknown_peers[tag] = Peer(-1, tag, {}, {})
            peer.alive = False
            peer.reason = "was lost before this node joined, or long ago"
            if len(self._unknown_peers) > DEAD_MAX:
                del self._unknown_peers[next(iter(self._unknown_peers))]
        return peer

    def mark_dead(self, peer: Peer, reason: str, now: float) -> None:
        """Mark a node as dead; forget the one that died first if there are too many."""
        peer.alive = False
        peer.reason = reason
        peer.lost_at = now
        self._dead[peer.tag] = peer
        if len(self._dead) > DEAD_MAX:
            oldest = next(iter(self._dead))
            del self._dead[oldest], self.by_tag[oldest]

    def node_of(self, cid: int) -> bytes:
        """Return the id of the node that a client is, or of this one."""
        return self.alive[cid].node_id if cid in self.alive else self.here.node_id

    def totals(self) -> list[dict[str, int]]:
        """Return the total resources of each living node."""
        return [self.here.total, *(peer.total for peer in self.alive.values())]

    def ids(self) -> list[bytes]:
        """Return the ids of the living nodes."""
        return [self.here.node_id, *(peer.node_id for peer in self.alive.values())]

    def labels(self) -> list[dict[str, str]]:
        """Return the labels of each living node."""
        return [self.here.labels, *(peer.labels for peer in self.alive.values())]

    def can_grow(self) -> bool:
        """Return True if a node says that an autoscaler starts others when they are needed."""
        return any(GROWS_LABEL in labels for labels in self.labels())

    def __repr__(self) -> str:
        return f"<Membership {list(self.alive.values())}>"
