"""The cluster of a node that has never had peers."""

from __future__ import annotations

from typing import Any

from skate.core.actor.actor_table import Actor
from skate.core.client import Client
from skate.core.cluster.membership import Peer
from skate.core.object.object_table import ObjectRecord
from skate.core.task.task import Task
from skate.protocol import messages as m
from skate.protocol.fields import ErrorValue


class SingleNode:
    """The interface of `Cluster` for a single node; its methods do nothing."""

    # -- tasks

    def client_of(self, task: Task) -> Client | None:
        """Return the program of a task that another node has forwarded here."""
        return None

    def forward(self, task: Task, peer: Peer) -> None:
        """Give a task to another node."""

    def task_retried(self, task: Task) -> None:
        """Handle the retry of a task that a peer forwarded here."""

    def task_ended(self, task: Task) -> None:
        """Handle the end of a task here."""

    def stream_failed(self, task: Task, error: ErrorValue) -> None:
        """Handle a failed stream: its lost items are not made again."""

    def cancel(self, task_id: bytes, message: m.Cancel) -> None:
        """Pass on the CANCEL of a task that is not known here."""

    def unwait(self, task: Task) -> None:
        """Stop a task's wait for a node."""

    def pump(self) -> None:
        """Send queued tasks to nodes that have room."""

    def touched(self) -> None:
        """Note that a peer has relied on an outdated report of free resources here."""

    # -- values

    def want(self, record: ObjectRecord) -> None:
        """Fetch a value from another node."""

    def deliver(self, cid: int, record: ObjectRecord) -> None:
        """Answer a FETCH from a peer."""

    def evict(self) -> bool:
        """Drop a copy that is kept for another node; return False if there is none."""
        return False

    # -- actors

    def create_actor(self, cid: int, message: m.CreateActor) -> bool:
        """Pass on CREATE_ACTOR; return True if the head creates the actor."""
        return False

    def entry(self, actor_id: bytes) -> Actor | None:
        """Return the actor with an id that is not known here, or None."""
        return None

    def is_here(self, actor: Actor) -> bool:
        """Return True if this node handles the calls to an actor."""
        return True

    def sync_actor(self, actor: Actor) -> None:
        """Report to the node that counts an actor's holders whether it is held here."""

    def report_actor(self, actor: Actor) -> None:
        """Report a changed state of an actor."""

    def kill_elsewhere(self, actor: Actor, no_restart: bool) -> bool:
        """KILL of an actor without a worker here; True if others do all there is to do."""
        return False

    def actor_ended(self, actor: Actor) -> None:
        """Handle the permanent end of an actor."""

    # -- queries

    def ask_head(self, cid: int, number: int, verb: str, arguments: Any) -> bool:
        """Pass a client's query on to the head; return False if this node answers it."""
        return False

    def __repr__(self) -> str:
        return "<SingleNode>"
