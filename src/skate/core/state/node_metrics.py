"""Metrics of a node under Ray's names: tasks, actors, placement groups, resources, memory; and those of its users.

They are counted only on request, so they cost a node nothing otherwise. Tasks that have ended are counted by what the history
has of them: if more end between two questions than it keeps, the oldest of these are missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate.core.resource.resources import UNIT
from skate.core.state.inventory import Row, Rows, entries_since, names_of, task_state
from skate.core.state.metric_table import MetricTable, Series, row
from skate.core.task.task import Task, Template
from skate.protocol import messages as m
from skate.protocol.fields import Where
from skate.protocol.states import DEAD, PENDING, GroupState
from skate.protocol.values import COUNTER, GAUGE

if TYPE_CHECKING:
    from skate.core.node_tables import NodeTables

#: The most names of functions in one metric; further ones are counted under OTHER_NAMES.
NAMES_MAX = 1_000
OTHER_NAMES = "(other)"
#: Values of a series, by their labels.
Counts = dict[tuple[tuple[str, str], ...], float]
GROUP_STATES = (
    GroupState.PENDING,
    GroupState.CREATED,
    GroupState.REMOVED,
    GroupState.INFEASIBLE,
    GroupState.RESCHEDULING,
)


class NodeMetrics:
    """Makes the rows of kind "metrics"."""

    def __init__(self, tables: NodeTables, of_users: MetricTable) -> None:
        self._tables = tables
        self._of_users = of_users
        self._ended: Counts = {}
        self._names: set[str] = set()
        #: The last entries of the history that are counted.
        self._last_finished: list[Any] = []
        self._last_failure: list[Any] = []

    def scan(self, where: Where, detail: bool) -> Rows:
        """Yield one row for each metric, and a None for each task and object that was counted."""
        yield from self._count_ended()
        tasks = dict(self._ended)
        for task_id in list(self._tables.tasks):
            task = self._tables.tasks.get(task_id)
            if task is not None and task.node is None:  # else the other node counts it
                self._count(tasks, task, task_state(task))
            yield None
        yield _gauge("tasks", "Tasks by function and state.", tasks)
        yield from self._of_tables()
        yield from self._memory()
        yield from self._of_users.rows()

    def _count(self, counts: Counts, task: Task, state: str) -> None:
        labels = self._labels(task.task_id, task.kind, task.attempt, task.template, state)
        counts[labels] = counts.get(labels, 0.0) + 1

    def _labels(
        self, task_id: bytes, kind: int, attempt: int, template: Template, state: str
    ) -> tuple[tuple[str, str], ...]:
        name, _ = names_of(kind, template)
        if name not in self._names:
            if len(self._names) < NAMES_MAX:
                self._names.add(name)
            else:
                name = OTHER_NAMES
        job = task_id[-4:] if len(task_id) == 24 else task_id[12:16]
        return (
            ("Name", name), ("State", state), ("IsRetry", str(int(attempt > 0))), ("JobId", job.hex()), ("Source", "owner")
        )  # fmt: skip

    def _count_ended(self) -> Iterator[None]:
        """Count the tasks that have ended since the last time."""
        history, ended = self._tables.history, self._ended
        finished = entries_since(history.finished, self._last_finished)
        failures = entries_since(history.failures, self._last_failure)
        # Another question may come before all of them are counted.
        self._last_finished = finished[-1:] or self._last_finished
        self._last_failure = failures[-1:] or self._last_failure
        for _, task_id, kind, _, _, _, _, status, attempt, template, _, _ in finished:
            if status == m.OK:
                labels = self._labels(task_id, kind, attempt, template, "FINISHED")
                ended[labels] = ended.get(labels, 0.0) + 1
            yield None
        for task_id, attempt, kind, template, *_ in failures:
            labels = self._labels(task_id, kind, attempt, template, "FAILED")
            ended[labels] = ended.get(labels, 0.0) + 1
            yield None

    def _of_tables(self) -> Iterator[Row]:
        tables = self._tables
        yield _gauge("actors", "Actors by class and state.", self._actors())
        if tables.members.head is tables.members.here:
            groups: Counts = {_labels(State=state.value, Source="gcs"): 0.0 for state in GROUP_STATES}
            for group in tables.placement.groups.values():
                groups[_labels(State=group.state.value, Source="gcs")] += 1
            yield _gauge("placement_groups", "Placement groups by state.", groups)
        yield _gauge("resources", "Resources of the node, used and available.", self._resources())
        workers = sum(bool(worker.pid) for worker in tables.scheduler.workers.values())
        yield _gauge("internal_num_processes_started", "Worker processes.", {(): float(workers)})
        left_out: list[Series] = [((), float(self._of_users.left_out), (), 0.0)]
        yield row(
            "skate_metrics_left_out", COUNTER, "Reported series that were invalid or too many.", left_out
        )

    def _actors(self) -> Counts:
        counts: Counts = {}
        for actor in self._tables.actors.actors.values():
            state = actor.state.public
            if actor.state == PENDING and actor.creation.missing > 0:
                state = "DEPENDENCIES_UNREADY"
            elif actor.worker is not None and actor.state not in (PENDING, DEAD):
                state = "ALIVE_RUNNING_TASKS" if actor.worker.outstanding else "ALIVE_IDLE"
            job = actor.actor_id[12:16].hex()
            labels = _labels(Name=actor.class_name, State=state, JobId=job, Source="executor")
            counts[labels] = counts.get(labels, 0.0) + 1
        return counts

    def _resources(self) -> Counts:
        here = self._tables.members.here
        counts: Counts = {}
        for name, total in here.total.items():
            free = here.available.get(name, 0)
            counts[_labels(Name=name, State="AVAILABLE")] = free / UNIT
            counts[_labels(Name=name, State="USED")] = (total - free) / UNIT
        return counts

    def _memory(self) -> Rows:
        plan, records = self._tables.disk.allocator, self._tables.objects.records
        inline = 0
        for oid in list(records):
            record = records.get(oid)
            if record is not None and record.kind == m.INLINE:
                inline += len(record.payload)
            yield None
        used = float(plan.arena.used)
        counts = {
            _labels(Location="MMAP_SHM", ObjectState="SEALED"): used,
            _labels(Location="SPILLED", ObjectState=""): float(plan.used - plan.arena.used),
            _labels(Location="WORKER_HEAP", ObjectState=""): float(inline),
        }
        yield _gauge("object_store_memory", "Bytes of values, by where they are.", counts)
        yield _gauge("object_store_used_memory", "Bytes of values in shared memory.", {(): used})
        available = float(plan.arena.capacity) - used
        yield _gauge("object_store_available_memory", "Free bytes of shared memory.", {(): available})
        yield _gauge(
            "object_store_num_local_objects", "Values that the node knows.", {(): float(len(records))}
        )


def _labels(**labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(labels.items())


def _gauge(name: str, description: str, counts: Counts) -> Row:
    series: list[Series] = [(labels, value, (), 0.0) for labels, value in counts.items()]
    return row(name, GAUGE, description, series)
