"""An index to find a node with room for a task without checking all of them.

Each kind of request has a heap of the nodes that may have room, best first. A node found to have none is removed, and added again
when resources there become free. A node with less free than its rank says is noticed when it reaches the top. So placing a task
costs about as much among ten thousand nodes as among ten.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.core.cluster.membership import Peer

#: With up to this many nodes, checking each one is as fast.
LINEAR_MAX = 4
LOG_MIN = 4096


class Changes:
    """The nodes where resources have become free, in order; each `Ranking` remembers how far it has read."""

    __slots__ = ("log", "epoch", "_room")

    def __init__(self) -> None:
        self.log: list[Peer] = []
        self.epoch = 0  # counts how often the log was cleared; a reader that missed it starts over
        self._room = LOG_MIN

    def freed(self, peer: Peer) -> None:
        """Record a node where resources have become free."""
        self.log.append(peer)
        if len(self.log) > self._room:
            self.log = []
            self.epoch += 1

    def resize(self, nodes: int) -> None:
        """Adapt to a changed number of nodes."""
        self._room = LOG_MIN + 4 * nodes


class Ranking:
    """The nodes that may have room, by rank, lowest first."""

    __slots__ = ("_nodes", "_rank", "_changes", "_heap", "_ranks", "_cursor", "_epoch")

    def __init__(self, nodes: list[Peer], rank: Callable[[Peer], float], changes: Changes) -> None:
        self._nodes = {peer.cid: peer for peer in nodes}
        self._rank = rank
        self._changes = changes
        self._epoch = -1
        self._cursor = 0
        #: (rank, number of the node); of several entries for a node, only the one that matches `_ranks` counts.
        self._heap: list[tuple[float, int]] = []
        self._ranks: dict[int, float] = {}

    def add(self, peer: Peer) -> None:
        """Add a node."""
        self._nodes[peer.cid] = peer
        self._push(peer)

    def remove(self, peer: Peer) -> None:
        """Remove a node."""
        del self._nodes[peer.cid]
        self._ranks.pop(peer.cid, None)

    def best(self, has_room: Callable[[Peer], bool]) -> Peer | None:
        """Return the node with the lowest rank among those with room."""
        self._catch_up()
        heap, ranks = self._heap, self._ranks
        while heap:
            rank, cid = heap[0]
            if ranks.get(cid) != rank:
                heappop(heap)
                continue
            peer = self._nodes[cid]
            now = self._rank(peer)
            if now != rank:
                ranks[cid] = now
                heapreplace(heap, (now, cid))
            elif has_room(peer):
                return peer
            else:
                heappop(heap)
                del ranks[cid]
        return None

    def _catch_up(self) -> None:
        changes = self._changes
        if self._epoch != changes.epoch:
            self._epoch = changes.epoch
            self._ranks = {cid: self._rank(peer) for cid, peer in self._nodes.items()}
            self._heap = [(rank, cid) for cid, rank in self._ranks.items()]
            heapify(self._heap)
        else:
            for peer in changes.log[self._cursor :]:
                if peer.cid in self._nodes:
                    self._push(peer)
        self._cursor = len(changes.log)

    def _push(self, peer: Peer) -> None:
        rank = self._rank(peer)
        if self._ranks.get(peer.cid) != rank:
            self._ranks[peer.cid] = rank
            heappush(self._heap, (rank, peer.cid))


class Choices:
    """The nodes that could run a template's tasks when idle."""

    __slots__ = ("nodes", "others", "cids", "here", "linear_max", "many", "rankings", "turns")

    def __init__(self, nodes: list[Peer], here: Peer, linear_max: int = LINEAR_MAX) -> None:
        self.nodes = nodes
        self.others = [peer for peer in nodes if peer is not here]
        self.cids = {peer.cid for peer in nodes}
        self.here = here if here.cid in self.cids else None
        self.linear_max = linear_max
        self.many = len(nodes) > linear_max  # too many to check each
        #: By scheduling class, since room depends on its tasks in progress.
        self.rankings: dict[Any, Ranking] = {}
        self.turns: dict[int, int] = {}  # when each node was chosen last to spread tasks

    def add(self, peer: Peer) -> None:
        """Add a node that has joined."""
        self.nodes.append(peer)
        self.others.append(peer)
        self.cids.add(peer.cid)
        self.many = len(self.nodes) > self.linear_max
        for ranking in self.rankings.values():
            ranking.add(peer)

    def remove(self, peer: Peer) -> None:
        """Remove a node that is lost."""
        self.nodes.remove(peer)
        self.others.remove(peer)
        self.cids.discard(peer.cid)
        self.turns.pop(peer.cid, None)
        self.many = len(self.nodes) > self.linear_max
        for ranking in self.rankings.values():
            ranking.remove(peer)
