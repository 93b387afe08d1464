"""The programs that one node serves: what belongs to each, and what ends with its driver.

A node hosted in its driver has one program and needs none of this. On a standalone node, every template names its job, so each
worker belongs to one job. When a driver leaves, its tasks, actors and groups end. Detached actors stay, together with everything
that they started; the job's functions stay for as long as any of these live. With
other nodes, `cluster_jobs` ends a job on all of them.
"""

from __future__ import annotations

from typing import Protocol

from skate.core.actor.actor_manager import ActorManager
from skate.core.actor.actor_table import Actor
from skate.core.cluster.membership import Membership, Peer
from skate.core.recovery.record_log import RecordLog
from skate.core.schedule.scheduler import Scheduler
from skate.core.schedule.worker_record import JOB_ENDED
from skate.core.task.function_table import FunctionTable
from skate.core.task.task import Task
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m
from skate.protocol import registry_records as rr
from skate.protocol.effects import CloseJob, ForgetJob, KillWorker
from skate.protocol.states import CREATION, DEAD, ENDED, PLAIN

#: In a cluster, jobs that have ended are looked at again after this time, and then less and less often.
SWEEP_SECONDS = 0.2
SWEEP_SECONDS_MAX = 10.0
#: Ids of the actors of an ended job that stay; None if no other node has any.
Kept = frozenset[bytes] | None


class Job:
    """One program and its driver."""

    __slots__ = ("job", "namespace", "driver", "home", "made_by", "view", "local_view")

    def __init__(
        self,
        job: str,
        namespace: str,
        driver: int | None,
        home: Peer,
        made_by: int,
        views: tuple[bytes, bytes],
    ) -> None:
        self.job = job
        self.namespace = namespace
        self.driver = driver  # None once it has left, and if it is at another node
        self.home = home
        #: The client id of its driver, at its home.
        self.made_by = made_by
        #: Settings of its workers, packed: on any machine, and all of them on the driver's machine.
        self.view, self.local_view = views

    def __repr__(self) -> str:
        return f"<Job {self.job} driver={self.driver}>"


class Connections(Protocol):
    """Adds and removes processes."""

    def connect(self, cid: int, job: str, namespace: str, is_driver: bool) -> None:
        """Add a process that has joined."""

    def disconnect(self, cid: int) -> None:
        """Handle the end of a process."""


class Others(Protocol):
    """Ends jobs on all nodes."""

    @property
    def alone(self) -> bool:
        """True while no other node can have work of a job."""

    def begun(self, job: Job) -> None:
        """Tell the head of the job of a driver at this node."""

    def over(self, job: Job, reason: str) -> None:
        """Have the head end a job."""

    def forgotten(self, name: str) -> None:
        """Handle a job of which nothing is left here."""


class Registry(Protocol):
    """The placement groups of the cluster, on this node or through the head."""

    #: Stores the registry, if this node is a head that has a store.
    log: RecordLog

    def end_job(self, job: str, survivors: set[int]) -> None:
        """Remove the groups of a job that has ended, except detached ones and those of the processes that stay."""


