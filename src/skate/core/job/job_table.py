"""The programs that one node serves: what belongs to each, and what ends with its driver.

A node hosted in its driver has one program and needs none of this. On a standalone node, every template names its job, so each
worker belongs to one job. When a driver leaves, its tasks, actors and groups end. Detached actors stay, together with everything
that they started; the job's functions stay for as long as any of these live.
"""

from __future__ import annotations

from typing import Protocol

from skate.core.actor.actor_manager import ActorManager
from skate.core.actor.actor_table import Actor
from skate.core.schedule.scheduler import Scheduler
from skate.core.task.function_table import FunctionTable
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m
from skate.protocol.effects import ForgetJob, KillWorker
from skate.protocol.states import CREATION, DEAD, ENDED, PLAIN


class Job:
    """One program and its driver."""

    __slots__ = ("job", "namespace", "driver")

    def __init__(self, job: str, namespace: str, driver: int) -> None:
        self.job = job
        self.namespace = namespace
        self.driver: int | None = driver  # None once it has left

    def __repr__(self) -> str:
        return f"<Job {self.job} driver={self.driver}>"


class Connections(Protocol):
    """Adds and removes processes."""

    def connect(self, cid: int, job: str, namespace: str, is_driver: bool) -> None:
        """Add a process that has joined."""

    def disconnect(self, cid: int) -> None:
        """Handle the end of a process."""


class Registry(Protocol):
    """The placement groups of the cluster, on this node or through the head."""

    def end_job(self, job: str, staying: set[int]) -> None:
        """Remove the groups of a job that has ended, except detached ones and those of the processes that stay."""


class JobTable:
    """The jobs of a node, by id in hexadecimal."""

    def __init__(
        self,
        task_manager: TaskManager,
        actor_manager: ActorManager,
        scheduler: Scheduler,
        functions: FunctionTable,
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
        self.function_table = functions
        self.connections = connections
        self.jobs: dict[str, Job] = {}
        #: Jobs without a driver that still have live parts.
        self.ended: set[str] = set()

    def begin(self, cid: int, job: str, namespace: str) -> None:
        """Add the job of a new driver."""
        self.jobs[job] = Job(job, namespace, cid)
        self.connections.connect(cid, job, namespace, True)

    def named_in(self, env_key: str) -> tuple[str, str]:
        """Return job and namespace of a worker started for an environment; empty while the node has only one program."""
        found = self.jobs.get(env_key.partition("/")[0])
        return ("", "") if found is None else (found.job, found.namespace)

    def end(self, cid: int, reason: str) -> None:
        """End everything that belongs to a driver that has ended."""
        job = next(each for each in self.jobs.values() if each.driver == cid)
        job.driver = None
        self.ended.add(job.job)
        staying = self._staying(job.job)
        self._end_tasks(job.job, cid, staying)
        for actor in list(self.actors.actors.values()):
            if actor.template.job == job.job and actor.state != DEAD and not self._stays(actor, staying):
                self._end_actor(actor, reason)
        self.registry.end_job(job.job, staying)
        self._end_workers(job.job, staying)
        self.connections.disconnect(cid)

    @staticmethod
    def _stays(actor: Actor, staying: set[int]) -> bool:
        return actor.detached or actor.owner in staying

    def _staying(self, job: str) -> set[int]:
        """Return the workers of a job that outlive its driver: detached actors', and those of everything they started."""
        actors = [a for a in self.actors.actors.values() if a.template.job == job and a.state != DEAD]
        staying: set[int] = set()
        known = -1
        while len(staying) != known:
            known = len(staying)
            for actor in actors:
                if actor.worker is not None and self._stays(actor, staying):
                    staying.add(actor.worker.cid)
            for task in self.tasks.values():
                if task.kind == PLAIN and task.worker is not None and task.client in staying:
                    staying.add(task.worker.cid)
        return staying

    def _end_tasks(self, job: str, driver: int, staying: set[int]) -> None:
        # Newest first: earlier tasks may exist only to feed later ones.
        for task in reversed(list(self.tasks.values())):
            mine = task.client == driver or (task.template.job == job and task.client not in staying)
            if mine and task.kind != CREATION and task.state != ENDED:
                task.retries = 0
                self.task_manager.cancel(driver, m.Cancel(m.CANCEL, task.task_id, task.kind == PLAIN, True))

    def _end_actor(self, actor: Actor, reason: str) -> None:
        if actor.worker is not None:
            self.shell(KillWorker(actor.worker.cid))
        else:
            self.scheduler.dequeue(actor.creation)
            self.tasks.pop(actor.actor_id, None)
        self.actor_manager.die(actor, ("ActorDiedError", {"message": reason, "reason": "OWNER_DIED"}))

    def _end_workers(self, job: str, staying: set[int]) -> None:
        scheduler = self.scheduler
        for worker in list(scheduler.workers.values()):
            if worker.env_key.partition("/")[0] != job or worker.cid in staying:
                continue
            idle = scheduler.idle.get(worker.env_key)
            if idle and worker in idle:
                idle.remove(worker)
            worker.leaving = True
            self.shell(KillWorker(worker.cid))

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
            self.shell(ForgetJob(job))

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
