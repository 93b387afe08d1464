"""The cluster as used by the components of one node: membership, and operations that involve other nodes.

Until another node joins, a node uses `SingleNode` instead, which has the same interface and does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from skate.core.actor.actor_table import Actor
from skate.core.cluster.membership import Peer
from skate.core.cluster.peer_table import PeerTable
from skate.core.cluster.registry import Handler, Registry
from skate.core.job.job_table import JobTable
from skate.protocol import messages as m
from skate.protocol.states import PLAIN


class User(Protocol):
    """A component that gets the cluster once there is one."""

    cluster: Any


class RegistryUser(Protocol):
    """A component that asks the registry."""

    registry: Any


class Connections(Protocol):
    """Adds and removes processes; a node is a client of its peers."""

    #: The handler of each message.
    handlers: dict[int, Handler]

    def connect(self, cid: int, job: str, namespace: str, is_driver: bool) -> None:
        """Add a process that has joined."""

    def forget(self, cid: int) -> None:
        """Drop all holds and waits of a process or peer that is gone."""


class Jobs(Protocol):
    """The jobs of the cluster."""

    table: JobTable

    def node_left(self, peer: Peer) -> None:
        """End the jobs whose drivers were at a lost node."""

    def register_again(self, head: Peer) -> None:
        """Introduce the jobs that are known here to a new head."""


class Drains(Protocol):
    """The nodes that take no new work."""

    def joined(self, peer: Peer) -> None:
        """Tell a new node which others are draining."""

    def register_again(self, head: Peer) -> None:
        """Tell a new head if this node drains."""


class Cluster:
    """Several nodes. Operations that concern a single component are called there directly."""

    #: Decides about actors and placement groups, or asks the head.
    registry: Registry

    def __init__(
        self,
        peers: PeerTable,
        connections: Connections,
        users: Sequence[User],
        member_registry: Callable[[], Registry],
    ) -> None:
        self._jobs: Jobs
        self._drains: Drains
        self._peers = peers
        self._connections = connections
        self._users = users
        self._member_registry = member_registry
        self._registry_users: Sequence[RegistryUser] = ()
        self._task_forwarder = forwarder = peers.task_forwarder
        self._remote_objects = remote_objects = peers.remote_objects
        self._members = peers.members
        self._task_manager = peers.task_manager

        self.client_of = forwarder.client_of
        self.forward = forwarder.forward
        self.task_retried = forwarder.tell_retried
        self.task_ended = forwarder.ended
        self.stream_failed = remote_objects.lineage.fail_lost_items
        self.cancel = peers.pass_on
        self.unwait = peers.unwait
        self.pump = peers.pump

        self.want = remote_objects.want
        self.deliver = remote_objects.deliver
        self.deliver_early = remote_objects.deliver_early
        self.evict = remote_objects.copies.evict
        self.copy_lost = remote_objects.copies.lost

    # -- the registry

    def connect(self, registry: Registry, users: Sequence[RegistryUser], jobs: Jobs, drains: Drains) -> None:
        """Set the registry that this node starts with, its own, the components that ask it, and the jobs of all nodes."""
        self._drains = drains
        self._registry_users = users
        self._jobs = jobs
        self._use(registry)

    def _use(self, registry: Registry) -> None:
        """Give a registry, and the messages for it, to those that ask one."""
        self.registry = registry
        for user in self._registry_users:
            user.registry = registry
        self._connections.handlers.update(registry.handlers)

    def _follow(self, head: Peer) -> bool:
        """Make another node the head: from now on it decides; return True if there was another head before."""
        members = self._members
        first, members.head = members.head is members.here, head
        if not first:  # questions and calls still wait in the registry for the answer of a head
            return True
        for tag in self.registry.handlers:
            del self._connections.handlers[tag]
        self._use(self._member_registry())
        return False

    # -- membership

    def activate(self) -> None:
        """Prepare for other nodes: values can be lost, and tasks can run elsewhere."""
        self._members.active = True
        self._remote_objects.objects.share(self._remote_objects)
        self._task_manager.admit = self._peers.admit
        for user in self._users:
            user.cluster = self

    def join(self, cid: int, info: dict[str, Any], now: float) -> None:
        """Add a node; `info` has node_id, total, labels, head, and data for `ray.nodes`."""
        members = self._members
        self._peers.clock.now = now
        peer = Peer(cid, info["node_id"], dict(info["total"]), dict(info["labels"]))
        peer.facts = info.get("facts") or {}
        peer.passes_on = bool(info.get("passes_on"))
        self._connections.connect(cid, "", "", False)
        members.alive[cid] = members.by_tag[peer.tag] = peer
        follows = bool(info.get("head")) and self._follow(peer)
        if not members.active:
            self.activate()
        self._peers.joined(peer)
        self.registry.node_joined(peer)
        self._drains.joined(peer)
        if follows:
            self._jobs.register_again(peer)
            self._drains.register_again(peer)
            self.registry.register_again(peer)
        self._peers.pump()
        self._remote_objects.admission.pump()

    def left(self, cid: int, reason: str, now: float) -> None:
        """Handle the loss of a node: its tasks run elsewhere or fail, and values that were only there are lost."""
        peers = self._peers
        peers.clock.now = now
        peer = self._members.alive.pop(cid, None)
        if peer is None:
            return
        self._members.mark_dead(peer, peer.leaving or reason, now)
        peers.clients.pop(cid, None)
        peers.left(peer)
        self.registry.node_left(peer)
        self._remote_objects.node_left(peer)
        for task in list(peer.outstanding.values()):
            if task.kind == PLAIN:
                self._task_forwarder.lost(task, peer)
        peer.outstanding.clear()
        self._connections.forget(cid)
        self._jobs.node_left(peer)
        peers.scheduler.dispatch_all()
        peers.pump()
        self._remote_objects.admission.pump()

    def leaving(self, cid: int, message: m.Leaving) -> None:
        """LEAVING: a node says why it is about to leave."""
        _, reason = message
        self._members.alive[cid].leaving = reason

    # -- operations that concern several components

    def actor_ended(self, actor: Actor) -> None:
        """Handle the permanent end of an actor."""
        self._peers.unwait(actor.creation)
        self._task_forwarder.answered(actor.creation)
        self.registry.report_actor(actor)

    @staticmethod
    def actor_died(actor: Actor) -> None:
        """Keep a dead actor: another node may ask for it."""

    def __repr__(self) -> str:
        return f"<Cluster {list(self._members.alive.values())}>"
