"""Sending of tasks to workers: the definitions that a worker needs first, then the message that starts the task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from skate.core.client import Client
from skate.core.object.object_table import ObjectTable
from skate.core.outbox import Outbox
from skate.core.schedule.worker_record import Worker
from skate.core.task.function_table import FunctionTable
from skate.core.task.task import Task
from skate.protocol import messages as m
from skate.protocol.fields import LeaseFields
from skate.protocol.states import METHOD, PLAIN
from skate.protocol.strategies import BundleStrategy


class Cluster(Protocol):
    """The operations on other nodes that this module needs."""

    def client_of(self, task: Task) -> Client | None:
        """Return the program of a task that another node has forwarded here."""


class TaskStarter:
    """Sends tasks to the workers chosen for them."""

    def __init__(self, clients: dict[int, Client], cluster: Cluster, out: Outbox) -> None:
        self.clients = clients
        self.cluster = cluster
        self.out = out
        self.emit = out.emit
        self.objects: ObjectTable
        self.construct: Callable[[Task, tuple[Any, ...]], None]

    def connect(
        self,
        objects: ObjectTable,
        functions: FunctionTable,
        construct: Callable[[Task, tuple[Any, ...]], None],
    ) -> None:
        """Set the tables of objects and functions, and the callback that sends a constructor to a worker."""
        self.objects = objects
        self.functions, self.templates = functions.functions, functions.templates
        self.construct = construct

    def lend(self, worker: Worker, task: Task) -> None:
        """Send a worker its new lease, if it has changed."""
        lease = worker.lease
        client = self.clients.get(task.client) if task.origin is None else self.cluster.client_of(task)
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
            mine = self.clients.get(worker.cid)
            if mine is not None:
                mine.job, mine.namespace = client.job, client.namespace
        self.emit(worker.cid, m.Lease(m.LEASE, fields))

    def start(self, task: Task) -> None:
        """Send a task to its worker."""
        worker = task.worker
        if task.deps:
            failed = self.objects.failed_argument(task) if task.kind != METHOD else None
            if failed is not None:  # it was reconstructed meanwhile, and failed
                task.error = failed
        key = task.template.key
        if key not in worker.known:
            self.introduce(worker, key)
        deps = self._values(task, worker.cid) if task.deps else ()
        run: m.RunTuple
        if task.kind == PLAIN:
            run = (m.EXECUTE, task.task_id, key, task.args, deps, task.attempt)
        elif task.kind == METHOD:
            run = (m.INVOKE, task.task_id, key, task.args, deps, task.attempt)
        else:
            self.construct(task, deps)
            return
        self.out.effects.append((worker.cid, run))
        if task.consumed:  # read from an earlier attempt: a generator with backpressure must know
            self.emit(worker.cid, m.Ack(m.ACK, task.task_id, task.consumed))

    def introduce(self, worker: Worker, key: bytes) -> None:
        """Send a worker a template that it does not have yet, and its function."""
        template = self.templates[key]
        worker.known.add(key)
        if template.function and template.function not in worker.known:
            worker.known.add(template.function)
            self.emit(
                worker.cid,
                m.Function(m.FUNCTION, template.function, self.functions[template.function][0], ()),
            )
        self.emit(worker.cid, m.Template(m.TEMPLATE, key, template.fields))

    def _values(self, task: Task, cid: int) -> tuple[Any, ...]:
        objects = self.objects
        values = []
        for place, oid in task.deps:
            record = objects.records[oid]
            if record.kind == m.ARENA:
                objects.lend(record, cid)
            values.append((place, oid, record.kind, record.payload))
        return tuple(values)
