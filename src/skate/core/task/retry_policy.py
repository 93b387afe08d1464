"""Consequences of a worker's death for its tasks and actors: retries, their delays, and the errors that callers get.

A task that had not begun runs elsewhere at once and uses up no retry; one that had begun uses one up. When attempts crash
immediately again and again, the pauses between them grow, so that a process which always crashes does not overload the machine.
A task killed because memory ran out is retried more often than others, since it may not be its own fault; but not forever, and
only when there is room for the memory that it held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from skate.core.actor.actor_table import Actor
from skate.core.cluster.membership import Peer
from skate.core.memory.memory_pressure import MemoryPressure
from skate.core.schedule.scheduler import Scheduler
from skate.core.schedule.worker_record import OUT_OF_MEMORY, START_FAILED, Worker
from skate.core.task.task import Task
from skate.core.task.task_manager import TaskManager
from skate.core.timers import growing
from skate.protocol.fields import ErrorValue
from skate.protocol.states import CREATION, QUEUED

#: Number of attempts that start immediately after a crash; later ones wait.
AT_ONCE = 3
#: A process that lived longer than this did not crash immediately.
LIVED_SECONDS = 10.0
#: Maximum retries of a task killed because memory ran out while other tasks used some of it.
OOM_RETRIES_MAX = 15
#: Seconds between checks for enough memory for such a task, and after which it is tried anyway.
ROOM_SECONDS = 0.25
ROOM_SECONDS_MAX = 30.0


def died_of_memory(worker: Worker) -> bool:
    """Return True if a worker was ended because memory ran out, by the monitor or by the kernel."""
    return worker.kill_reason is not None and worker.kill_reason.error == OUT_OF_MEMORY


class Cluster(Protocol):
    """The operations on other nodes that this module needs."""

    def task_retried(self, task: Task) -> None:
        """Handle the retry of a task that a peer forwarded here."""

    def pump(self) -> None:
        """Send queued tasks to nodes that have room."""


class RetryPolicy:
    """Decides between retry and error when a worker process dies."""

    def __init__(
        self,
        task_manager: TaskManager,
        scheduler: Scheduler,
        memory_pressure: MemoryPressure,
        cluster: Cluster,
        die: Callable[[Actor, ErrorValue], None],
        here: Peer,
    ) -> None:
        self.here = here
        self.task_manager = task_manager
        self.tasks = task_manager.tasks
        self.clock = task_manager.clock
        self.later = task_manager.later
        self.scheduler = scheduler
        self.memory_pressure = memory_pressure
        self.cluster = cluster
        self.die = die  # ends an actor for good
        #: Tasks that pause before a retry, and until when.
        self.pausing: dict[bytes, float] = {}
        self.oom_retries_max = OOM_RETRIES_MAX

    # -- tasks

    def task(self, task: Task, worker: Worker, begun: int, reason: str) -> None:
        """Retry or fail a plain task whose worker has died."""
        if task.cancelled:
            self.task_manager.cancelled(task)
        elif worker.kill_reason is not None and worker.kill_reason.error in START_FAILED:
            self.task_manager.fail(task, worker.kill_reason)
        elif not worker.had_begun(task.sequence, begun):
            self.scheduler.requeue(task)
        elif task.retries and self._may_again(task, worker):
            self.task_manager.count_attempt(task)
            if task.origin is not None:
                self.cluster.task_retried(task)
            self._again(task, worker)
        else:
            self.task_manager.fail(task, self.task_error(task, worker, reason))

    def _may_again(self, task: Task, worker: Worker) -> bool:
        """Count an attempt; return False if none is left."""
        if not died_of_memory(worker):
            task.retries -= task.retries > 0
            return True
        task.oom_kills += 1
        assert worker.kill_reason is not None
        if worker.kill_reason.fields.get(
            "alone"
        ):  # no other task used memory: count it like any other attempt
            task.retries -= task.retries > 0
            return True
        return task.oom_kills <= self.oom_retries_max

    def _again(self, task: Task, worker: Worker) -> None:
        if died_of_memory(worker):
            assert worker.kill_reason is not None
            needed = worker.kill_reason.fields.get("resident", 0)
            self._later(task, growing(task.oom_kills + 1), needed, self.clock.now + ROOM_SECONDS_MAX)
        elif self.clock.now - worker.progress >= LIVED_SECONDS:
            self.scheduler.requeue(task)
        else:
            self._later(task, growing(task.attempt - AT_ONCE + 1), 0, 0.0)

    def _later(self, task: Task, seconds: float, needed: int, until: float) -> None:
        """Queue a task again after a pause, once `needed` bytes of memory are free or at the time `until`."""
        if not seconds and not needed:
            self.scheduler.requeue(task)
            return
        attempt = task.attempt
        task.state = QUEUED
        self.pausing[task.task_id] = self.clock.now + seconds

        def resume() -> None:
            if task.attempt != attempt:  # a later attempt has its own pause
                return
            queued = self.tasks.get(task.task_id) is task and task.state == QUEUED
            if queued and needed and self.clock.now < until and not self.memory_pressure.has_room(needed):
                self.later(ROOM_SECONDS, resume)
                return
            self.pausing.pop(task.task_id, None)
            if queued and not (task.kind == CREATION and self._unwanted(task.actor)):
                self.scheduler.requeue(task)
                self.scheduler.dispatch_all()
                self.cluster.pump()  # another node may have room for it by now

        self.later(seconds, resume)

    def task_error(self, task: Task, worker: Worker, reason: str) -> ErrorValue:
        """Return the error of a task that is not retried."""
        tried = f"attempt {task.attempt + 1}"
        if died_of_memory(worker):
            assert worker.kill_reason is not None
            name, fields = worker.kill_reason
            if not task.template.max_retries:
                last = "it is not retried, because max_retries is 0"
            elif fields.get("alone"):
                last = f"all retries are used up (max_retries={task.template.max_retries})"
            else:
                last = f"it is not retried after {self.oom_retries_max} ends because memory ran out"
            text = f"{fields['message']}\n  this was {tried} of {task.template.name}; {last}{worker.details}"
            return (name, {**fields, "message": text})
        if worker.kill_reason is not None:
            return worker.kill_reason
        text = (
            "The worker died unexpectedly while executing this task: the worker process "
            f"({self.here.describe_pid(worker.pid)}) that ran {task.template.name} {reason}, on {tried}; raise max_retries "
            f"(now {task.template.max_retries}) to let it run again{worker.details}"
        )
        return ("WorkerCrashedError", {"message": text, **self.here.location(worker.pid)})

    # -- actors

    def restart(self, actor: Actor, worker: Worker) -> None:
        """Restart an actor: immediately, unless it crashes again and again."""
        answered = worker.sent - worker.owed > 1  # the first task sent to it is its constructor
        if answered and self.clock.now - worker.leased_at >= LIVED_SECONDS:
            actor.crashes = 0
        actor.crashes += 1
        needed = 0
        if died_of_memory(worker):
            assert worker.kill_reason is not None
            needed = worker.kill_reason.fields.get("resident", 0)
        self._later(actor.creation, growing(actor.crashes), needed, self.clock.now + ROOM_SECONDS_MAX)

    def _unwanted(self, actor: Actor) -> bool:
        """Return True if an actor about to restart has no holder left; end it then."""
        if actor.wanted or actor.queue or actor.lanes or actor.routed:
            return False
        text = "its process had crashed, and it was no longer referenced when it was about to restart"
        self.die(actor, ("ActorDiedError", {"message": text, "reason": "OUT_OF_SCOPE"}))
        return True

    def call_error(self, actor: Actor, task: Task, worker: Worker, reason: str) -> ErrorValue:
        """Return the error of a call that was running when its actor's process died, and is not retried."""
        if died_of_memory(worker):
            assert worker.kill_reason is not None
            name, fields = worker.kill_reason
            text = (
                f"{fields['message']}\n  the actor ran {task.template.name}, whose max_task_retries "
                f"{'are used up' if task.attempt else 'is 0'}{worker.details}"
            )
            return (name, {**fields, "message": text})
        text = (
            f"The actor is temporarily unavailable: the actor {actor.describe()} is restarting: its "
            f"process ({self.here.describe_pid(worker.pid)}) {reason} while {task.template.name} ran, so the call may or "
            f"may not have taken effect{worker.details}"
        )
        return ("ActorUnavailableError", {"message": text, "actor_id": actor.actor_id})

    def death(self, actor: Actor, worker: Worker, reason: str) -> ErrorValue:
        """Return the cause of death of an actor that has no restarts left."""
        text = f"its worker process {reason}"
        if died_of_memory(worker):
            assert worker.kill_reason is not None
            text = worker.kill_reason.fields["message"]
        if actor.restarts_max:
            text += f"; it had been restarted {actor.restarts} times, as often as max_restarts={actor.restarts_max} allows"
        else:
            text += "; set max_restarts (now 0) to let it restart"
        fields = {"message": text + worker.details, "reason": "WORKER_DIED"}
        return ("ActorDiedError", {**fields, **self.here.location(worker.pid)})


def put_first(queue: deque[Task], tasks: list[Task]) -> None:
    """Put calls back in front of those that came after them."""
    for task in tasks:
        task.state = QUEUED
        task.worker = None
    queue.extendleft(reversed(tasks))
