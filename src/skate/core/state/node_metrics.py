"""Metrics of a node under Ray's names: tasks, actors, placement groups, resources, memory; and those of its users.

They are counted only on request, so they cost a node nothing otherwise. Tasks that have finished are those that their functions
have counted. The history tells which of them were retries: if more end between two questions than it keeps, the others count as
first attempts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate.core.resource.resources import UNIT
from skate.core.state.inventory import Row, Rows, entries_since, names_of, task_state
from skate.core.state.metric_table import MetricTable, Series, row
from skate.core.task.task import Template
from skate.protocol import messages as m
from skate.protocol.fields import Where
from skate.protocol.states import CREATION, DEAD, PENDING, PLAIN, GroupState
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
        #: How many tasks of each function had finished at the last time, and of what kind the last one was.
        self._finished: dict[bytes, int] = {}
        self._kinds: dict[bytes, int] = {}
        #: The ids of jobs by what templates call them; the program that hosts the node has no name there.
        self._jobs: dict[str, bytes] = {}

    def scan(self, where: Where, detail: bool) -> Rows:
        """Yield one row for each metric, and a None for each task and object that was counted."""
        yield from self._count_ended()
        tasks = dict(self._ended)
        found: dict[tuple[Template, str, bool, int, bytes], int] = {}
        for task_id in list(self._tables.tasks):
            task = self._tables.tasks.get(task_id)
            if task is not None and task.node is None:  # else the other node counts it
                # By a few facts first: their labels take longer than all else.
                key = (task.template, task_state(task), task.attempt > 0, task.kind, _job_of(task_id))
                found[key] = found.get(key, 0) + 1
            yield None
        for (template, state, again, kind, job), count in found.items():
            labels = self._labels(job, kind, again, template, state)
            tasks[labels] = tasks.get(labels, 0.0) + count
        yield _gauge("tasks", "Tasks by function and state.", tasks)
        yield from self._of_tables()
        yield from self._memory()
        yield from self._of_users.rows()

    def _labels(
        self, job: bytes, kind: int, again: bool, template: Template, state: str
    ) -> tuple[tuple[str, str], ...]:
        name, _ = names_of(kind, template)
        if name not in self._names:
            if len(self._names) < NAMES_MAX:
                self._names.add(name)
            else:
                name = OTHER_NAMES
        return (
            ("Name", name), ("State", state), ("IsRetry", str(int(again))), ("JobId", job.hex()), ("Source", "owner")
        )  # fmt: skip

    def _count_ended(self) -> Iterator[None]:
        """Count the tasks that have ended since the last time."""
        history, ended = self._tables.history, self._ended
        finished = entries_since(history.finished, self._last_finished)
        failures = entries_since(history.failures, self._last_failure)
        # Another question may come before all of them are counted.
        self._last_finished = finished[-1:] or self._last_finished
        self._last_failure = failures[-1:] or self._last_failure
        forgotten = self._finished_since()
        for _, task_id, kind, _, _, _, _, status, attempt, template, _, _ in finished:
            if status == m.OK:
                job = _job_of(task_id)
                self._add_finished(job, kind, attempt > 0, template, 1)
                self._kinds[template.key] = kind
                self._jobs[template.job] = job
                if template.key in forgotten:
                    forgotten[template.key] -= 1
            yield None
        for task_id, attempt, kind, template, *_ in failures:
            labels = self._labels(_job_of(task_id), kind, attempt > 0, template, "FAILED")
            ended[labels] = ended.get(labels, 0.0) + 1
            yield None
        for key, count in forgotten.items():
            if count > 0 and key in self._tables.functions.templates:
                template = self._tables.functions.templates[key]
                kind = self._kinds.get(key, CREATION if "class_path" in template.fields else PLAIN)
                self._add_finished(self._jobs.get(template.job, b""), kind, False, template, count)

    def _finished_since(self) -> dict[bytes, int]:
        """Return how many tasks of each function have finished since the last time.

        This and the new part of the history are taken at once, so that each task is in one answer.
        """
        finished = {
            key: template.ended - template.unsuccessful
            for key, template in self._tables.functions.templates.items()
        }
        before, self._finished = self._finished, finished
        # A function that was forgotten and registered again counts from 0.
        return {key: count - min(before.get(key, 0), count) for key, count in finished.items()}

    def _add_finished(self, job: bytes, kind: int, again: bool, template: Template, count: int) -> None:
        labels = self._labels(job, kind, again, template, "FINISHED")
        self._ended[labels] = self._ended.get(labels, 0.0) + count

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


def _job_of(task_id: bytes) -> bytes:
    return task_id[-4:] if len(task_id) == 24 else task_id[12:16]


def _labels(**labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(labels.items())


def _gauge(name: str, description: str, counts: Counts) -> Row:
    series: list[Series] = [(labels, value, (), 0.0) for labels, value in counts.items()]
    return row(name, GAUGE, description, series)
