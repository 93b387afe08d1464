"""Tasks from submission to their results: arguments, retries, cancellation, the end of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.core.object.object_table import ObjectRecord
from skate.core.schedule.feasibility import refusal
from skate.core.schedule.worker_record import Worker
from skate.core.task.task import Task, return_ids
from skate.protocol import messages as m
from skate.protocol.effects import EndTask
from skate.protocol.fields import ErrorValue, LeaseFields
from skate.protocol.states import CREATION, ENDED, METHOD, PLAIN, QUEUED, SENT, WAITING
from skate.protocol.strategies import BundleStrategy

if TYPE_CHECKING:
    from skate.core.node import NodeCore

#: How long a worker may take to leave by itself with a task that is ended by force.
GRACE_SECONDS = 0.5
FIRST = b"\x01\x00\x00\x00"  # index of a task's first result


class TaskManager:
    """Moves the tasks of a node through their states."""

    def __init__(self, node: NodeCore) -> None:
        self.node = node

    # -- in

    def submit(self, cid: int, message: m.Submit) -> None:
        """SUBMIT: a task is born; it runs once its arguments are there and resources are free."""
        _, task_id, key, args, deps, held, parent = message
        task = Task(task_id, PLAIN, cid, self.node.templates[key], args, deps, held, parent)
        self.node.tasks[task_id] = task
        self.enter(task)

    def enter(self, task: Task) -> None:
        """A new task: take its arguments, and let it run if it can."""
        node = self.node
        if task.deps or task.held:
            self.take_arguments(task)
            refused = refusal(node, task)
            if refused is None and not task.missing:
                refused = self.failed_argument(task)
        else:
            refused = refusal(node, task)
        if refused is not None:
            self.fail(task, refused)
        elif not task.missing:
            node.admit(task)

    def take_arguments(self, task: Task) -> None:
        """Pin what the task was given; count the arguments whose values are still to come."""
        objects = self.node.objects
        for oid in task.held:
            objects.pin(oid)
        for _, oid in task.deps:
            objects.pin(oid)
        task.missing += 1  # until all have been looked at
        for _, oid in task.deps:
            record = objects.ensure(oid)
            if record.kind == m.PENDING or (record.kind == m.REMOTE and node_needed(task, record)):
                self.await_argument(task, record)
                if record.away is not None:
                    self.node.remote_objects.want(record)
        task.missing -= 1

    def await_argument(self, task: Task, record: ObjectRecord) -> None:
        """A task waits for one more value."""
        task.state = WAITING
        task.missing += 1
        record.waiters.append(task)

    def argument_arrived(self, task: Task) -> None:
        """One of the values that a task waited for is there."""
        task.missing -= 1
        if not task.missing and task.state == WAITING:
            self.arguments_there(task)

    def arguments_there(self, task: Task) -> None:
        """All values that a task takes are there, or failed."""
        if task.kind == METHOD:
            self.node.actor_manager.arguments_ready(task)
        else:
            failed = self.failed_argument(task)
            if failed is None:
                self.node.admit(task)
            elif task.kind == CREATION:
                self.node.actor_manager.arguments_failed(task, failed)
            else:
                self.fail(task, failed)

    def failed_argument(self, task: Task) -> ErrorValue | None:
        """The error of an argument that could not be computed, or None."""
        for _, oid in task.deps:
            record = self.node.objects.records[oid]
            if record.kind == m.ERROR:
                name, fields = record.payload
                return (name, {**fields, "through": (*fields.get("through", ()), task.template.name)})
        return None

    # -- out to a worker

    def lend(self, worker: Worker, task: Task) -> None:
        """Tell a worker what it runs with from now on."""
        lease = worker.lease
        client = (
            self.node.clients.get(task.client)
            if task.origin is None
            else self.node.task_forwarder.client_of(task)
        )
        lent = (worker.sched_class, lease.gpus, lease.devices, client)
        if lent == worker.lent:
            return
        worker.lent = lent
        fields: LeaseFields = {"resources": lease.request, "gpus": [gpu for gpu, _ in lease.gpus]}
        if lease.devices:
            fields["devices"] = {name: [one for one, _ in held] for name, held in lease.devices.items()}
        strategy = task.template.strategy
        if isinstance(strategy, BundleStrategy):
            fields["group"] = strategy.group_id
            fields["capture"] = strategy.capture
        if client is not None:
            fields["job"] = client.job
            fields["namespace"] = client.namespace
            mine = self.node.clients.get(worker.cid)
            if mine is not None:
                mine.job, mine.namespace = client.job, client.namespace
        self.node.emit(worker.cid, m.Lease(m.LEASE, fields))

    def start(self, task: Task) -> None:
        """Send a task to the worker it was given to."""
        worker = task.worker
        if task.deps:
            failed = self.failed_argument(task) if task.kind != METHOD else None
            if failed is not None:  # it was rebuilt meanwhile, and failed
                task.error = failed
        self.introduce(worker, task.template.key)
        deps = self._values(task, worker.cid) if task.deps else ()
        run: m.RunTuple
        if task.kind == PLAIN:
            run = (m.EXECUTE, task.task_id, task.template.key, task.args, deps, task.attempt)
        elif task.kind == METHOD:
            run = (m.INVOKE, task.task_id, task.template.key, task.args, deps, task.attempt)
        else:
            self.node.actor_manager.construct(task, deps)
            return
        self.node.effects.append((worker.cid, run))
        if task.consumed:  # of an earlier attempt: a generator that waits for its reader must know
            self.node.emit(worker.cid, m.Ack(m.ACK, task.task_id, task.consumed))

    def introduce(self, worker: Worker, key: bytes) -> None:
        """Send a worker the template and the function it does not have yet."""
        if key in worker.known:
            return
        node = self.node
        template = node.templates[key]
        worker.known.add(key)
        if template.function and template.function not in worker.known:
            worker.known.add(template.function)
            node.emit(
                worker.cid,
                m.Function(m.FUNCTION, template.function, node.functions[template.function][0], ()),
            )
        node.emit(worker.cid, m.Template(m.TEMPLATE, key, template.fields))

    def _values(self, task: Task, cid: int) -> tuple[Any, ...]:
        objects = self.node.objects
        values = []
        for place, oid in task.deps:
            record = objects.records[oid]
            if record.kind == m.ARENA:
                self.node.spill_manager.told(record)
                objects.grant(record, cid)
            values.append((place, oid, record.kind, record.payload))
        return tuple(values)

    # -- back

    def done(self, cid: int, message: m.Done) -> None:
        """DONE: a worker answers for one task."""
        _, task_id, status, returns, micros, retriable = message
        node = self.node
        worker = node.scheduler.workers.get(cid)
        task = None if worker is None else worker.outstanding.pop(task_id, None)
        if worker is None or task is None:
            return
        made: tuple[Any, ...] = ()
        if status == m.PARTIAL:
            status = m.FAILED
            returns, made = returns
        template = task.template
        template.ran(micros * 1e-6)
        node.history.append(
            (template.name, task_id, task.kind, cid, worker.pid, node.now, micros, status, task.attempt, template,
             task.actor, task.parent)
        )  # fmt: skip
        if task.kind == CREATION:
            node.actor_manager.constructed(task, worker, status, returns)
            return
        if template.max_calls and task.kind != METHOD:  # first, for what follows may look for a worker
            self._count_call(worker, template)
        again = status == m.FAILED and retriable and task.retries != 0 and not task.cancelled
        if again:
            task.retries -= task.retries > 0
            task.attempt += 1
            task.worker = None
            if task.origin is not None:
                self.node.task_forwarder.tell_retried(task)
        elif status == m.OK:
            self._complete(task, returns)
        elif status == m.CANCELLED:
            self.fail(task, cancelled_error(task))
        else:
            self.fail(task, returns, made)
        if task.kind == METHOD:
            if again:
                node.actor_manager.retry(task)
            node.actor_manager.answered(worker)
            return
        if again:
            node.scheduler.requeue(task)
        node.scheduler.finished(worker, task)
        if again:
            node.scheduler.dispatch_all()

    def _count_call(self, worker: Worker, template: Any) -> None:
        calls = worker.calls[template.function] = worker.calls.get(template.function, 0) + 1
        if calls >= template.max_calls and not worker.leaving:
            worker.leaving = True
            self.node.emit(worker.cid, m.Exit(m.EXIT, "max_calls"))

    def _complete(self, task: Task, returns: tuple[Any, ...]) -> None:
        if task.template.streaming:
            self._end_stream(task, task.items)
        elif len(returns) == 1:
            kind, payload, held = returns[0]
            self.give(task, task.task_id + FIRST, kind, payload, held, None)
        elif returns:
            for oid, (kind, payload, held) in zip(
                return_ids(task.task_id, len(returns)), returns, strict=True
            ):
                self.give(task, oid, kind, payload, held, None)
        self.forget(task)

    def give(
        self, task: Task, oid: bytes, kind: int, payload: Any, held: tuple[bytes, ...], index: int | None
    ) -> None:
        """Hand one result to the process that asked for it, and to the object table if others know of it."""
        if task.given is not None and oid in task.given:
            return
        if task.given is not None and oid in task.told:
            lost = self.node.objects.get(oid)
            if lost is not None and lost.kind == m.PENDING:
                self.refill(oid, kind, payload, held)
            return
        node = self.node
        record = node.objects.records.get(oid)
        client = task.client
        present = client in node.clients
        kept = 0
        if record is not None:
            if present:
                node.objects.grant(record, client)
            node.objects.fill(record, kind, payload, held)
            node.objects.drop_if_unused(record)
            kept = 1
        elif held and present:
            for other in held:
                node.lifetimes.grant(client, other)
        if present:
            message: m.ResultTuple | m.StreamTuple
            if index is None:
                message = (m.RESULT, oid, kind, payload, held, kept)
            else:
                message = (m.STREAM, task.task_id, index, kind, payload, held, kept)
            node.effects.append((client, message))

    def item(self, cid: int, message: m.Item) -> None:
        """ITEM: one more value of a generator."""
        _, task_id, index, kind, payload, held = message
        worker = self.node.scheduler.workers.get(cid)
        if worker is None:
            return
        task = worker.outstanding.get(task_id)
        worker.progress = self.node.now
        oid = task_id + index.to_bytes(4, "little")
        if task is not None and index > task.items:
            task.items = index
            self.give(task, oid, kind, payload, held, index)
        elif self.node.objects.wanted(oid):  # it was lost, and is made again
            self.refill(oid, kind, payload, held)
        elif kind == m.ARENA:  # made once more by a second attempt
            self._unwritten(cid, oid)

    def refill(self, oid: bytes, kind: int, payload: Any, held: tuple[bytes, ...]) -> None:
        """Give an object a value again after the first one was lost; its caller knows of the first."""
        record = self.node.objects.records[oid]
        self.node.objects.fill(record, kind, payload, held)
        self.node.objects.drop_if_unused(record)

    def _unwritten(self, cid: int, oid: bytes) -> None:
        """Discard a value that a worker has written into the arena and that is not needed any more."""
        record = self.node.objects.get(oid)
        if record is not None and record.writer == cid:
            record.writer = None
            self.node.objects.drop_if_unused(record)

    def consumed(self, cid: int, message: m.Consumed) -> None:
        """CONSUMED: the reader of a stream has taken so many items."""
        _, task_id, count = message
        task = self.node.tasks.get(task_id)
        if task is not None:
            task.consumed = count
            if task.worker is not None:
                self.node.emit(task.worker.cid, m.Ack(m.ACK, task_id, count))
            elif task.node is not None:
                self.node.emit(task.node.cid, message)

    def _end_stream(self, task: Task, count: int) -> None:
        if task.client in self.node.clients:
            self.node.emit(task.client, m.StreamEnd(m.STREAM_END, task.task_id, count))

    def fail(self, task: Task, error: ErrorValue, made: tuple[Any, ...] = ()) -> None:
        """End a task with an error in place of its results, but for the first ones if those were `made`."""
        self.node.inventory.failed(task, error)
        held = error[1].get("held", ())
        if task.template.streaming:
            if self.node.peers.active:
                self.node.remote_objects.lineage.unmade(task, error)
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
        """A task has ended: what it was given is unpinned."""
        task.state = ENDED
        task.worker = None
        self.node.tasks.pop(task.task_id, None)
        if self.node.peers.active:
            self.node.task_forwarder.ended(task)
        if task.deps or task.held:
            self.drop_arguments(task)

    def drop_arguments(self, task: Task) -> None:
        """Unpin what a task was given, and wait for it no more."""
        objects = self.node.objects
        if task.missing > 0:
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
        """RETURNED: tasks that the worker has not begun."""
        worker = self.node.scheduler.workers.get(cid)
        if worker is None:
            return
        _, task_ids = message
        tasks = [worker.outstanding[i] for i in task_ids if i in worker.outstanding]
        for task in tasks:
            if task.cancelled:  # the word of it crossed with this one
                del worker.outstanding[task.task_id]
                self.fail(task, cancelled_error(task))
        self.node.scheduler.returned(worker, tasks)

    def blocked(self, cid: int, message: m.Blocked) -> None:
        """BLOCKED: a task waits in get."""
        _, task_id = message
        worker = self.node.scheduler.workers.get(cid)
        if worker is not None:
            self.node.scheduler.blocked(worker, task_id)

    def unblocked(self, cid: int, message: m.Unblocked) -> None:
        """UNBLOCKED: it goes on."""
        _, task_id = message
        worker = self.node.scheduler.workers.get(cid)
        if worker is not None:
            self.node.scheduler.unblocked(worker, task_id)

    # -- cancellation and death

    def cancel(self, cid: int, message: m.Cancel) -> None:
        """CANCEL: end a task, queued or running, and those it started."""
        _, task_id, force, recursive = message
        task = self.node.tasks.get(task_id)
        if task is None and self.node.peers.active:
            self.node.peers.pass_on(task_id, message)
        if task is None or task.kind == CREATION:
            return
        # What was never sent has started nothing.
        if recursive and (task.state == SENT or task.attempt):
            for child in [t for t in self.node.tasks.values() if t.parent == task_id]:
                self.cancel(cid, m.Cancel(m.CANCEL, child.task_id, force and child.kind == PLAIN, True))
            if task.state == ENDED:  # with the children that it waited for
                return
        task.cancelled = True
        if task.state in (WAITING, QUEUED):
            if task.state == QUEUED and task.kind == PLAIN:
                self.node.scheduler.dequeue(task)
            elif task.kind == METHOD:
                self.node.actor_manager.dequeue(task)
            self.fail(task, cancelled_error(task))
            if task.kind == METHOD:
                self.node.actor_manager.end_if_unwanted(task.actor)
        elif task.state == SENT and task.node is not None:
            self.node.emit(task.node.cid, message)
        elif task.state == SENT:
            force = force and task.kind == PLAIN
            self.node.emit(task.worker.cid, m.StopTask(m.STOP_TASK, task_id, force))
            if force:
                task.worker.stalled = True  # it is likely to end
                self._insist(task, task.worker, task.sequence)

    def _insist(self, task: Task, worker: Worker, sequence: int) -> None:
        """End a worker, after a while, that does not end its task as requested; unless it has begun another."""

        def still() -> None:
            if task.worker is worker and task.state == SENT and task.sequence == sequence:
                self.node.shell(EndTask(worker.cid, sequence))
                self._insist(task, worker, sequence)

        self.node.later(GRACE_SECONDS, still)

    def cancelled(self, task: Task) -> None:
        """Cancel a task."""
        self.fail(task, cancelled_error(task))

    def worker_died(self, worker: Worker, begun: int, reason: str) -> None:
        """Handle a worker's death: its running task is retried or fails, tasks it had not begun run elsewhere."""
        node = self.node
        tasks = list(worker.outstanding.values())
        worker.owed = len(tasks)
        worker.outstanding.clear()
        node.scheduler.remove(worker)
        for task in tasks:
            task.worker = None
            task.state = QUEUED
        if worker.actor is not None:
            node.actor_manager.worker_died(worker, tasks, begun, reason)
        else:
            for task in reversed(tasks):
                if task.kind == CREATION:
                    node.actor_manager.creation_died(task, worker, reason)
                else:
                    node.retry_policy.task(task, worker, begun, reason)
        node.scheduler.dispatch_all()
        if node.peers.active:  # what is queued again may have room elsewhere
            node.peers.pump()


def node_needed(task: Task, record: ObjectRecord) -> bool:
    """True if a value on another node must be available before the task can be sent: it is lost, or an actor here
    takes it.
    """
    if record.away.place is None:
        return True
    return task.kind == METHOD and (task.actor is None or task.actor.node is None)


def cancelled_error(task: Task) -> ErrorValue:
    """The error of a cancelled task's refs."""
    return ("TaskCancelledError", {"task_id": task.task_id, "name": task.template.name})
