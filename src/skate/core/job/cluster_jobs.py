"""Jobs over several nodes: each node is told of a job before it gets work of it, and the head ends a job everywhere.

A job belongs to the node of its driver. Any node that sends work of the job to another one introduces the job there first, with
the settings for its workers. When the driver ends, or its node is lost, the head decides what stays, because it knows all
actors: the detached ones and, if there are any, those that the driver has not created itself, which end with their last holder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.core.cluster.membership import Membership, Peer
from skate.core.job.job_table import Job, JobTable
from skate.core.outbox import Outbox
from skate.protocol import messages as m
from skate.protocol.effects import AdoptJob, CloseJob, EndOutput, PauseOutput, PrintOutput
from skate.protocol.states import DEAD

#: How many ended jobs are remembered, for messages that are still on their way.
CLOSED_MAX = 1000


class ClusterJobs:
    """The jobs that a node shares with others: it introduces them, and ends them as the head says."""

    def __init__(self, table: JobTable, members: Membership, out: Outbox) -> None:
        self.table = table
        self.jobs = table.jobs
        self.members = members
        self.emit, self.shell = out.emit, out.shell
        #: Jobs of which nothing comes any more, oldest first.
        self._closed: dict[str, None] = {}
        self.handlers: dict[int, Callable[[int, Any], None]] = {
            m.JOB: self.introduced,
            m.JOB_OVER: self.reported,
            m.JOB_CLOSED: self.closed,
            m.JOB_PRINTED: self.printed,
            m.JOB_PAUSED: self.paused,
            m.JOB_QUIET: self.quiet,
        }

    @property
    def alone(self) -> bool:
        """True while no other node can have work of a job."""
        return not self.members.alive and self.members.head is self.members.here

    # -- the beginning

    def begun(self, job: Job) -> None:
        """Tell the head of the job of a driver at this node: it ends the job if this node is lost."""
        members = self.members
        if members.head is not members.here:
            self.introduce(members.head, job.job)

    def introduce(self, peer: Peer, name: str) -> None:
        """Tell a peer of a job, unless it knows it."""
        job = self.jobs.get(name)
        if job is None or name in peer.jobs:
            return
        peer.jobs.add(name)
        near = peer.facts.get("machine") == self.members.here.facts.get("machine")
        local_view = job.local_view if near else b""
        self.emit(
            peer.cid,
            m.Job(m.JOB, name, job.namespace, job.home.node_id, job.made_by, job.view, local_view),
        )

    def introduced(self, cid: int, message: m.Job) -> None:
        """JOB: add a job whose driver is at another node."""
        _, name, namespace, node_id, driver, view, local_view = message
        if name in self.jobs:
            return
        members = self.members
        home = members.by_tag.get(node_id[:8]) or members.unknown_peer(node_id[:8])
        job = self.jobs[name] = Job(name, namespace, None, home, driver, (view, local_view))
        self.table.record(job)
        self.shell(AdoptJob(name, home.cid if home.alive else 0, view, local_view))
        if name in self._closed:
            self.table.ended.add(name)
        elif not home.alive:
            self.over(job, f"the node of its driver {home.reason}")

    # -- the end

    def over(self, job: Job, reason: str) -> None:
        """Have the head end a job."""
        members = self.members
        if members.head is members.here:
            self._end(job.job, job.home.node_id, job.made_by, reason)
        else:
            self.emit(members.head.cid, m.JobOver(m.JOB_OVER, job.job, job.home.node_id, job.made_by, reason))

    def reported(self, cid: int, message: m.JobOver) -> None:
        """JOB_OVER: end a job in the whole cluster, on the head."""
        _, name, node_id, driver, reason = message
        self._end(name, node_id, driver, reason)

    def _end(self, name: str, node_id: bytes, driver: int, reason: str) -> None:
        if name in self._closed or name in self.table.ended:
            return
        actors = [a for a in self.table.actors.actors.values() if a.template.job == name and a.state != DEAD]
        survivors: tuple[bytes, ...] = ()
        if any(actor.detached for actor in actors):
            drivers = node_id[:3] + driver.to_bytes(4, "little")  # so begin the ids of actors that it made
            survivors = tuple(a.actor_id for a in actors if a.detached or a.actor_id[:7] != drivers)
        self._tell(name, reason, survivors)
        self._close(name, reason, survivors)

    def _tell(self, name: str, reason: str, survivors: tuple[bytes, ...]) -> None:
        for peer in self.members.alive.values():
            self.emit(peer.cid, m.JobClosed(m.JOB_CLOSED, name, reason, survivors))

    def closed(self, cid: int, message: m.JobClosed) -> None:
        """JOB_CLOSED: end a job on this node."""
        _, name, reason, survivors = message
        self._close(name, reason, survivors)

    def _close(self, name: str, reason: str, survivors: tuple[bytes, ...]) -> None:
        members = self.members
        if not survivors:
            self._remember(name)
        job = self.jobs.get(name)
        if job is None:
            return
        self.table.finish(job, -1, reason, frozenset(survivors))
        nodes = tuple(peer.cid for peer in members.alive.values() if name in peer.jobs)
        self.shell(CloseJob(name, job.home.cid if job.home.cid in members.alive else 0, nodes))
        if not survivors or members.head is members.here:  # which knows when the last actor has ended
            self.table.ended.add(name)
            self.table.sweep()

    def _remember(self, name: str) -> None:
        self._closed[name] = None
        if len(self._closed) > CLOSED_MAX:
            del self._closed[next(iter(self._closed))]

    def forgotten(self, name: str) -> None:
        """Handle a job of which nothing is left here; the head knows that there is nothing elsewhere."""
        members = self.members
        for peer in members.alive.values():
            peer.jobs.discard(name)
        if members.head is members.here and name not in self._closed:
            self._remember(name)
            self._tell(name, "its last actor has ended", ())

    def node_left(self, peer: Peer) -> None:
        """End the jobs whose drivers were at a lost node."""
        for job in list(self.jobs.values()):
            if job.home is peer and job.job not in self.table.ended:
                self.over(job, f"the node of its driver {peer.reason}")
        if self.table.ended:
            self.table.sweep()

    def register_again(self, head: Peer) -> None:
        """Introduce the jobs that are known here to a new head, and report those whose drivers have ended here."""
        for job in list(self.jobs.values()):
            if job.job in self._closed:
                continue
            self.introduce(head, job.job)
            if job.home is self.members.here and job.driver is None:
                self.over(job, "its driver has ended")

    # -- output

    def printed(self, cid: int, message: m.JobPrinted) -> None:
        """JOB_PRINTED: pass output of a job to its driver."""
        _, name, is_error, text = message
        self.shell(PrintOutput(name, is_error, text))

    def paused(self, cid: int, message: m.JobPaused) -> None:
        """JOB_PAUSED: stop reading the output of a job, or resume."""
        _, name, paused = message
        self.shell(PauseOutput(name, paused))

    def quiet(self, cid: int, message: m.JobQuiet) -> None:
        """JOB_QUIET: a node has no more output of a job."""
        _, name = message
        self.shell(EndOutput(name, cid))

    def __repr__(self) -> str:
        return f"<ClusterJobs {list(self.jobs)}>"
