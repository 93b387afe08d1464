"""The actors of a cluster: the location of each, and the routing of calls to it.

The head registers every actor with its name, chooses its node, and restarts it elsewhere when that node is lost
(`HeadActors`). The node that *hosts* an actor runs it like one of its own, for the head. Every other node that uses the actor
keeps an entry without a worker (`MemberActors`). Calls wait in this entry until the head has reported the actor's location; then
they go straight to the host, in each caller's order. A node holds an actor at the head for as long as anything on the node does.
The head holds it at the host for as long as anything in the cluster does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from skate.core.actor.actor_manager import ActorManager
from skate.core.actor.actor_table import Actor
from skate.core.cluster.membership import Membership, Peer
from skate.core.cluster.task_forwarder import TaskForwarder
from skate.core.task.task import Task
from skate.core.task.task_manager import TaskManager
from skate.protocol.fields import TemplateFields
from skate.protocol.states import DEAD, METHOD, QUEUED, SENT

#: Of actors of which only the id is known.
UNKNOWN_CLASS: TemplateFields = {"name": "an actor", "function": b""}


class ActorDirectory(ABC):
    """The actors that are, or may be, on other nodes: the part that is the same on every node."""

    def __init__(
        self,
        task_manager: TaskManager,
        actor_manager: ActorManager,
        task_forwarder: TaskForwarder,
        members: Membership,
    ) -> None:
        self.task_manager = task_manager
        self.tasks = task_manager.tasks
        self.emit = task_manager.out.emit
        self.actor_manager = actor_manager
        self.actors = actor_manager.actors
        self.task_forwarder = task_forwarder
        self.templates = task_forwarder.templates
        self.members = members
        #: The last node that was lost has left by a drain.
        self.was_drained = False

    def node_left(self, peer: Peer) -> None:
        """Handle the loss of a node and of the actors that it hosted."""
        calls: dict[bytes, list[Task]] = {}
        for task in list(self.tasks.values()):
            if task.kind == METHOD and task.node is peer and task.state == SENT:
                task.node = None
                task.template.away -= 1
                if task.given is not None and len(task.given) == task.template.returns:
                    self.task_manager.forget(task)
                    continue
                task.state = QUEUED
                calls.setdefault(task.actor.actor_id, []).append(task)
        reason = f"was on {peer.describe()}, which {peer.reason}"
        self.was_drained = bool(peer.draining)
        for actor in list(self.actors.actors.values()):
            actor.watchers.discard(peer.cid)
            if actor.node is not peer or actor.state == DEAD:
                continue
            actor.node = None
            self.host_lost(actor, calls.pop(actor.actor_id, []), reason)
        for tasks in calls.values():
            for task in tasks:
                self.task_manager.fail(task, task.actor.death or ("ActorDiedError", {"message": reason}))

    @abstractmethod
    def host_lost(self, actor: Actor, calls: list[Task], reason: str) -> None:
        """Handle the loss of an actor's node; `calls` were at it."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self.actors.actors)} actors>"
