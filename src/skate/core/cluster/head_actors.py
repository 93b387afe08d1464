"""The actors of a cluster, on its head: it registers them, chooses their nodes, and tells their locations to the other nodes.

A single node is its own head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.core.actor.actor_manager import ActorManager
from skate.core.actor.actor_table import Actor
from skate.core.cluster.actor_directory import UNKNOWN_CLASS, ActorDirectory
from skate.core.cluster.membership import Membership, Peer
from skate.core.cluster.task_forwarder import TaskForwarder
from skate.core.object.object_table import ObjectTable
from skate.core.recovery.actor_records import ActorRecords
from skate.core.recovery.record_log import Action, Records, Refusal
from skate.core.schedule.feasibility import Feasibility
from skate.core.task.task import Task, Template
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m
from skate.protocol.effects import KillWorker
from skate.protocol.fields import ActorFacts, ActorFields, Death
from skate.protocol.states import ALIVE, CREATION, DEAD, QUEUED, RESTARTING


class HeadActors(ActorDirectory):
    """Every actor of the cluster, with its name and its place."""

    def __init__(
        self,
        task_manager: TaskManager,
        actor_manager: ActorManager,
        task_forwarder: TaskForwarder,
        members: Membership,
        feasibility: Feasibility,
        objects: ObjectTable,
        records: ActorRecords,
    ) -> None:
        super().__init__(task_manager, actor_manager, task_forwarder, members)
        self._refusal = feasibility.refusal
        self.objects = objects
        self.records = records
        self.log = records.log
        #: Actors whose records are being stored, so that they have neither name nor worker yet.
        self._unstored: set[bytes] = set()

    # -- creation

    def create(self, cid: int, message: m.CreateActor) -> None:
        """CREATE_ACTOR: register an actor of a program on this node."""
        _, actor_id, key, args, deps, held, parent, fields = message
        task = Task(actor_id, CREATION, cid, self.templates[key], args, deps, held, parent)
        actor = Actor(task, fields, cid)
        actor.holders[cid] = 1
        self._register(actor)

    def host(self, task: Task, life: ActorFields, peer: Peer) -> None:
        """FORWARD of a creation: register an actor of a program on another node."""
        known = self.actors.actors.get(task.task_id)
        if known is not None:  # the head before this one had stored it, and did not answer
            known.holders[peer.cid] = 1
            known.watchers.add(peer.cid)
            self._tell(known, peer.cid)
            return
        actor = Actor(task, life, task.client)
        actor.holders[peer.cid] = 1
        actor.watchers.add(peer.cid)
        self._register(actor)
        if not self.log.is_stored:  # or the answer follows when it is stored
            self._tell(actor, peer.cid)

    def _register(self, actor: Actor) -> None:
        """Add an actor; store it, if there is a store, before it gets its name and starts."""
        if not self.log.is_stored:
            self._enter(actor)
            return
        self.actors.actors[actor.actor_id] = actor  # which may be called and killed from now on
        self._unstored.add(actor.actor_id)
        creation = actor.creation
        creation.actor = actor
        arguments = (*(oid for _, oid in creation.deps), *creation.held)
        for oid in arguments:
            self.objects.pin(oid)

        def stored() -> None:
            self._unstored.discard(actor.actor_id)
            if actor.state == DEAD:  # which was recorded before the actor, perhaps
                self.ends(actor, lambda: self.report(actor))
                return
            self._enter(actor)
            for oid in arguments:
                self.objects.unpin(oid)
            self.report(actor)

        def refused(problem: str) -> None:
            self._unstored.discard(actor.actor_id)
            if actor.state == DEAD:
                self.report(actor)
            else:
                self.actor_manager.refuse(creation, ("ActorDiedError", {"message": problem}))

        append = self.log.decide if actor.name else self._commit
        append(lambda: self._records_of(actor), stored, refused)

    def _commit(self, records: Callable[[], Records], then: Action, refused: Refusal) -> None:
        self.log.commit(records(), then, refused)

    def _records_of(self, actor: Actor) -> Records:
        """Return the records of a new actor; none if it will be refused, or has died."""
        if actor.state == DEAD or self._is_taken(actor) or self._refusal(actor.creation) is not None:
            return ()
        client = self.task_forwarder.client_of(actor.creation)
        job, namespace = ("", "") if client is None else (client.job, client.namespace)
        return self.records.of_creation(actor, job, namespace)

    def _is_taken(self, actor: Actor) -> bool:
        return bool(actor.name) and self.actors.named(actor.namespace, actor.name) is not None

    def _enter(self, actor: Actor) -> None:
        """Add an actor under its name; refuse it if the name is taken or if no node can ever run it."""
        taken = self._is_taken(actor)
        self.actors.add(actor)
        refused = self._refusal(actor.creation)
        if taken:  # by another process, after this one had checked
            text = f"The name {actor.name} (namespace={actor.namespace}) is already taken by a living actor; choose another"
            refused = ("ActorDiedError", {"message": text})
        self.actor_manager.enter(actor, refused)

    # -- uses

    def entry(self, actor_id: bytes) -> Actor | None:
        """Return the actor with an id, or None: no other node knows more actors than the head.

        A head with a store may be asked for one that ended under the head before it.
        """
        actor = self.actors.actors.get(actor_id)
        if actor is None and self.log.is_stored:
            actor = Actor(
                Task(actor_id, CREATION, -1, Template(b"", UNKNOWN_CLASS), b"", (), (), b""), {}, -1
            )
            actor.creation.actor = actor
            actor.state = DEAD
            text = "it ended before the head of the cluster was started again"
            actor.death = Death("ActorDiedError", {"message": text, "actor_id": actor_id})
            self.actors.actors[actor_id] = actor
        return actor

    def is_here(self, actor: Actor) -> bool:
        """Return True if this node handles the calls to an actor."""
        return actor.node is None

    def kill_elsewhere(self, actor: Actor, no_restart: bool) -> bool:
        """Pass on the KILL of an actor to its host; return False since the head has to end it, too."""
        if actor.node is not None:
            self.emit(actor.node.cid, m.Kill(m.KILL, actor.actor_id, no_restart))
        return False

    def sync(self, actor: Actor) -> None:
        """Hold the actor at its host while it is in use."""
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

    # -- places

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
        if actor_id not in self._unstored:
            self._tell(actor, cid)

    def report(self, actor: Actor) -> None:
        """Report a changed state of an actor, once it is stored, to the nodes that asked for it."""
        if actor.actor_id in self._unstored:
            return
        self.records.changed(actor)
        for cid in actor.watchers:
            if cid in self.members.alive:
                self._tell(actor, cid)

    def _tell(self, actor: Actor, cid: int, reason: str = "") -> None:
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

    def starts(self, actor: Actor, construct: Callable[[], None]) -> None:
        """Call `construct` when it is stored that the constructor of an actor may have begun on this node."""
        self.log.commit(
            self.records.of_start(actor), construct, lambda problem: self._unstarted(actor, problem)
        )

    def _unstarted(self, actor: Actor, problem: str) -> None:
        if actor.worker is not None:
            self.task_manager.out.shell(KillWorker(actor.worker.cid))
        if actor.state != DEAD:
            self.actor_manager.die(actor, ("ActorDiedError", {"message": problem}))

    def ends(self, actor: Actor, end: Callable[[], None]) -> None:
        """Call `end` when it is stored that an actor ends: a head that did not know could not make up for it."""
        if not self.log.is_stored or actor.actor_id in self._unstored:
            end()
            return

        def refused(problem: str) -> None:
            self.records.ending.discard(actor.actor_id)
            end()

        self.log.commit(self.records.of_end(actor), end, refused)

    def died(self, actor: Actor) -> None:
        """Record the permanent end of an actor."""
        self.records.died(actor)

    def host_lost(self, actor: Actor, calls: list[Task], reason: str) -> None:
        """Restart an actor on another node if allowed."""
        creation = actor.creation
        creation.node = creation.worker = None
        actor.grants = 0
        again = actor.restarts_max < 0 or actor.restarts < actor.restarts_max
        again = again or (self.was_drained and actor.restarts_max > 0)
        if not again or not (actor.wanted or calls or actor.queue or actor.lanes):
            fields: dict[str, Any] = {"message": f"it {reason}", "reason": "NODE_DIED"}
            if self.was_drained:
                fields["preempted"] = True
            self.actor_manager.die(actor, ("ActorDiedError", fields), calls)
            return
        actor.state = RESTARTING
        actor.restarts += not self.was_drained
        for cid in actor.watchers:
            self._tell(actor, cid, reason)
        self.actor_manager.resume_elsewhere(actor, calls, reason)
        creation.attempt += 1
        creation.since = self.task_manager.clock.now
        creation.state = QUEUED
        self.tasks[actor.actor_id] = creation
        self.task_manager.admit(creation)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        for actor in self.actors.actors.values():
            if actor.actor_id in self._unstored:
                continue
            if actor.name and actor.state != DEAD and not actor.leaving:
                named = self.actors.named(actor.namespace, actor.name)
                assert named is actor, f"the name of {actor} leads to {named}"
