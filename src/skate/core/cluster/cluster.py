"""The cluster as used by the components of one node: membership, and operations that involve other nodes.

Until another node joins, a node uses `SingleNode` instead, which has the same interface and does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from skate.core.actor.actor_table import Actor
from skate.core.cluster.actor_directory import ActorDirectory
from skate.core.cluster.membership import Peer
from skate.core.cluster.peer_table import PeerTable
from skate.protocol import messages as m
from skate.protocol.states import PLAIN


class User(Protocol):
    """A component that gets the cluster once there is one."""

    cluster: Any


class Door(Protocol):
    """Adds and removes processes; a node is a client of its peers."""

    def connect(self, cid: int, job: str, namespace: str, is_driver: bool) -> None:
        """Add a process that has joined."""

    def forget(self, cid: int) -> None:
        """Drop all holds and waits of a process or peer that is gone."""


class Cluster:
    """Several nodes. Operations that concern a single component are called there directly."""

    def __init__(
        self, peers: PeerTable, actor_directory: ActorDirectory, door: Door, users: Sequence[User]
    ) -> None:
        self._peers = peers
        self._actor_directory = actor_directory
        self._door = door
        self._users = users
        self._task_forwarder = forwarder = peers.task_forwarder
        self._remote_objects = remote_objects = peers.remote_objects
        self._placement = peers.placement
        self._members = peers.members
        self._task_manager = peers.task_manager

        self.client_of = forwarder.client_of
        self.forward = forwarder.forward
        self.task_retried = forwarder.tell_retried
        self.task_ended = forwarder.ended
        self.stream_failed = remote_objects.lineage.unmade
        self.cancel = peers.pass_on
        self.unwait = peers.unwait
        self.pump = peers.pump
        self.touched = peers.touched

        self.want = remote_objects.want
        self.deliver = remote_objects.deliver
        self.evict = remote_objects.copies.evict

        self.entry = actor_directory.entry
        self.is_here = actor_directory.is_here
        self.sync_actor = actor_directory.sync
        self.report_actor = actor_directory.report
        self.kill_elsewhere = actor_directory.kill_elsewhere

    # -- membership

    def activate(self) -> None:
        """Prepare for other nodes: values can be lost, and tasks can run elsewhere."""
        self._members.active = True
        self._placement.objects.remote_objects = self._remote_objects
        self._task_manager.admit = self._peers.admit
        for user in self._users:
            user.cluster = self

    def join(self, cid: int, info: dict[str, Any], now: float) -> None:
        """Add a node; `info` has node_id, total, labels, head, and data for `ray.nodes`."""
        members = self._members
        self._peers.clock.now = now
        peer = Peer(cid, info["node_id"], dict(info["total"]), dict(info["labels"]))
        peer.facts = info.get("facts") or {}
        self._door.connect(cid, "", "", False)
        members.alive[cid] = members.by_tag[peer.tag] = peer
        if info.get("head"):
            members.head = peer
        if not members.active:
            self.activate()
        self._peers.members_changed(lost=False)
        self._placement.node_joined(peer)
        self._peers.pump()
        self._remote_objects.admission.pump()

    def left(self, cid: int, reason: str, now: float) -> None:
        """Handle the loss of a node: its tasks run elsewhere or fail, and values that were only there are lost."""
        peers = self._peers
        peers.clock.now = now
        peer = self._members.alive.pop(cid, None)
        if peer is None:
            return
        self._members.bury(peer, reason)
        peers.clients.pop(cid, None)
        peers.members_changed(lost=True)
        self._placement.node_left(peer)
        self._actor_directory.node_left(peer)
        self._remote_objects.node_left(peer)
        for task in list(peer.outstanding.values()):
            if task.kind == PLAIN:
                self._task_forwarder.lost(task, peer)
        peer.outstanding.clear()
        self._door.forget(cid)
        self._placement.scheduler.dispatch_all()
        peers.pump()
        self._remote_objects.admission.pump()

    # -- operations that concern several components

    def create_actor(self, cid: int, message: m.CreateActor) -> bool:
        """Pass on CREATE_ACTOR; return True if the head creates the actor."""
        if self._members.head is None:
            return False
        self._actor_directory.create_at_head(cid, message)
        return True

    def actor_ended(self, actor: Actor) -> None:
        """Handle the permanent end of an actor."""
        self._peers.unwait(actor.creation)
        self._task_forwarder.answered(actor.creation)
        self._actor_directory.report(actor)

    def ask_head(self, cid: int, number: int, verb: str, arguments: Any) -> bool:
        """Pass a client's query on to the head; return False if this node is the head and answers it."""
        if self._members.head is None:
            return False
        if verb == "group_ready":
            self._placement.bundles.await_head(cid, arguments[1])
        self._peers.ask_head(cid, number, verb, arguments)
        return True

    def __repr__(self) -> str:
        return f"<Cluster {list(self._members.alive.values())}>"
