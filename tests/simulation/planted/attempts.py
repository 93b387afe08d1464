"""Attempts: one too many, one too few, of cancelled tasks, of tasks that had begun; answers that count twice."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

BOTH = ("node", "cluster")

BUGS = (
    Bug(
        "a failed task is retried once too often",
        "skate.core.task.task_manager:TaskManager.done",
        "task.retries -= task.retries > 0",
        "task.retries -= task.retries > 0 and task.attempt > 0",
    ),
    Bug(
        "a failed task is retried forever",
        "skate.core.task.task_manager:TaskManager.done",
        "task.retries -= task.retries > 0",
        "pass",
    ),
    Bug(
        "a failed task is retried once too rarely",
        "skate.core.task.task_manager:TaskManager.done",
        "and task.retries != 0",
        "and (task.retries > 1 or task.retries < 0)",
    ),
    Bug(
        "an error that the caller excludes from retries is retried",
        "skate.core.task.task_manager:TaskManager.done",
        "elif retriable and task.retries",
        "elif task.retries",
    ),
    Bug(
        "a cancelled task is retried when it fails",
        "skate.core.task.task_manager:TaskManager.done",
        "and not task.cancelled",
        "",
        rare=True,
    ),
    Bug(
        "a cancelled task is retried when its worker is lost",
        "skate.core.task.retry_policy:RetryPolicy.task",
        "if task.cancelled:",
        "if task.cancelled and not task.retries:",
    ),
    Bug(
        "a lost worker's task is retried forever",
        "skate.core.task.retry_policy:RetryPolicy._may_again",
        "if not died_of_memory(worker):\n        task.retries -= task.retries > 0",
        "if not died_of_memory(worker):\n        pass",
    ),
    Bug(
        "a task that a dying worker had begun counts as not begun",
        "skate.core.task.retry_policy:RetryPolicy.task",
        "not worker.had_begun(task.sequence, begun)",
        "not worker.had_begun(task.sequence + 1, begun)",
    ),
    Bug(
        "a task that a dying worker had not begun costs a retry",
        "skate.core.task.retry_policy:RetryPolicy.task",
        "not worker.had_begun(task.sequence, begun)",
        "not worker.had_begun(task.sequence - 1, begun)",
    ),
    Bug(
        "a call with max_task_retries=0 runs again after a restart",
        "skate.core.actor.actor_manager:ActorManager._restart",
        "elif task.retries:",
        "elif True:",
    ),
    Bug(
        "a call that a dying actor had begun counts as not begun",
        "skate.core.actor.actor_manager:ActorManager._restart",
        "not worker.had_begun(task.sequence, begun)",
        "not worker.had_begun(task.sequence + 1, begun)",
    ),
    Bug(
        "a call that a dying actor had not begun costs a retry",
        "skate.core.actor.actor_manager:ActorManager._restart",
        "not worker.had_begun(task.sequence, begun)",
        "not worker.had_begun(task.sequence - 1, begun)",
    ),
    Bug(
        "a cancelled call runs again after a restart",
        "skate.core.actor.actor_manager:ActorManager._restart",
        "if task.cancelled:",
        "if task.cancelled and not task.retries:",
        rare=True,
    ),
    Bug(
        "an actor restarts once too often",
        "skate.core.actor.actor_manager:ActorManager.worker_died",
        "actor.restarts < actor.restarts_max",
        "actor.restarts <= actor.restarts_max",
    ),
    Bug(
        "an actor restarts once too rarely",
        "skate.core.actor.actor_manager:ActorManager.worker_died",
        "actor.restarts < actor.restarts_max",
        "actor.restarts + 1 < actor.restarts_max",
    ),
    Bug(
        "a cancelled task stays in its queue and its result is delivered",
        "skate.core.task.task_manager:TaskManager.cancel",
        "self.fail(task, cancelled_error(task))\n",
        "return\n",
    ),
    Bug(
        "a cancelled task that a worker returned still runs",
        "skate.core.task.task_manager:TaskManager.returned",
        "if task.cancelled:",
        "if task.cancelled and task.retries < 0:",
        rare=True,
    ),
    Bug(
        "a task is cancelled before it runs, and its caller gets no answer",
        "skate.core.task.task_manager:TaskManager.done",
        "elif status == m.CANCELLED:\n        self.fail(task, cancelled_error(task))",
        "elif status == m.CANCELLED:\n        self.forget(task)",
    ),
    Bug(
        "an answered task stays with its worker and is answered again when that is lost",
        "skate.core.task.task_manager:TaskManager.done",
        "worker.outstanding.pop(task_id, None)",
        "worker.outstanding.get(task_id)",
    ),
    Bug(
        "a returned task also stays with its worker",
        "skate.core.schedule.scheduler:Scheduler.returned",
        "worker.outstanding.pop(task.task_id, None)",
        "worker.outstanding.get(task.task_id)",
    ),
    Bug(
        "the task of a removed group stays with the worker that is killed for it",
        "skate.core.placement.placement_table:PlacementTable._end_task",
        "worker.outstanding.pop(task.task_id, None)",
        "worker.outstanding.get(task.task_id)",
    ),
    Bug(
        "the last two results of a task are swapped",
        "skate.core.task.task_manager:TaskManager._complete",
        "zip(oids, returns, strict=True)",
        "zip(oids, returns[::-1], strict=True)",
    ),
)
