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
from skate.core.recovery.record_log import RecordLog
from skate.core.state.key_values import Change
from skate.protocol import messages as m
from skate.protocol import registry_records as rr
from skate.protocol.effects import LeaveCluster
from skate.protocol.states import CREATION, DEAD

LOOK_SECONDS: Final = 0.05
#: How long actors may take to end once their node leaves, and after its deadline.
ACTORS_SECONDS: Final = 5.0
LATE_SECONDS: Final = 0.5
NEVER: Final = -1
STOPPED: Final = "was stopped"

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
        log: RecordLog,
    ) -> None:
        self.tables = tables
        self.members = tables.members
        self.emit = tables.out.emit
        self.shell = tables.out.shell
        self.actor_manager = actor_manager
        self.later = later
        self.log = log
        #: Nodes whose drains are recorded and have not begun.
        self._recorded: set[bytes] = set()
        self._draining: list[Peer] = []  # also some that have left since
        #: Until when this node has to stop, which its head may not know.
        self._stops_by: float | None = None
        self._looks = False
        self._leaves_at = 0.0

    # -- on the head

    def drain_node(self, cid: int, node_id: bytes, reason: str, text: str, seconds: int) -> tuple[bool, str]:
        """Begin to drain a node; return False and the cause if that is not possible."""
        refused = self._refusal(node_id, reason)
        if refused and node_id in self._recorded:  # it has got work while that was stored
            self.log.note(rr.DrainRecord(rr.DRAIN, node_id, "", NEVER))
        self._recorded.discard(node_id)
        if refused:
            return False, refused
        self._begin(self.members.by_tag[node_id[:8]], described(reason, text), seconds)
        return True, ""

    def records_of_drain(self, cid: int, node_id: bytes, reason: str, text: str, seconds: int) -> Change:
        """Return the record of a drain, which is stored before it begins, and the answer; no record if it is refused."""
        if self._refusal(node_id, reason):
            return [], None
        self._recorded.add(node_id)
        return [rr.DrainRecord(rr.DRAIN, node_id, described(reason, text), seconds)], (True, "")

    def resume(self, node_id: bytes, reason: str, seconds: int) -> None:
        """Continue a drain that the last head has begun, or that a node reports."""
        peer = self.members.by_tag.get(node_id[:8])
        if reason and peer is not None and peer.alive:
            self._begin(peer, reason, seconds)

    def _refusal(self, node_id: bytes, reason: str) -> str:
        members = self.members
        peer = members.by_tag.get(node_id[:8])
        if reason not in REASONS:
            return f"the reason must be one of {', '.join(REASONS)}, not {reason!r}"
        if node_id == members.here.node_id:
            return "it is the head, without which there is no cluster; `skate stop` there ends both"
        if peer is None or peer.node_id != node_id:
            return f"the cluster has no node {node_id.hex()}"
        if not peer.alive:
            return f"node {node_id.hex()} is dead: it {peer.reason}"
        if reason == IDLE and self._is_used(peer):
            return f"node {node_id.hex()} is not idle"
        return ""

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
        self._draining = [other for other in self._draining if other.alive]
        for other in self._draining:
            if other is not peer:
                left = self._seconds_until(other.deadline)
                self.emit(peer.cid, m.Drain(m.DRAIN, other.node_id, other.draining, left))

    def _seconds_until(self, deadline: float | None) -> int:
        return NEVER if deadline is None else max(0, int(deadline - self.tables.clock.now))

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
        if peer not in self._draining:
            self._draining.append(peer)
        peer.deadline = None if seconds < 0 else self.tables.clock.now + seconds
        peers = self.tables.peers
        peers.drains_changed()
        peers.pump()
        if peer is self.members.here and not self._looks:
            self._looks = True
            self._look()

    # -- on the node that drains

    def stop(self, seconds: int) -> None:
        """Let this node leave within this time: at once if it is alone or the head."""
        members = self.members
        if members.head is members.here:
            self.shell(LeaveCluster(STOPPED))
        else:
            self._stops_by = self.tables.clock.now + seconds
            self.emit(members.head.cid, m.Drain(m.DRAIN, members.here.node_id, STOPPED, seconds))

    def register_again(self, head: Peer) -> None:
        """Tell a new head that this node drains, or has to stop."""
        here = self.members.here
        if here.draining:
            left = self._seconds_until(here.deadline)
            self.emit(head.cid, m.Drain(m.DRAIN, here.node_id, here.draining, left))
        elif self._stops_by is not None:
            left = self._seconds_until(self._stops_by)
            self.emit(head.cid, m.Drain(m.DRAIN, here.node_id, STOPPED, left))

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


def described(reason: str, text: str) -> str:
    """Return the words for a drain that continue "node x ..."; `text` explains it."""
    return f"{REASONS[reason]} ({text})" if text else REASONS[reason]
