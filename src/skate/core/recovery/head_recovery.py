"""The first seconds of a head that follows another one: it listens to the members, and only then decides.

The records say what there is: members, actors, groups, jobs, entries. Where it is, and who uses it, the members report. Until
each recorded member has registered again or was lost, or RECOVERY_SECONDS have passed, nobody is declared dead, nothing is
restarted, and everything else that comes is kept. Then the tables are filled at once, and what was kept is handled in order.
Actors that no member hosts were on the last head, or on a node that was lost with it: they restart or end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from skate.core.job.job_table import Job
from skate.core.recovery.records import compacted
from skate.core.recovery.restored_actors import RestoredActors
from skate.core.recovery.restored_groups import RestoredGroups
from skate.protocol import messages as m
from skate.protocol import registry_records as rr
from skate.protocol import shell_events as se
from skate.protocol.effects import AdoptJob
from skate.protocol.states import CREATION

if TYPE_CHECKING:
    from skate.core.parts import Parts

#: How long a new head waits for the members of the last one: twice the time after which a silent member is dead.
RECOVERY_SECONDS: Final = 10.0
#: Events about clients: where the number of the client is.
_ENDS: Final = (se.DRIVER_LEFT, se.JOB_ENDED, se.WORKER_LOST, se.PEER_LEFT)

Handler = Callable[[int, Any], None]


class HeadRecovery:
    """Fills the tables of a head from the records of the last one, and from what its members report."""

    def __init__(self, core: Parts, records: Sequence[rr.RegistryRecord]) -> None:
        self._core = core
        self._records = compacted(records)
        self.actors = RestoredActors(core)
        self.groups = RestoredGroups(core)
        #: Ids of members that have not registered again.
        self.absent = {each.node_id for each in self._records if isinstance(each, rr.MemberRecord)}
        self._registered: set[int] = set()
        #: Nodes that drain: why, and for how many seconds at most.
        self._drains: dict[bytes, tuple[str, int]] = {
            each.node_id: (each.reason, each.seconds)
            for each in self._records
            if isinstance(each, rr.DrainRecord)
        }
        #: Handlers of what members report.
        self.reports: dict[int, Handler] = {
            m.ACTOR_REPORT: self.actors.hosted,
            m.HOLD: self.actors.held,
            m.HELD_BUNDLES: self.groups.held,
            m.DRAIN: self.drains,
            m.REGISTERED: self.has_registered,
        }
        self._kept: list[tuple[int, Any]] = []
        self._until: float | None = None
        self.is_over = False

    # -- listening

    def handlers(self, real: dict[int, Handler]) -> dict[int, Handler]:
        """Return handlers that keep all messages, except the events of the shell and what members report."""
        shell = {tag for tag in real if tag >= se.DRIVER_JOINED}
        kept: dict[int, Handler] = {tag: real[tag] if tag in shell else self._keep for tag in real}
        for tag in _ENDS:
            kept[tag] = self._ending(real[tag])
        return kept | {tag: self._of_members(handler) for tag, handler in self.reports.items()}

    def _keep(self, cid: int, message: tuple[Any, ...]) -> None:
        self._kept.append((cid, message))

    def _of_members(self, handler: Handler) -> Handler:
        """Wrap a handler of reports: what a member sends when it has registered, and what others send, is kept."""

        def handle(cid: int, message: tuple[Any, ...]) -> None:
            tag, *fields = message
            of_object = tag == m.HOLD and len(fields[0]) == 28
            if cid in self._registered or cid not in self._core.members.alive or of_object:
                self._keep(cid, message)
            else:
                handler(cid, message)

        return handle

    def _ending(self, real: Handler) -> Handler:
        """Wrap the handler of a client's end: what it has sent is lost with it."""

        def handle(cid: int, message: tuple[Any, ...]) -> None:
            _, gone, *_ = message
            peer = self._core.members.alive.get(gone)
            self._kept = [each for each in self._kept if each[0] != gone]
            real(cid, message)
            if peer is not None:
                self.actors.forget(gone)
                self.groups.forget(gone)
                self.absent.discard(peer.node_id)

        return handle

    def has_registered(self, cid: int, message: m.Registered) -> None:
        """REGISTERED: a member has reported everything."""
        self._registered.add(cid)
        self.absent.discard(self._core.members.alive[cid].node_id)

    def drains(self, cid: int, message: m.Drain) -> None:
        """DRAIN: a member drains, or has to stop."""
        _, node_id, reason, seconds = message
        self._drains[node_id] = (reason, seconds)

    def tick(self, now: float) -> float | None:
        """Decide when all members have registered, or it is time; return the seconds until then."""
        if self._until is None:
            self._until = now + RECOVERY_SECONDS
        if self.absent and now < self._until:
            return self._until - now
        self._finish()
        return 0.0

    # -- deciding

    def _finish(self) -> None:
        core, records = self._core, self._records
        self.is_over = True
        core.recovered()
        for node_id in sorted(self.absent):
            core.log.note(rr.MemberGone(rr.MEMBER_GONE, node_id))
        for node_id, (reason, seconds) in self._drains.items():  # first: nothing is placed there from now on
            core.drains.resume(node_id, reason, seconds)
        for record in records:
            match record:
                case rr.FunctionRecord() | rr.TemplateRecord():
                    core.actor_records.known.add(record.key)
                    core.function_table.restore(record)
                case rr.EntryRecord(_, namespace, key, value):
                    core.queries.key_values.kept[namespace, key] = value
                case rr.AnswerRecord(_, node_id, _, number, value):
                    core.queries.stored_answers[node_id, number] = value
                case rr.JobRecord():
                    self._restore_job(record)
                case rr.GroupRecord():
                    self.groups.add(record)
                case rr.ActorRecord():
                    self.actors.add(record)
                case rr.ActorStarted(_, actor_id, restarts):
                    self.actors.started[actor_id] = restarts
                case rr.ActorGone(_, actor_id):
                    core.cluster.registry.entry(actor_id)
                case _:
                    pass
        for cid, message in self._kept:
            if _creates(message):
                self.actors.created_again(cid, m.Forward(*message).task_id)
        self.groups.restore()
        self.actors.restore()
        for job in [job for job in core.jobs.jobs.values() if not job.home.alive]:
            core.cluster_jobs.over(job, f"the node of its driver {job.home.reason}")
        # New actors first: other members may use them already.
        first = [each for each in self._kept if _makes_actors(each[1])]
        last = [each for each in self._kept if not _makes_actors(each[1])]
        self._kept = []
        for cid, message in (*first, *self.actors.unknown_holds(), *last):
            core.handlers[message[0]](cid, message)

    def _restore_job(self, record: rr.JobRecord) -> None:
        _, name, namespace, node_id, driver, view, local_view = record
        core = self._core
        home = core.members.by_tag.get(node_id[:8]) or core.members.unknown_peer(node_id[:8])
        core.jobs.jobs[name] = Job(name, namespace, None, home, driver, (view, local_view))
        core.out.shell(AdoptJob(name, home.cid if home.alive else 0, view, local_view))

    def __repr__(self) -> str:
        return f"<HeadRecovery {len(self.absent)} members are absent, {len(self._kept)} messages are kept>"


def _makes_actors(message: tuple[Any, ...]) -> bool:
    """Return True for a creation that a member sends, and for what it needs."""
    return message[0] in (m.JOB, m.FUNCTION, m.TEMPLATE) or _creates(message)


def _creates(message: tuple[Any, ...]) -> bool:
    """Return True for a creation that a member sends."""
    tag, *fields = message
    return bool(tag == m.FORWARD and fields[0] == CREATION)
