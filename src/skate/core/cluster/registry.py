"""The registry of a cluster: the actors with their names and the placement groups, about which its head decides for all nodes.

The components of a node ask their registry and do not know where it is. On the head, and on a single node, it decides
(`HeadRegistry`). On any other node it passes questions on to the head and keeps what the head reports (`MemberRegistry`).
A node starts with a registry of its own, and gets the other one when it learns of its head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from skate.core.actor.actor_table import Actor
from skate.core.cluster.membership import Peer
from skate.core.recovery.record_log import RecordLog
from skate.core.task.task import Task
from skate.protocol import messages as m
from skate.protocol.fields import ActorFields

Handler = Callable[[int, Any], None]
Handlers = Mapping[int, Handler]


class Registry(Protocol):
    """The questions of a node about the actors and placement groups of its cluster."""

    #: The handler of each message that only a node with this registry gets.
    handlers: Handlers
    #: Stores the registry, if this node is a head that has a store.
    log: RecordLog

    # -- actors

    def create_actor(self, cid: int, message: m.CreateActor) -> None:
        """Register an actor of a program on this node."""

    def host(self, task: Task, life: ActorFields, peer: Peer) -> None:
        """Take an actor creation from another node."""

    def entry(self, actor_id: bytes) -> Actor | None:
        """Return the actor with an id that is not known here, or None."""

    def is_here(self, actor: Actor) -> bool:
        """Return True if this node handles the calls to an actor."""

    def sync_actor(self, actor: Actor) -> None:
        """Report to the node that counts an actor's holders whether it is held here."""

    def report_actor(self, actor: Actor) -> None:
        """Report a changed state of an actor."""

    def actor_died(self, actor: Actor) -> None:
        """Handle the permanent end of an actor."""

    def actor_starts(self, actor: Actor, construct: Callable[[], None]) -> None:
        """Call `construct` when it is stored that the constructor of an actor may have begun here."""

    def actor_ends(self, actor: Actor, end: Callable[[], None]) -> None:
        """Call `end` when it is stored that an actor is to end for good."""

    def kill_elsewhere(self, actor: Actor, no_restart: bool) -> bool:
        """Pass on the KILL of an actor without a worker here; return True if nothing is left to do here."""

    # -- placement groups

    def freed(self, place: Peer) -> None:
        """Handle resources that became free on a node: a group may wait for them."""

    def forget_owner(self, cid: int) -> None:
        """Remove the groups of a program on this node that has ended, except detached ones."""

    def end_job(self, job: str, survivors: set[int]) -> None:
        """Remove the groups of a job that has ended, except detached ones and those of the processes that stay."""

    # -- questions

    def ask_head(self, cid: int, number: int, verb: str, arguments: tuple[Any, ...]) -> bool:
        """Pass a client's query on to the head; return False if this node is the head and answers it."""

    # -- nodes

    def node_joined(self, peer: Peer) -> None:
        """Handle a new node."""

    def register_again(self, head: Peer) -> None:
        """Report to a new head what the last one knew of this node."""

    def node_left(self, peer: Peer) -> None:
        """Handle the loss of a node."""

    # -- checks

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""

    def check_placed(self) -> None:
        """Assert that no group waits although there is room; in a cluster, only once no message is in flight."""
