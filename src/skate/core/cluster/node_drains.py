"""Draining: a node takes no new work, and leaves when what runs there has ended, or at its deadline.

The head accepts or rejects a drain, and tells all nodes: none of them places anything there from then on. Tasks that the node has
already may end. An actor that may restart is asked to end when it has no calls left (as by `__ray_terminate__`), and the head
starts it on another node without counting a restart; others keep the node until the deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skate.core.actor.actor_manager import ActorManager
from skate.core.cluster.membership import Peer
from skate.core.node_tables import NodeTables
from skate.protocol import messages as m
from skate.protocol.effects import LeaveCluster
from skate.protocol.states import CREATION, DEAD

LOOK_SECONDS: Final = 0.05
#: How long actors may take to end once their node leaves, and after its deadline.
ACTORS_SECONDS: Final = 5.0
LATE_SECONDS: Final = 0.5
NEVER: Final = -1

IDLE: Final = "DRAIN_NODE_REASON_IDLE_TERMINATION"
#: The reasons for a drain, as Ray names them, with words that continue "node x ...".
REASONS: Final = {IDLE: "was drained because it was idle", "DRAIN_NODE_REASON_PREEMPTION": "was preempted"}


class NodeDrains:
    """Begins drains on the head, and carries out that of this node."""

    def __init__(
        self,
        tables: NodeTables,
        actor_manager: ActorManager,
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self.tables = tables
        self.members = tables.members
        self.emit = tables.out.emit
        self.shell = tables.out.shell
        self.actor_manager = actor_manager
        self.later = later
        self._looks = False
        self._leaves_at = 0.0

    # -- on the head

    def drain_node(self, cid: int, node_id: bytes, reason: str, text: str, seconds: int) -> tuple[bool, str]:
        """Begin to drain a node; return False and the cause if that is not possible."""
        members = self.members
        peer = members.by_tag.get(node_id[:8])
        if reason not in REASONS:
            return False, f"the reason must be one of {', '.join(REASONS)}, not {reason!r}"
        if node_id == members.here.node_id:
            return False, "it is the head, without which there is no cluster; `skate stop` there ends both"
        if peer is None or peer.node_id != node_id:
            return False, f"the cluster has no node {node_id.hex()}"
        if not peer.alive:
            return False, f"node {node_id.hex()} is dead: it {peer.reason}"
        if reason == IDLE and self._is_used(peer):
            return False, f"node {node_id.hex()} is not idle"
        self._begin(peer, f"{REASONS[reason]} ({text})" if text else REASONS[reason], seconds)
        return True, ""

    def _is_used(self, peer: Peer) -> bool:
        hosts = any(each.node is peer and each.state != DEAD for each in self.tables.actors.actors.values())
        return hosts or bool(peer.outstanding) or not peer.fits(peer.total)

    def _begin(self, peer: Peer, reason: str, seconds: int) -> None:
        self._mark(peer, reason, seconds)
        for other in self.members.alive.values():
            self.emit(other.cid, m.Drain(m.DRAIN, peer.node_id, reason, seconds))

    def joined(self, peer: Peer) -> None:
        """Tell a new node which others are draining."""
        if self.members.head is not self.members.here:
            return
        now = self.tables.clock.now
        for other in self.members.alive.values():
            if other.draining and other is not peer:
                left = NEVER if other.deadline is None else max(0, int(other.deadline - now))
                self.emit(peer.cid, m.Drain(m.DRAIN, other.node_id, other.draining, left))

    # -- on every node

    def drain(self, cid: int, message: m.Drain) -> None:
        """DRAIN: the head drains a node, or a node tells the head that it has to stop."""
        _, node_id, reason, seconds = message
        members = self.members
        sender = members.alive[cid]
        if members.head is members.here:
            if sender.node_id == node_id:
                self._begin(sender, reason, seconds)
            return
        peer = members.here if node_id == members.here.node_id else members.by_tag.get(node_id[:8])
        if peer is not None:
            self._mark(peer, reason, seconds)

    def _mark(self, peer: Peer, reason: str, seconds: int) -> None:
        peer.draining = reason
        peer.deadline = None if seconds < 0 else self.tables.clock.now + seconds
        peers = self.tables.peers
        peers.members_changed(lost=False)
        peers.pump()
        if peer is self.members.here and not self._looks:
            self._looks = True
            self._look()

    # -- on the node that drains

    def stop(self, seconds: int) -> None:
        """Let this node leave within this time: at once if it is alone or the head."""
        members = self.members
        if members.head is members.here:
            self.shell(LeaveCluster("was stopped"))
        else:
            self.emit(members.head.cid, m.Drain(m.DRAIN, members.here.node_id, "was stopped", seconds))

    def _look(self) -> None:
        """Wait until nothing runs here, or for the deadline."""
        now, deadline = self.tables.clock.now, self.members.here.deadline
        late = deadline is not None and now >= deadline
        if self._is_busy() and not late:
            self.later(LOOK_SECONDS, self._look)
            return
        self.actor_manager.node_leaves = True
        for worker in self.tables.scheduler.workers.values():
            if worker.actor is not None:
                self.emit(worker.cid, m.Exit(m.EXIT, "its node drains"))
        self._leaves_at = now + (LATE_SECONDS if late else ACTORS_SECONDS)
        self._await_actors()

    def _is_busy(self) -> bool:
        """Return True if something runs here that would be lost: a task, an actor that may not restart, a program."""
        tables = self.tables
        return (
            any(task.kind != CREATION for task in tables.tasks.values())
            or any(client.is_driver and client.calls for client in tables.clients.values())
            or any(
                actor.worker is not None and not actor.restarts_max for actor in tables.actors.actors.values()
            )
        )

    def _await_actors(self) -> None:
        workers = self.tables.scheduler.workers.values()
        if self.tables.clock.now < self._leaves_at and any(worker.actor is not None for worker in workers):
            self.later(LOOK_SECONDS, self._await_actors)
        else:
            self.shell(LeaveCluster(self.members.here.draining))
