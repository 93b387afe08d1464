"""Consequences of a worker's death for its tasks and actors: retries, their delays, and the errors of callers.

A task that was not begun runs elsewhere at once, at no cost. One that was begun is an attempt. Attempts that end in a crash at
once, again and again, follow each other with growing pauses, so that a process which cannot live does not take the machine
with it. Whoever was ended for lack of memory is tried again more often than others, as it need not be its own fault,
but not forever, and only when there is room again for what it held.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from skate.core.schedule.worker_record import START_FAILED, Worker
from skate.core.task.task import Task
from skate.core.timers import growing
from skate.protocol.fields import ErrorValue
from skate.protocol.states import CREATION, QUEUED

if TYPE_CHECKING:
    from skate.core.actor.actor_table import Actor
    from skate.core.node import NodeCore


#: Attempts of a task that follow a crash at once; later ones wait.
AT_ONCE = 3
#: A process that lived longer did not crash at once.
LIVED_SECONDS = 10.0
#: How often a task is tried again that was ended for lack of memory while others had some of it.
OOM_RETRIES_MAX = 15
#: How often such a task looks whether there is room for it, and how long it does so before it is tried anyway.
ROOM_SECONDS = 0.25
ROOM_SECONDS_MAX = 30.0

OUT_OF_MEMORY = "OutOfMemoryError"


def died_of_memory(worker: Worker) -> bool:
    """Return True if a worker was ended because memory ran out, by the monitor or by the kernel."""
    return worker.kill_reason is not None and worker.kill_reason.error == OUT_OF_MEMORY


class RetryPolicy:
    """Decides what follows the death of a worker process."""

    def __init__(self, node: NodeCore) -> None:
        self.node = node
        self.oom_retries_max = OOM_RETRIES_MAX

    # -- tasks

    def task(self, task: Task, worker: Worker, begun: int, reason: str) -> None:
        """A plain task was with a worker that has died."""
        node = self.node
        if task.cancelled:
            node.task_manager.cancelled(task)
        elif worker.kill_reason is not None and worker.kill_reason.error in START_FAILED:
            node.task_manager.fail(task, worker.kill_reason)
        elif not worker.had_begun(task.sequence, begun):
            node.scheduler.requeue(task)
        elif task.retries and self._may_again(task, worker):
            task.attempt += 1
            if task.origin is not None:
                node.task_forwarder.tell_retried(task)
            self._again(task, worker)
        else:
            node.task_manager.fail(task, self.task_error(task, worker, reason))

    def _may_again(self, task: Task, worker: Worker) -> bool:
        """Count an attempt; False if it was one too many."""
        if not died_of_memory(worker):
            task.retries -= task.retries > 0
            return True
        task.oom_kills += 1
        assert worker.kill_reason is not None
        if worker.kill_reason.fields.get("alone"):  # nobody else was to blame: an attempt like any other
            task.retries -= task.retries > 0
            return True
        return task.oom_kills <= self.oom_retries_max

    def _again(self, task: Task, worker: Worker) -> None:
        node = self.node
        if died_of_memory(worker):
            assert worker.kill_reason is not None
            needed = worker.kill_reason.fields.get("resident", 0)
            self._later(task, growing(task.oom_kills + 1), needed, node.now + ROOM_SECONDS_MAX)
        elif node.now - worker.progress >= LIVED_SECONDS:
            node.scheduler.requeue(task)
        else:
            self._later(task, growing(task.attempt - AT_ONCE + 1), 0, 0.0)

    def _later(self, task: Task, seconds: float, needed: int, until: float) -> None:
        """Queue a task again after a pause, and once there are `needed` bytes of memory for it or `until` has come."""
        node = self.node
        if not seconds and not needed:
            node.scheduler.requeue(task)
            return
        attempt = task.attempt
        task.state = QUEUED
        node.pausing[task.task_id] = node.now + seconds

        def resume() -> None:
            if task.attempt != attempt:  # it has a pause of its own by now
                return
            there = node.tasks.get(task.task_id) is task and task.state == QUEUED
            if there and needed and node.now < until and not node.memory_pressure.has_room(needed):
                node.later(ROOM_SECONDS, resume)
                return
            node.pausing.pop(task.task_id, None)
            if there and not (task.kind == CREATION and self._unwanted(task.actor)):
                node.scheduler.requeue(task)
                node.scheduler.dispatch_all()
                if node.peers.active:  # what had room when it began to wait may have it elsewhere by now
                    node.peers.pump()

        node.later(seconds, resume)

    def task_error(self, task: Task, worker: Worker, reason: str) -> ErrorValue:
        """The error of a task that is not tried again."""
        tried = f"attempt {task.attempt + 1}"
        if died_of_memory(worker):
            assert worker.kill_reason is not None
            name, fields = worker.kill_reason
            if not task.template.max_retries:
                last = "it is not retried, because max_retries is 0"
            elif fields.get("alone"):
                last = f"no retry is left of max_retries={task.template.max_retries}"
            else:
                last = f"it is not retried after {self.oom_retries_max} ends for lack of memory"
            text = f"{fields['message']}\n  this was {tried} of {task.template.name}; {last}{worker.details}"
            return (name, {**fields, "message": text})
        if worker.kill_reason is not None:
            return worker.kill_reason
        text = (
            "The worker died unexpectedly while executing this task: the worker process "
            f"(pid {worker.pid}) that ran {task.template.name} {reason}, on {tried}; raise max_retries "
            f"(now {task.template.max_retries}) to let it run again{worker.details}"
        )
        return ("WorkerCrashedError", {"message": text})

    # -- actors

    def restart(self, actor: Actor, worker: Worker) -> None:
        """An actor is to start again: at once, unless it crashes again and again."""
        answered = worker.sent - worker.owed > 1  # of what it was sent the first is its constructor
        if answered and self.node.now - worker.leased_at >= LIVED_SECONDS:
            actor.crashes = 0
        actor.crashes += 1
        needed = 0
        if died_of_memory(worker):
            assert worker.kill_reason is not None
            needed = worker.kill_reason.fields.get("resident", 0)
        self._later(actor.creation, growing(actor.crashes), needed, self.node.now + ROOM_SECONDS_MAX)

    def _unwanted(self, actor: Actor) -> bool:
        """True if an actor that was to restart has been forgotten meanwhile; it ends then."""
        if actor.wanted or actor.queue or actor.lanes or actor.routed:
            return False
        text = "its process had crashed, and by the time it was to be started again nobody could call it any more"
        self.node.actor_manager.die(actor, ("ActorDiedError", {"message": text, "reason": "OUT_OF_SCOPE"}))
        return True

    def call_error(self, actor: Actor, task: Task, worker: Worker, reason: str) -> ErrorValue:
        """The error of a call that an actor was about when its process died, and which is not tried again."""
        if died_of_memory(worker):
            assert worker.kill_reason is not None
            name, fields = worker.kill_reason
            text = (
                f"{fields['message']}\n  the actor ran {task.template.name}, whose max_task_retries "
                f"{'are used up' if task.attempt else 'is 0'}{worker.details}"
            )
            return (name, {**fields, "message": text})
        text = (
            f"The actor is temporarily unavailable: the actor {actor.describe()} is restarting: its process (pid {worker.pid}) "
            f"{reason} while {task.template.name} ran, which may or may not have had its effect{worker.details}"
        )
        return ("ActorUnavailableError", {"message": text, "actor_id": actor.actor_id})

    def death(self, actor: Actor, worker: Worker, reason: str) -> ErrorValue:
        """The death of an actor whose process has died with no restart left."""
        text = f"its worker process {reason}"
        if died_of_memory(worker):
            assert worker.kill_reason is not None
            text = worker.kill_reason.fields["message"]
        if actor.restarts_max:
            text += f"; it had been restarted {actor.restarts} times, as often as max_restarts={actor.restarts_max} allows"
        else:
            text += "; max_restarts (now 0) would let it restart"
        fields = {"message": text + worker.details, "pid": worker.pid, "reason": "WORKER_DIED"}
        return ("ActorDiedError", fields)


def put_first(queue: deque[Task], tasks: list[Task]) -> None:
    """Put calls back in front of those that came after them."""
    for task in tasks:
        task.state = QUEUED
        task.worker = None
    queue.extendleft(reversed(tasks))
