"""Actors of the last head, on the next one: those that members host continue, others restart or end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.core.actor.actor_table import Actor
from skate.core.cluster.membership import Peer
from skate.core.task.task import Task
from skate.protocol import messages as m
from skate.protocol import registry_records as rr
from skate.protocol.fields import ErrorValue, ForwardFields
from skate.protocol.states import ALIVE, CREATION, DEAD, RESTARTING, SENT, ActorState

if TYPE_CHECKING:
    from skate.core.parts import Parts

LOST = "it was on the head of the cluster or on a node that was lost with it"


class RestoredActors:
    """Collects what members report about actors, and makes the actors of the records again."""

    def __init__(self, core: Parts) -> None:
        self._core = core
        self._records: list[rr.ActorRecord] = []
        #: The restarts of actors that have been alive.
        self.started: dict[bytes, int] = {}
        self._reports: dict[bytes, tuple[int, m.ActorReport]] = {}
        self._holders: dict[bytes, list[int]] = {}

    # -- reports of members

    def hosted(self, cid: int, message: m.ActorReport) -> None:
        """ACTOR_REPORT: a member hosts an actor, or it has ended there."""
        report = m.ActorReport(*message)
        self._reports[report.actor_id] = (cid, report)

    def held(self, cid: int, message: m.Hold) -> None:
        """HOLD: something on a member uses an actor."""
        _, actor_id = message
        self._holders.setdefault(actor_id, []).append(cid)

    def created_again(self, cid: int, actor_id: bytes) -> None:
        """Handle a creation that the head before did not answer: if it has stored the actor, that member uses it."""
        if any(record.actor_id == actor_id for record in self._records):
            self._holders.setdefault(actor_id, []).append(cid)

    def forget(self, cid: int) -> None:
        """Forget the reports of a member that was lost."""
        self._reports = {key: report for key, report in self._reports.items() if report[0] != cid}
        for holders in self._holders.values():
            if cid in holders:
                holders.remove(cid)

    def add(self, record: rr.ActorRecord) -> None:
        """Add an actor of the records."""
        self._records.append(record)

    # -- decisions

    def restore(self) -> None:
        """Make all actors of the records again."""
        core = self._core
        actors = [self._made(record) for record in self._records]
        for actor in actors:  # all of them first: one may have the handle of another
            core.actors.add(actor)
        for actor in actors:
            creation = actor.creation
            for oid in (*(oid for _, oid in creation.deps), *creation.held):
                core.objects.pin(oid)
        for actor in actors:
            self._place(actor)
        for actor_id, (cid, report) in self._reports.items():
            known = core.actors.actors.get(actor_id)
            if (known is None or known.state == DEAD) and report.state != DEAD:
                # Its end was recorded, and the news of it did not arrive.
                core.out.emit(cid, m.Kill(m.KILL, actor_id, True))
        for actor in actors:
            if actor.state != DEAD:
                core.cluster.registry.report_actor(actor)
                core.actor_manager.end_if_unwanted(actor)

    def unknown_holds(self) -> list[tuple[int, m.Hold]]:
        """Return the holds on actors that are not recorded, with their members."""
        known = {record.actor_id for record in self._records}
        return [
            (cid, m.Hold(m.HOLD, actor_id))
            for actor_id, holders in self._holders.items()
            if actor_id not in known
            for cid in holders
        ]

    def _made(self, record: rr.ActorRecord) -> Actor:
        core = self._core
        owner = core.members.by_tag.get(record.node_id[:8])
        cid = owner.cid if owner is not None and owner.alive else -1
        creation = Task(
            record.actor_id,
            CREATION,
            cid,
            core.templates[record.template],
            record.args,
            record.deps,
            record.held,
            record.parent,
        )
        origin: ForwardFields = {
            "job": record.job,
            "namespace": record.namespace,
            "attempt": 0,
            "life": record.life,
        }
        creation.origin = origin
        actor = Actor(creation, record.life, cid)
        creation.actor = actor
        actor.restarts = max(0, self.started.get(record.actor_id, 0))
        for holder in self._holders.get(record.actor_id, ()):
            actor.holders[holder] = 1
            actor.watchers.add(holder)
        return actor

    def _place(self, actor: Actor) -> None:
        """Let an actor continue where it is, restart it, or end it."""
        core = self._core
        cid, report = self._reports.get(actor.actor_id, (-1, None))
        host = core.members.alive.get(cid)
        if report is not None and host is not None:
            self._continue(actor, host, report)
            return
        was_alive = actor.actor_id in self.started
        if not (actor.wanted or (actor.owner in core.members.alive and not was_alive)):
            self._end(actor, "nothing uses it since the head of the cluster was lost", "OWNER_DIED")
        elif not was_alive:
            self._start(actor)
        elif actor.restarts_max < 0 or actor.restarts < actor.restarts_max:
            actor.restarts += 1
            actor.state = RESTARTING
            actor.creation.attempt += 1
            self._start(actor)
        else:
            self._end(actor, LOST, "NODE_DIED")

    def _continue(self, actor: Actor, host: Peer, report: m.ActorReport) -> None:
        """Take an actor as its host reports it, which counts one hold of this node."""
        core = self._core
        _, _, state, restarts, pid, death = report
        actor.restarts, actor.pid = restarts, pid
        if state == DEAD and death is not None:
            core.actor_manager.die(actor, death)
            return
        actor.state = ActorState(state)
        actor.node = host
        actor.routed = True
        actor.grants = 1
        creation = actor.creation
        creation.node = host
        if state == ALIVE:
            core.actor_records.started[actor.actor_id] = restarts
            return
        creation.state = SENT
        core.tasks[actor.actor_id] = host.outstanding[actor.actor_id] = creation
        group = core.scheduler.class_of(creation)
        host.classes[group] = host.classes.get(group, 0) + 1

    def _start(self, actor: Actor) -> None:
        core = self._core
        creation = actor.creation
        core.actor_manager.enter(actor, core.feasibility.refusal(creation))
        for oid in (*(oid for _, oid in creation.deps), *creation.held):
            core.objects.unpin(oid)

    def _end(self, actor: Actor, text: str, reason: str) -> None:
        error: ErrorValue = ("ActorDiedError", {"message": text, "reason": reason})
        self._core.actor_manager.die(actor, error)

    def __repr__(self) -> str:
        return f"<RestoredActors {len(self._records)} recorded, {len(self._reports)} reported>"