class JobTable:
    """The jobs of a node, by id in hexadecimal."""

    def __init__(
        self,
        task_manager: TaskManager,
        actor_manager: ActorManager,
        scheduler: Scheduler,
        functions: FunctionTable,
        members: Membership,
        connections: Connections,
    ) -> None:
        self.task_manager = task_manager
        self.tasks = task_manager.tasks
        self.clock = task_manager.clock
        self.shell = task_manager.out.shell
        self.actor_manager = actor_manager
        self.actors = actor_manager.actors
        self.scheduler = scheduler
        self.registry: Registry
        self.others: Others
        self.function_table = functions
        self.members = members
        self.connections = connections
        self.jobs: dict[str, Job] = {}
        #: Jobs without a driver that still have live parts.
        self.ended: set[str] = set()
        self._will_sweep = False
        self._pause = SWEEP_SECONDS

    def begin(self, cid: int, job: str, namespace: str, views: tuple[bytes, bytes]) -> None:
        """Add the job of a new driver."""
        begun = self.jobs[job] = Job(job, namespace, cid, self.members.here, cid, views)
        self.record(begun)
        self.others.begun(begun)
        self.connections.connect(cid, job, namespace, True)

    def record(self, job: Job) -> None:
        """Record a job at the head, which ends it if the node of its driver is lost."""
        self.registry.log.note(
            rr.JobRecord(
                rr.JOB, job.job, job.namespace, job.home.node_id, job.made_by, job.view, job.local_view
            )
        )

    def named_in(self, env_key: str) -> tuple[str, str]:
        """Return job and namespace of a worker started for an environment; empty while the node has only one program."""
        found = self.jobs.get(env_key.partition("/")[0])
        return ("", "") if found is None else (found.job, found.namespace)

    def end(self, cid: int, reason: str) -> None:
        """End everything that belongs to a driver that has ended."""
        job = next(each for each in self.jobs.values() if each.driver == cid)
        job.driver = None
        if self.others.alone:
            self.ended.add(job.job)
            self.finish(job, cid, reason, None)
            self.shell(CloseJob(job.job, 0, ()))
        else:
            self._cancel(cid, [task for task in self.tasks.values() if task.client == cid])
            self.others.over(job, reason)
        self.connections.disconnect(cid)

    def finish(self, job: Job, driver: int, reason: str, kept: Kept) -> None:
        """End what is here of a job, except `kept` actors and what they have started; `driver` may still have tasks.

        Without `kept`, all of the job is here: the detached actors stay, and what they have started.
        """
        survivors = self._survivors(job.job, kept)
        self._end_tasks(job.job, driver, survivors, kept)
        for actor in list(self.actors.actors.values()):
            if (
                actor.template.job == job.job
                and actor.state != DEAD
                and not _survives(actor, survivors, kept)
            ):
                if actor.hosted or self.members.head is self.members.here:
                    self._end_actor(actor, reason)
        owners = set(survivors)
        for actor_id in kept or ():
            stays = self.actors.actors.get(actor_id)
            if stays is not None and stays.node is not None:
                owners.add(stays.node.cid)
        self.registry.end_job(job.job, owners)
        self._end_workers(job.job, survivors, kept)
        self._pause = SWEEP_SECONDS

    def _survivors(self, job: str, kept: Kept) -> set[int]:
        """Return the workers of a job that outlive its driver: detached actors', and those of everything they started."""
        actors = [a for a in self.actors.actors.values() if a.template.job == job and a.state != DEAD]
        survivors: set[int] = set()
        known = -1
        while len(survivors) != known:
            known = len(survivors)
            for actor in actors:
                if actor.worker is not None and _survives(actor, survivors, kept):
                    survivors.add(actor.worker.cid)
            for task in self.tasks.values():
                if task.kind == PLAIN and task.worker is not None and task.client in survivors:
                    survivors.add(task.worker.cid)
        return survivors

    def _end_tasks(self, job: str, driver: int, survivors: set[int], kept: Kept) -> None:
        ending = []
        for task in self.tasks.values():
            # With kept actors, the node that has sent a task here knows whether it is theirs.
            of_job = task.template.job == job and not (kept and task.origin is not None)
            if task.client == driver or (of_job and task.client not in survivors):
                ending.append(task)
        self._cancel(driver, ending)

    def _cancel(self, driver: int, tasks: list[Task]) -> None:
        # Newest first: earlier tasks may exist only to feed later ones.
        for task in reversed(tasks):
            if task.kind != CREATION and task.state != ENDED:
                task.retries = 0
                self.task_manager.cancel(driver, m.Cancel(m.CANCEL, task.task_id, task.kind == PLAIN, True))

    def _end_actor(self, actor: Actor, reason: str) -> None:
        if actor.worker is not None:
            actor.worker.ending = JOB_ENDED
            self.shell(KillWorker(actor.worker.cid))
        else:
            self.scheduler.dequeue(actor.creation)
            self.tasks.pop(actor.actor_id, None)
        self.actor_manager.die(actor, ("ActorDiedError", {"message": reason, "reason": "OWNER_DIED"}))

    def _end_workers(self, job: str, survivors: set[int], kept: Kept) -> None:
        scheduler = self.scheduler
        for worker in list(scheduler.workers.values()):
            if worker.env_key.partition("/")[0] != job or worker.cid in survivors:
                continue
            if kept and any(task.origin is not None for task in worker.outstanding.values()):
                continue  # perhaps for one of them; it ends when it is idle
            idle = scheduler.idle.get(worker.env_key)
            if idle and worker in idle:
                idle.remove(worker)
            worker.leaving = True
            worker.ending = JOB_ENDED
            self.shell(KillWorker(worker.cid))

    def elsewhere(self) -> list[Job]:
        """Return the jobs whose drivers are at other nodes, as far as they are known here."""
        here = self.members.here
        return [job for job in self.jobs.values() if job.home is not here and job.job not in self.ended]

    def doomed(self, job: str) -> set[int]:
        """The workers of a job that are ending but still alive."""
        return {
            w.cid for w in self.scheduler.workers.values() if w.leaving and w.env_key.partition("/")[0] == job
        }

    def sweep(self) -> None:
        """Forget ended jobs without remaining parts."""
        living = {worker.env_key.partition("/")[0] for worker in self.scheduler.workers.values()}
        living.update(task.template.job for task in self.tasks.values())
        living.update(a.template.job for a in self.actors.actors.values() if a.state != DEAD)
        for job in sorted(self.ended - living):
            self.ended.discard(job)
            del self.jobs[job]
            self._forget(job)
            self.registry.log.note(rr.JobGone(rr.JOB_GONE, job))
            self.others.forgotten(job)
            self.shell(ForgetJob(job))
        if self.ended and not self._will_sweep and not self.others.alone:
            # No message from here tells when the last task at another node has ended.
            self._will_sweep = True
            self.task_manager.later(self._pause, self._sweep_again)

    def _sweep_again(self) -> None:
        self._will_sweep = False
        self._pause = min(self._pause * 2, SWEEP_SECONDS_MAX)
        self.sweep()

    def _forget(self, job: str) -> None:
        idle = self.scheduler.idle
        for env_key in [key for key in idle if key.partition("/")[0] == job]:
            del idle[env_key]
        # Actors and tasks started by a detached actor outlived the driver, with their groups.
        self.registry.end_job(job, set())
        # No process is left that could use the functions of this job.
        self.function_table.sweep()

    def __repr__(self) -> str:
        return f"<Jobs {list(self.jobs.values())}>"


def _survives(actor: Actor, survivors: set[int], kept: Kept) -> bool:
    if kept is not None:
        return actor.actor_id in kept
    return actor.detached or actor.owner in survivors
