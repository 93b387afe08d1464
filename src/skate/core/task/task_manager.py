"""Tasks from submission to results: arguments, retries, cancellation, death of workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.core.client import Client
from skate.core.clock import Clock
from skate.core.object.object_table import ObjectRecord, ObjectTable
from skate.core.outbox import Outbox
from skate.core.schedule.feasibility import Feasibility
from skate.core.schedule.scheduler import Scheduler
from skate.core.schedule.worker_record import FORCED, MAX_CALLS, Worker
from skate.core.task.function_table import FunctionTable
from skate.core.task.task import Task, return_ids
from skate.core.task.task_history import TaskHistory
from skate.core.task.task_users import Actors, Calls, Cluster, Retries
from skate.protocol import messages as m
from skate.protocol.effects import EndTask
from skate.protocol.fields import ErrorValue
from skate.protocol.states import CREATION, ENDED, METHOD, PLAIN, QUEUED, SENT, WAITING

GRACE_SECONDS = 0.5  # for a worker to exit on its own when one of its tasks is cancelled by force
FIRST = b"\x01\x00\x00\x00"  # index of a task's first result


class TaskManager:
    """Manages the tasks of a node from submission to their results."""

    def __init__(
        self,
        tasks: dict[bytes, Task],
        clients: dict[int, Client],
        history: TaskHistory,
        cluster: Cluster,
        clock: Clock,
        out: Outbox,
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self.tasks = tasks
        #: The tasks in progress that are not at their first attempt.
        self.retried: dict[bytes, Task] = {}
        self.clients = clients
        self.history = history
        self._finished = history.finished
        self.cluster = cluster
        self.clock = clock
        self.out = out
        self.emit = out.emit
        self.later = later
        self.scheduler: Scheduler
        self.objects: ObjectTable
        self.actor_manager: Actors
        self.calls: Calls
        self.retry_policy: Retries
        self.refusal: Callable[[Task], ErrorValue | None]
        #: Lets a task run as soon as possible, here or on another node.
        self.admit: Callable[[Task], None]

    def connect(
        self,
        scheduler: Scheduler,
        objects: ObjectTable,
        functions: FunctionTable,
        feasibility: Feasibility,
        actors: Actors,
        calls: Calls,
        retries: Retries,
    ) -> None:
        """Set the dependencies that are built later and call back."""
        self.scheduler = scheduler
        self._workers = scheduler.workers
        self.admit = scheduler.enqueue
        self.objects = objects
        self._records = objects.records
        self.functions, self.templates = functions.functions, functions.templates
        self.refusal = feasibility.refusal
        self.actor_manager = actors
        self.calls = calls
        self.retry_policy = retries

    # -- submission

    def submit(self, cid: int, message: m.Submit) -> None:
        """SUBMIT: add a task; it runs once its arguments are available and resources are free."""
        _, task_id, key, args, deps, held, parent = message
        template = self.templates[key]
        template.entered += 1
        task = Task(task_id, PLAIN, cid, template, args, deps, held, parent)
        task.since = self.clock.now
        self.tasks[task_id] = task
        self.enter(task)

    def enter(self, task: Task) -> None:
        """Pin a new task's arguments, and let it run if it can."""
        if task.deps or task.held:
            self.take_arguments(task)
            refused = self.refusal(task)
            if refused is None and not task.missing:
                refused = self.objects.failed_argument(task)
        else:
            refused = self.refusal(task)
        if refused is not None:
            self.fail(task, refused)
        elif not task.missing:
            self.admit(task)

    def take_arguments(self, task: Task) -> None:
        """Pin the arguments of a task; count those whose values are not available yet."""
        objects = self.objects
        for oid in task.held:
            objects.pin(oid)
        for _, oid in task.deps:
            objects.pin(oid)
        task.missing += 1  # until the loop has checked all of them
        for _, oid in task.deps:
            record = objects.ensure(oid)
            if record.kind == m.PENDING or (record.kind == m.REMOTE and node_needed(task, record)):
                self.await_argument(task, record)
                if record.remote is not None:
                    self.cluster.want(record)
        task.missing -= 1
        task.template.unready += task.missing > 0

    def await_argument(self, task: Task, record: ObjectRecord) -> None:
        """Make a task wait for one more value."""
        task.state = WAITING
        task.template.unready += not task.missing
        task.missing += 1
        record.waiters.append(task)

    def argument_arrived(self, task: Task) -> None:
        """Handle the arrival of a value that a task waits for."""
        task.missing -= 1
        if not task.missing and task.state != ENDED:
            task.template.unready -= 1
        if not task.missing and task.state == WAITING:
            self.arguments_complete(task)

    def arguments_complete(self, task: Task) -> None:
        """Start or fail a task whose arguments have all arrived or failed."""
        if task.kind == METHOD:
            self.calls.arguments_ready(task)
        else:
            failed = self.objects.failed_argument(task)
            if failed is None:
                self.admit(task)
            elif task.kind == CREATION:
                self.actor_manager.arguments_failed(task, failed)
            else:
                self.fail(task, failed)

    # -- results

    def done(self, cid: int, message: m.Done) -> None:
        """DONE: a worker has finished one task."""
        _, task_id, status, returns, micros, retriable = message
        worker = self._workers.get(cid)
        task = None if worker is None else worker.outstanding.pop(task_id, None)
        if worker is None or task is None:
            return
        made: tuple[Any, ...] = ()
        if status == m.PARTIAL:
            status = m.FAILED
            returns, made = returns
        template = task.template
        kind, attempt = task.kind, task.attempt
        seconds, known = micros * 1e-6, template.seconds
        template.seconds = seconds if known < 0 else known + (seconds - known) * 0.2
        self._finished.append(
            (template.name, task_id, kind, cid, worker.pid, self.clock.now, micros, status, attempt, template,
             task.actor, task.parent, task.since)
        )  # fmt: skip
        if kind == CREATION:
            self._constructed(task, worker, status, returns)
            return
        if kind == METHOD:
            task.left_actor()
        elif template.max_calls:  # first, since the code below may choose a worker
            self._count_call(worker, template)
        again = False
        if status == m.OK:
            if len(returns) == 1 and returns[0][0] != m.ARENA or not self.objects.vanished(task_id, returns):
                self._complete(task, returns)
                template.finished += 1
                if attempt:
                    template.finished_again += 1
            else:
                again = True
                template.made_again += 1
        elif status == m.CANCELLED:
            self.fail(task, cancelled_error(task))
        elif retriable and task.retries != 0 and not task.cancelled:
            task.retries -= task.retries > 0
            again = True
            template.tried_again += 1
        else:
            self.fail(task, returns, made)
        if again:
            self.count_attempt(task)
            task.worker = None
            if task.origin is not None:
                self.cluster.task_retried(task)
        if kind == METHOD:
            if again:
                self.calls.retry(task)
            self.calls.answered(worker)
            return
        if again:
            self.scheduler.requeue(task)
        self.scheduler.finished(worker, task)
        if again:
            self.scheduler.dispatch_all()

    def _constructed(self, task: Task, worker: Worker, status: int, returns: Any) -> None:
        """Count a constructor that has ended, and pass its result on."""
        template = task.template
        template.finished += status == m.OK
        template.finished_again += status == m.OK and task.attempt > 0
        failed = template.failed
        self.actor_manager.constructed(task, worker, status, returns)
        template.tried_again += status != m.OK and template.failed == failed

    def count_attempt(self, task: Task) -> None:
        """Count another attempt at a task in progress."""
        task.attempt += 1
        task.since = self.clock.now
        self.retried[task.task_id] = task

    def _count_call(self, worker: Worker, template: Any) -> None:
        calls = worker.calls[template.function] = worker.calls.get(template.function, 0) + 1
        if calls >= template.max_calls and not worker.leaving:
            worker.leaving = True
            worker.ending = MAX_CALLS
            self.emit(worker.cid, m.Exit(m.EXIT, "max_calls"))

    def _complete(self, task: Task, returns: tuple[Any, ...]) -> None:
        if task.template.streaming:
            self._end_stream(task, task.items)
        elif len(returns) == 1:
            kind, payload, held = returns[0]
            self.give(task, task.task_id + FIRST, kind, payload, held, None)
        elif returns:
            oids = return_ids(task.task_id, len(returns))
            for oid, (kind, payload, held) in zip(oids, returns, strict=True):
                self.give(task, oid, kind, payload, held, None)
        self._remove(task)

    def give(
        self, task: Task, oid: bytes, kind: int, payload: Any, held: tuple[bytes, ...], index: int | None
    ) -> None:
        """Send one result to the calling process, and to the object table if others know of the object."""
        given = task.given
        if given is not None and oid in given:
            return
        if given is not None and oid in task.lost_results:
            lost = self.objects.get(oid)
            if lost is not None and lost.kind == m.PENDING:
                self.objects.refill(oid, kind, payload, held)
            return
        record = self._records.get(oid)
        present = (client := task.client) in self.clients
        kept = 0
        if record is not None:
            if present:
                self.objects.grant(record, client)
            kind, payload = self.objects.result(record, kind, payload, task.origin is not None)
            self.objects.fill(record, kind, payload, held)
            self.objects.drop_if_unused(record)
            kept = 1
        elif held and present:
            for other in held:
                self.objects.grant_any(client, other)
        if present:
            message: m.ResultTuple | m.StreamTuple
            if index is None:
                message = (m.RESULT, oid, kind, payload, held, kept)
            else:
                message = (m.STREAM, task.task_id, index, kind, payload, held, kept)
            self.out.effects.append((client, message))

    def item(self, cid: int, message: m.Item) -> None:
        """ITEM: one more value of a generator."""
        _, task_id, index, kind, payload, held = message
        worker = self._workers.get(cid)
        if worker is None:
            return
        task = worker.outstanding.get(task_id)
        oid = task_id + index.to_bytes(4, "little")
        if task is not None and task.attempt:
            task.run_again = (task.attempt, index)
        if task is not None and index > task.items:
            task.items = index
            self.give(task, oid, kind, payload, held, index)
        elif self.objects.wanted(oid):  # it was lost and has been made again
            self.objects.refill(oid, kind, payload, held)
        elif kind == m.ARENA:  # a second attempt has made it once more
            self._unwritten(cid, oid)

    def _unwritten(self, cid: int, oid: bytes) -> None:
        """Discard a value that a worker has written into the arena and that is no longer needed."""
        record = self.objects.get(oid)
        if record is not None and record.writer == cid:
            record.writer = None
            self.objects.drop_if_unused(record)

    def consumed(self, cid: int, message: m.Consumed) -> None:
        """CONSUMED: the reader of a stream has taken `count` items."""
        _, task_id, count = message
        task = self.tasks.get(task_id)
        if task is not None:
            task.consumed = count
            if task.worker is not None:
                self.emit(task.worker.cid, m.Ack(m.ACK, task_id, count))
            elif task.node is not None:
                self.emit(task.node.cid, message)

    def _end_stream(self, task: Task, count: int) -> None:
        if task.client in self.clients:
            self.emit(task.client, m.StreamEnd(m.STREAM_END, task.task_id, count))
        else:
            self.objects.fail_end_of_stream(task.task_id)

    def fail(self, task: Task, error: ErrorValue, made: tuple[Any, ...] = ()) -> None:
        """End a task with an error in place of its results, except the first ones if those were `made`."""
        self.history.failed(task, error)
        held = error[1].get("held", ())
        if task.template.streaming:
            self.cluster.stream_failed(task, error)
            task.items += 1
            oid = task.task_id + task.items.to_bytes(4, "little")
            self.give(task, oid, m.ERROR, error, held, task.items)
            self._end_stream(task, task.items)
        else:
            for place, oid in enumerate(return_ids(task.task_id, task.template.returns)):
                kind, payload, inside = made[place] if place < len(made) else (m.ERROR, error, held)
                self.give(task, oid, kind, payload, inside, None)
        self.forget(task)

    def forget(self, task: Task) -> None:
        """Remove a task that has ended without success here, and unpin its arguments."""
        task.template.left += task.task_id in self.tasks
        self._remove(task)

    def _remove(self, task: Task) -> None:
        task.state = ENDED
        task.worker = None
        self.tasks.pop(task.task_id, None)
        if self.retried:
            self.retried.pop(task.task_id, None)
        self.cluster.task_ended(task)
        if task.deps or task.held:
            self.drop_arguments(task)

    def drop_arguments(self, task: Task) -> None:
        """Unpin the arguments of a task, and stop waiting for them."""
        objects = self.objects
        if task.missing > 0:
            task.template.unready -= 1
            for _, oid in task.deps:
                record = objects.records[oid]
                if task in record.waiters:
                    record.waiters.remove(task)
        for _, oid in task.deps:
            objects.unpin(oid)
        for oid in task.held:
            objects.unpin(oid)

    # -- the worker's side of scheduling

    def returned(self, cid: int, message: m.Returned) -> None:
        """RETURNED: a worker returns tasks that it has not begun."""
        worker = self._workers.get(cid)
        if worker is None:
            return
        _, task_ids = message
        tasks = [worker.outstanding[i] for i in task_ids if i in worker.outstanding]
        for task in tasks:
            if task.cancelled:  # STOP_TASK and RETURNED crossed on the wire
                del worker.outstanding[task.task_id]
                self.fail(task, cancelled_error(task))
        self.scheduler.returned(worker, tasks)

    def blocked(self, cid: int, message: m.Blocked) -> None:
        """BLOCKED: a task waits in `get`."""
        _, task_id = message
        worker = self._workers.get(cid)
        if worker is not None:
            self.scheduler.blocked(worker, task_id)

    def unblocked(self, cid: int, message: m.Unblocked) -> None:
        """UNBLOCKED: a task resumes after waiting in `get`."""
        _, task_id = message
        worker = self._workers.get(cid)
        if worker is not None:
            self.scheduler.unblocked(worker, task_id)

    # -- cancellation and death

    def cancel(self, cid: int, message: m.Cancel) -> None:
        """CANCEL: cancel a queued or running task, and its children if requested."""
        _, task_id, force, recursive = message
        task = self.tasks.get(task_id)
        if task is None:
            self.cluster.cancel(task_id, message)
        if task is None or task.kind == CREATION:
            return
        # A task that was never sent has started no others.
        if recursive and (task.state == SENT or task.attempt):
            for child in [t for t in self.tasks.values() if t.parent == task_id]:
                self.cancel(cid, m.Cancel(m.CANCEL, child.task_id, force and child.kind == PLAIN, True))
            if task.state == ENDED:  # cancelling its arguments has ended it as well
                return
        task.cancelled = True
        if task.state in (WAITING, QUEUED):
            if task.state == QUEUED and task.kind == PLAIN:
                self.scheduler.dequeue(task)
            elif task.kind == METHOD:
                self.calls.dequeue(task)
            self.fail(task, cancelled_error(task))
            if task.kind == METHOD:
                self.actor_manager.end_if_unwanted(task.actor)
        elif task.state == SENT and task.node is not None:
            self.emit(task.node.cid, message)
        elif task.state == SENT:
            force = force and task.kind == PLAIN
            self.emit(task.worker.cid, m.StopTask(m.STOP_TASK, task_id, force))
            if force:
                task.worker.stalled = True  # the worker will probably exit
                task.worker.ending = FORCED
                self._insist(task, task.worker, task.sequence)

    def _insist(self, task: Task, worker: Worker, sequence: int) -> None:
        """Kill the worker if it still runs the task after a while, unless it has begun another one."""

        def still() -> None:
            if task.worker is worker and task.state == SENT and task.sequence == sequence:
                self.out.shell(EndTask(worker.cid, sequence))
                self._insist(task, worker, sequence)

        self.later(GRACE_SECONDS, still)

    def cancelled(self, task: Task) -> None:
        """Cancel a task."""
        self.fail(task, cancelled_error(task))

    def worker_died(self, worker: Worker, begun: int, reason: str) -> None:
        """Handle a worker's death: retry or fail its running task, run the tasks that it had not begun elsewhere."""
        tasks = list(worker.outstanding.values())
        worker.owed = len(tasks)
        worker.outstanding.clear()
        self.scheduler.remove(worker)
        for task in tasks:
            if task.kind == METHOD:
                task.left_actor()
            task.worker = None
            task.state = QUEUED
        if worker.actor is not None:
            self.actor_manager.worker_died(worker, tasks, begun, reason)
        else:
            for task in reversed(tasks):
                if task.kind == CREATION:
                    self.actor_manager.creation_died(task, worker, reason)
                else:
                    self.retry_policy.task(task, worker, begun, reason)
        self.scheduler.dispatch_all()
        self.cluster.pump()  # other nodes may have room for the tasks queued again


def node_needed(task: Task, record: ObjectRecord) -> bool:
    """Return True if a task must wait for a value on another node, because it is lost or an actor here takes it."""
    if record.remote.place is None:
        return True
    return task.kind == METHOD and (task.actor is None or task.actor.node is None)


def cancelled_error(task: Task) -> ErrorValue:
    """Return the error of a cancelled task's refs."""
    return ("TaskCancelledError", {"task_id": task.task_id, "name": task.template.name})
