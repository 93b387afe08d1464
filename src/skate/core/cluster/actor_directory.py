"""The actors of a cluster: the location of each, and the routing of calls to it.

The head registers every actor with its name, chooses its node, and restarts it elsewhere when that node is lost. The node that
*hosts* an actor runs it like one of its own, for the head. Every other node that uses the actor keeps an entry without a worker.
Calls wait in this entry until the head has reported the actor's location; then they go straight to the host, in each caller's
order. A node holds an actor at the head for as long as anything on the node does. The head holds it at the host for as long as
anything in the cluster does.
"""

from __future__ import annotations

from skate.core.actor.actor_manager import ActorManager
from skate.core.actor.actor_table import Actor
from skate.core.cluster.membership import Membership, Peer
from skate.core.cluster.task_forwarder import TaskForwarder
from skate.core.object.object_table import ObjectTable
from skate.core.task.task import Task, Template
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m
from skate.protocol.fields import ActorFacts, ActorFields, ForwardFields, TemplateFields
from skate.protocol.states import ALIVE, CREATION, DEAD, METHOD, PENDING, QUEUED, RESTARTING, SENT

UNKNOWN_CLASS: TemplateFields = {"name": "an actor", "function": b""}


class ActorDirectory:
    """The entries of actors that are, or may be, on other nodes."""

    def __init__(
        self,
        task_manager: TaskManager,
        actor_manager: ActorManager,
        task_forwarder: TaskForwarder,
        objects: ObjectTable,
        members: Membership,
    ) -> None:
        self.task_manager = task_manager
        self.tasks = task_manager.tasks
        self.clients = task_manager.clients
        self.emit = task_manager.out.emit
        self.actor_manager = actor_manager
        self.actors = actor_manager.actors
        self.task_forwarder = task_forwarder
        self.templates = task_forwarder.templates
        self.objects = objects
        self.members = members
        #: Calls that were at a lost node, by actor; they wait for the head's report on the actor.
        self._doubtful: dict[bytes, list[Task]] = {}

    # -- on nodes other than the head

    def create_at_head(self, cid: int, message: m.CreateActor) -> None:
        """CREATE_ACTOR on a node that is not the head: pass the actor on to the head."""
        _, actor_id, key, args, deps, held, parent, fields = message
        head = self.members.head
        assert head is not None
        task = Task(actor_id, CREATION, cid, self.templates[key], args, deps, held, parent)
        entry = self._enter(Actor(task, fields, cid))
        entry.holders[cid] = 1
        entry.grants = 1  # the head counts this node as a holder because of this request
        for oid in (*held, *(oid for _, oid in deps)):
            self.objects.pin(oid)  # until the head holds them
        client = self.clients[cid]
        self.task_forwarder.introduce(head, key)
        life: ForwardFields = {"job": client.job, "namespace": client.namespace, "attempt": 0, "life": fields}
        self.emit(head.cid, m.Forward(m.FORWARD, CREATION, actor_id, key, args, deps, held, parent, life))

    def entry(self, actor_id: bytes) -> Actor | None:
        """Return the actor with an id; add an entry for an actor of another node; None if the id is unknown."""
        actor = self.actors.actors.get(actor_id)
        if actor is None and self.members.head is not None:
            task = Task(actor_id, CREATION, -1, Template(b"", UNKNOWN_CLASS), b"", (), (), b"")
            actor = self._enter(Actor(task, {}, -1))
            self.emit(self.members.head.cid, m.Seek(m.SEEK, actor_id))
        return actor

    def _enter(self, actor: Actor) -> Actor:
        actor.routed = True
        actor.creation.actor = actor
        self.actors.actors[actor.actor_id] = actor
        return actor

    def sync(self, actor: Actor) -> None:
        """Notify the node that counts an actor's holders after the first hold or the last release here."""
        head = self.members.head
        if head is None:
            self._sync_host(actor)
            return
        holders = any(cid != head.cid for cid in actor.holders)
        used = holders or actor.pins > 0 or (actor.worker is None and bool(actor.queue or actor.lanes))
        if used and not actor.grants:
            actor.grants = 1
            self.emit(head.cid, m.Hold(m.HOLD, actor.actor_id))
        elif not used and actor.grants and actor.state != PENDING:
            self.emit(head.cid, (m.FREE, actor.actor_id, actor.grants))
            actor.grants = 0

    def _sync_host(self, actor: Actor) -> None:
        """On the head: hold the actor at its host while it is in use."""
        host = actor.node
        if host is None or actor.state == DEAD:
            return
        wanted = actor.wanted or bool(actor.queue or actor.lanes)
        if wanted and not actor.grants:
            actor.grants = 1
            self.emit(host.cid, m.Hold(m.HOLD, actor.actor_id))
        elif not wanted and actor.grants and actor.state == ALIVE:
            actor.grants = 0
            self.emit(host.cid, (m.FREE, actor.actor_id, 1))

    def located(self, cid: int, message: m.ActorAt) -> None:
        """ACTOR_AT: the head reports the location of an actor, or its state."""
        _, actor_id, state, node_id, fields = message
        actor = self.actors.actors.get(actor_id)
        if actor is None or actor.state == DEAD or (actor.hosted and state != DEAD):
            return
        creation = actor.creation
        if not actor.hosted and (creation.deps or creation.held):  # the head holds them by now
            self.task_manager.drop_arguments(creation)
            creation.deps = creation.held = ()
        if actor.hosted:
            return
        if fields:
            actor.class_name, actor.name, actor.task_retries = (
                fields["class_name"],
                fields["name"],
                fields["task_retries"],
            )
            if not actor.lanes:
                actor.in_order = fields["in_order"]
        doubtful = self._doubtful.pop(actor_id, [])
        if state == DEAD:
            self.actor_manager.die(actor, fields["death"], doubtful)
            return
        actor.node = self.members.by_tag.get(node_id[:8]) if state == ALIVE else None
        if actor.node is not None and actor.node.alive:
            actor.state = ALIVE
        elif state != PENDING:  # an actor that was never alive is not restarting: calls wait for it
            actor.state = RESTARTING
        if doubtful:
            self.actor_manager.resume_elsewhere(actor, doubtful, fields.get("reason", "was lost"))
        if actor.state == ALIVE:
            self.actor_manager.calls.flush(actor)
        self.sync(actor)

    # -- on the node that hosts an actor

    def host(self, task: Task, life: ActorFields, peer: Peer) -> None:
        """FORWARD of a creation: on the head, register the actor; on another node, run it for the head."""
        actor = Actor(task, life, task.client)
        if self.members.head is None:
            actor.holders[peer.cid] = 1
            actor.watchers.add(peer.cid)
            self.actor_manager.enter(actor)
            self.tell(actor, peer.cid)
            return
        before = self.actors.actors.pop(actor.actor_id, None)
        actor.hosted = actor.routed = True
        actor.restarts = life["restarts"]
        actor.holders[peer.cid] = 1
        if before is not None:
            for cid, count in before.holders.items():  # the head may already know it from a result
                actor.holders[cid] = actor.holders.get(cid, 0) + count
            actor.pins, actor.grants = before.pins, before.grants
            actor.queue, actor.lanes = before.queue, before.lanes
            for call in (*actor.queue, *(call for lane in actor.lanes.values() for call in lane)):
                call.actor = actor
            creation = before.creation
            if creation.deps or creation.held:
                self.task_manager.drop_arguments(creation)
        self.actor_manager.enter(actor)

    def is_here(self, actor: Actor) -> bool:
        """Return True if this node handles the calls to an actor."""
        return actor.node is None and (actor.hosted or self.members.head is None)

    def kill_elsewhere(self, actor: Actor, no_restart: bool) -> bool:
        """Pass on the KILL of an actor without a worker here; return True if nothing is left to do here."""
        if self.members.head is not None and not actor.hosted:
            self.emit(self.members.head.cid, m.Kill(m.KILL, actor.actor_id, no_restart))
            return True
        if actor.node is not None:
            self.emit(actor.node.cid, m.Kill(m.KILL, actor.actor_id, no_restart))
        return False

    def report(self, actor: Actor) -> None:
        """Report a changed state of an actor: from the host to the head, from the head to the other nodes."""
        if actor.hosted and self.members.head is not None:
            pid = actor.worker.pid if actor.worker is not None else 0
            self.emit(
                self.members.head.cid,
                m.ActorReport(m.ACTOR_REPORT, actor.actor_id, actor.state, actor.restarts, pid, actor.death),
            )
        elif actor.watchers:
            for cid in actor.watchers:
                if cid in self.members.alive:
                    self.tell(actor, cid)

    # -- on the head

    def put_at(self, actor: Actor, peer: Peer) -> ActorFields:
        """Assign an actor to the node that will run it; return the data that this node needs."""
        actor.node = peer
        actor.grants = 1
        actor.routed = True
        return {
            "actor_name": actor.name,
            "namespace": actor.namespace,
            "max_restarts": actor.restarts_max,
            "max_task_retries": actor.task_retries,
            "concurrent": not actor.in_order,
            "restarts": actor.restarts,
        }

    def seek(self, cid: int, message: m.Seek) -> None:
        """SEEK: report an actor's location to a node, now and at every change."""
        _, actor_id = message
        actor = self.actors.actors.get(actor_id)
        if actor is None:
            fields: ActorFacts = {"class_name": "an actor", "name": "", "task_retries": 0, "in_order": True}
            text = f"there is no actor {actor_id.hex()}; it may have ended"
            fields["death"] = ("ActorDiedError", {"message": text, "actor_id": actor_id})
            self.emit(cid, m.ActorAt(m.ACTOR_AT, actor_id, DEAD, b"", fields))
            return
        actor.watchers.add(cid)
        self.tell(actor, cid)

    def tell(self, actor: Actor, cid: int, reason: str = "") -> None:
        """Report an actor's location to one node."""
        fields: ActorFacts = {
            "class_name": actor.class_name,
            "name": actor.name,
            "task_retries": actor.task_retries,
            "in_order": actor.in_order,
        }
        if actor.death is not None:
            fields["death"] = actor.death
        if reason:
            fields["reason"] = reason
        place = self.members.here.node_id if actor.node is None else actor.node.node_id
        self.emit(cid, m.ActorAt(m.ACTOR_AT, actor.actor_id, actor.state, place, fields))

    def reported(self, cid: int, message: m.ActorReport) -> None:
        """ACTOR_REPORT: the host of an actor reports its state."""
        _, actor_id, state, restarts, pid, death = message
        actor = self.actors.actors.get(actor_id)
        if actor is None or actor.state == DEAD or actor.node is None or actor.node.cid != cid:
            return
        self.task_forwarder.answered(actor.creation)
        self.tasks.pop(actor_id, None)
        actor.restarts, actor.pid = restarts, pid
        if state == DEAD and death is not None:
            self.actor_manager.die(actor, death)
            return
        if state == ALIVE and actor.state != ALIVE:
            actor.state = ALIVE
            self.report(actor)
            self.actor_manager.calls.flush(actor)
            self.actor_manager.end_if_unwanted(actor)

    # -- loss of a node

    def node_left(self, peer: Peer) -> None:
        """Handle the loss of a node and of the actors that it hosted."""
        calls: dict[bytes, list[Task]] = {}
        for task in list(self.tasks.values()):
            if task.kind == METHOD and task.node is peer and task.state == SENT:
                task.node = None
                if task.given is not None and len(task.given) == task.template.returns:
                    self.task_manager.forget(task)
                    continue
                task.state = QUEUED
                calls.setdefault(task.actor.actor_id, []).append(task)
        reason = f"was on node {peer.node_id.hex()}, which {peer.reason}"
        for actor in list(self.actors.actors.values()):
            actor.watchers.discard(peer.cid)
            if actor.node is not peer or actor.state == DEAD:
                continue
            actor.node = None
            under_way = calls.pop(actor.actor_id, [])
            if self.members.head is None:
                self._move(actor, under_way, reason)
            else:
                actor.state = RESTARTING
                self._doubtful.setdefault(actor.actor_id, []).extend(under_way)
        for tasks in calls.values():
            for task in tasks:
                self.task_manager.fail(task, task.actor.death or ("ActorDiedError", {"message": reason}))

    def _move(self, actor: Actor, calls: list[Task], reason: str) -> None:
        """On the head: restart an actor on another node if allowed."""
        creation = actor.creation
        creation.node = creation.worker = None
        actor.grants = 0
        again = actor.restarts_max < 0 or actor.restarts < actor.restarts_max
        if not again or not (actor.wanted or calls or actor.queue or actor.lanes):
            fields = {"message": f"it {reason}", "reason": "NODE_DIED"}
            self.actor_manager.die(actor, ("ActorDiedError", fields), calls)
            return
        actor.state = RESTARTING
        actor.restarts += 1
        for cid in actor.watchers:
            self.tell(actor, cid, reason)
        self.actor_manager.resume_elsewhere(actor, calls, reason)
        creation.attempt += 1
        creation.state = QUEUED
        self.tasks[actor.actor_id] = creation
        self.task_manager.admit(creation)
