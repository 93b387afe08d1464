"""The cluster of a node that has never had peers."""

from __future__ import annotations

from skate.core.actor.actor_table import Actor, ActorTable
from skate.core.client import Client
from skate.core.cluster.membership import Peer
from skate.core.object.object_table import ObjectRecord
from skate.core.task.task import Task
from skate.protocol import messages as m
from skate.protocol.fields import ErrorValue


class SingleNode:
    """The interface of `Cluster` for a single node; its methods do nothing for other nodes, since there are none."""

    def __init__(self, actors: ActorTable) -> None:
        #: Nobody but the processes here can ask for a dead actor, so the oldest ones are forgotten.
        self.actor_died = actors.keep_dead

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

    # -- values

    def want(self, record: ObjectRecord) -> None:
        """Fetch a value from another node."""

    def deliver(self, cid: int, record: ObjectRecord) -> None:
        """Answer a FETCH from a peer."""

    def deliver_early(self, cid: int, record: ObjectRecord) -> bool:
        """Name a place to a peer although the value has not arrived here; return False if none is known."""
        return False

    def copy_lost(self, record: ObjectRecord) -> None:
        """Tell the owner of a value that the copy here is lost."""

    def evict(self) -> bool:
        """Drop a copy that is kept for another node; return False if there is none."""
        return False

    # -- actors

    def actor_ended(self, actor: Actor) -> None:
        """Handle the permanent end of an actor."""

    def __repr__(self) -> str:
        return "<SingleNode>"
