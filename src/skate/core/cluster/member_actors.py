"""The actors of a cluster, on a node that is not the head: those that it hosts for the head, and those that it only uses."""

from __future__ import annotations

from skate.core.actor.actor_manager import ActorManager
from skate.core.actor.actor_table import Actor
from skate.core.cluster.actor_directory import UNKNOWN_CLASS, ActorDirectory
from skate.core.cluster.membership import Membership, Peer
from skate.core.cluster.task_forwarder import TaskForwarder
from skate.core.object.object_table import ObjectTable
from skate.core.task.task import Task, Template
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m
from skate.protocol.fields import ActorFields, ForwardFields
from skate.protocol.states import ALIVE, CREATION, DEAD, PENDING, RESTARTING


class MemberActors(ActorDirectory):
    """The entries of actors that the head has registered."""

    def __init__(
        self,
        task_manager: TaskManager,
        actor_manager: ActorManager,
        task_forwarder: TaskForwarder,
        objects: ObjectTable,
        members: Membership,
    ) -> None:
        super().__init__(task_manager, actor_manager, task_forwarder, members)
        self.clients = task_manager.clients
        self.objects = objects
        #: Calls that were at a lost node, by actor; they wait for the head's report on the actor.
        self._interrupted: dict[bytes, list[Task]] = {}
        #: Creations that no head has taken yet, by actor.
        self._unanswered: dict[bytes, m.Forward] = {}
        #: Actors that were killed here for good, and of whose end no head has reported.
        self._killed: set[bytes] = set()

    def create(self, cid: int, message: m.CreateActor) -> None:
        """CREATE_ACTOR: pass the actor on to the head."""
        _, actor_id, key, args, deps, held, parent, fields = message
        head = self.members.head
        task = Task(actor_id, CREATION, cid, self.templates[key], args, deps, held, parent)
        entry = self._enter(Actor(task, fields, cid))
        entry.holders[cid] = 1
        entry.grants = 2  # the head counts this node as a holder because of this request, and of the HOLD
        for oid in (*held, *(oid for _, oid in deps)):
            self.objects.pin(oid)  # until the head holds them
        client = self.clients[cid]
        self.task_forwarder.introduce(head, key)
        life: ForwardFields = {"job": client.job, "namespace": client.namespace, "attempt": 0, "life": fields}
        forward = m.Forward(m.FORWARD, CREATION, actor_id, key, args, deps, held, parent, life)
        self._unanswered[actor_id] = forward
        self.emit(head.cid, forward)
        # It binds: no other node may ask the head for the actor before the head has it.
        self.emit(head.cid, m.Hold(m.HOLD, actor_id))

    def host(self, task: Task, life: ActorFields, peer: Peer) -> None:
        """FORWARD of a creation: run an actor for the head."""
        actor = Actor(task, life, task.client)
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
        self.actors.actors[actor.actor_id] = actor
        self._resume(actor, "was lost")  # before it is entered, which may refuse it and fail its calls
        self.actor_manager.enter(actor)

    def entry(self, actor_id: bytes) -> Actor | None:
        """Return the actor with an id; add an entry, and ask the head for its location, if it is not known here."""
        actor = self.actors.actors.get(actor_id)
        if actor is None:
            task = Task(actor_id, CREATION, -1, Template(b"", UNKNOWN_CLASS), b"", (), (), b"")
            actor = self._enter(Actor(task, {}, -1))
            self.emit(self.members.head.cid, m.Seek(m.SEEK, actor_id))
        return actor

    def _enter(self, actor: Actor) -> Actor:
        actor.routed = True
        actor.creation.actor = actor
        self.actors.actors[actor.actor_id] = actor
        return actor

    def is_here(self, actor: Actor) -> bool:
        """Return True if this node handles the calls to an actor."""
        return actor.hosted and actor.node is None

    def kill_elsewhere(self, actor: Actor, no_restart: bool) -> bool:
        """Pass on the KILL of an actor to the head; return False if it is hosted here, so this node ends it."""
        if actor.hosted:
            return False
        if no_restart:
            self._killed.add(actor.actor_id)
        self.emit(self.members.head.cid, m.Kill(m.KILL, actor.actor_id, no_restart))
        return True

    def sync(self, actor: Actor) -> None:
        """Notify the head after the first hold of an actor or the last release here."""
        head = self.members.head
        used = self._is_used(actor)
        if used and not actor.grants:
            actor.grants = 1
            self.emit(head.cid, m.Hold(m.HOLD, actor.actor_id))
        elif not used and actor.grants and actor.state != PENDING:
            self.emit(head.cid, (m.FREE, actor.actor_id, actor.grants))
            actor.grants = 0

    def _is_used(self, actor: Actor) -> bool:
        head = self.members.head
        holders = any(cid != head.cid for cid in actor.holders)
        return holders or actor.pins > 0 or (actor.worker is None and bool(actor.queue or actor.lanes))

    def report(self, actor: Actor) -> None:
        """Report a changed state of an actor that is hosted here to the head."""
        if actor.hosted:
            pid = actor.worker.pid if actor.worker is not None else 0
            report = m.ActorReport(
                m.ACTOR_REPORT, actor.actor_id, actor.state, actor.restarts, pid, actor.death
            )
            self.emit(self.members.head.cid, report)

    def located(self, cid: int, message: m.ActorAt) -> None:
        """ACTOR_AT: the head reports the location of an actor, or its state."""
        _, actor_id, state, node_id, fields = message
        actor = self.actors.actors.get(actor_id)
        self._unanswered.pop(actor_id, None)
        if state == DEAD:
            self._killed.discard(actor_id)
        if actor is None or actor.state == DEAD or actor.hosted:
            return
        creation = actor.creation
        if creation.deps or creation.held:  # the head holds them by now
            self.task_manager.drop_arguments(creation)
            creation.deps = creation.held = ()
        if fields:
            actor.class_name, actor.name, actor.task_retries = (
                fields["class_name"],
                fields["name"],
                fields["task_retries"],
            )
            if not actor.lanes:
                actor.in_order = fields["in_order"]
        if state == DEAD:
            self.actor_manager.die(actor, fields["death"], self._take_interrupted(actor_id))
            return
        actor.node = self.members.by_tag.get(node_id[:8]) if state == ALIVE else None
        if actor.node is not None and actor.node.alive:
            actor.state = ALIVE
        elif state != PENDING:  # an actor that was never alive is not restarting: calls wait for it
            actor.state = RESTARTING
        self._resume(actor, fields.get("reason", "was lost"))
        if actor.state == ALIVE:
            self.actor_manager.calls.flush(actor)
        self.sync(actor)

    def _take_interrupted(self, actor_id: bytes) -> list[Task]:
        """Return the calls that were at a lost node, but for those that were cancelled meanwhile: these have their results."""
        return [call for call in self._interrupted.pop(actor_id, ()) if call.task_id in self.tasks]

    def _resume(self, actor: Actor, reason: str) -> None:
        """Retry the calls that were at a lost node, now that the head has chosen another one, or fail them."""
        interrupted = self._take_interrupted(actor.actor_id)
        for call in interrupted:
            call.actor = actor
        self.actor_manager.resume_elsewhere(actor, interrupted, reason)

    def host_lost(self, actor: Actor, calls: list[Task], reason: str) -> None:
        """Let the calls that were at an actor wait for the head's report."""
        actor.state = RESTARTING
        interrupted = self._interrupted.setdefault(actor.actor_id, [])
        for call in calls:
            if call.cancelled:  # it does not run again, whatever the head reports
                self.task_manager.cancelled(call)
            else:
                interrupted.append(call)

    # -- another head

    def head_lost(self) -> None:
        """Keep the actors that run here for the head: another one decides about them."""
        for actor in self.actors.actors.values():
            actor.is_adrift = actor.hosted and actor.state != DEAD

    def register_again(self, head: Peer) -> None:
        """Report to a new head the actors that run here, and those that are used here."""
        for actor in list(self.actors.actors.values()):
            if actor.hosted:
                self.report(actor)
                if actor.state == DEAD:
                    continue
                actor.holders[head.cid] = 1
                actor.is_adrift = False
            if actor.state != DEAD and actor.actor_id not in self._unanswered:
                actor.grants = int(self._is_used(actor))
                if actor.grants:
                    self.emit(head.cid, m.Hold(m.HOLD, actor.actor_id))

    def create_again(self, head: Peer) -> None:
        """Send a new head the creations that the last one has not taken."""
        for actor_id, forward in self._unanswered.items():
            actor = self.actors.actors[actor_id]
            actor.grants = 1
            self.task_forwarder.introduce(head, forward.template)
            self.emit(head.cid, forward)

    def kill_again(self, head: Peer) -> None:
        """Send a new head the kills that the last one has perhaps not got."""
        for actor_id in sorted(self._killed):
            self.emit(head.cid, m.Kill(m.KILL, actor_id, True))

    def seek_again(self, head: Peer) -> None:
        """Subscribe to the places of actors at a new head."""
        for actor in self.actors.actors.values():
            if actor.state != DEAD and not actor.hosted and actor.actor_id not in self._unanswered:
                self.emit(head.cid, m.Seek(m.SEEK, actor.actor_id))
