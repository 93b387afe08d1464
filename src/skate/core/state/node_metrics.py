"""Metrics of a node under Ray's names: tasks, actors, placement groups, resources, memory; and those of its users.

They are made only on request, from numbers that the tables keep, so that an answer takes about as long with a million queued
tasks as with none. A function that has been dropped leaves its numbers of ended tasks here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from skate.core.ids import job_of
from skate.core.resource.resources import UNIT
from skate.core.schedule.worker_history import NAMES_MAX, OTHER_NAMES
from skate.core.state import task_counts
from skate.core.state.attempt_counts import AttemptCounts
from skate.core.state.inventory import Row, Rows, names_of
from skate.core.state.metric_table import MetricTable, Series, row
from skate.core.task.task import Template
from skate.protocol.fields import Where
from skate.protocol.states import CREATION, DEAD, PENDING, PLAIN, GroupState
from skate.protocol.values import COUNTER, GAUGE

if TYPE_CHECKING:
    from skate.core.node_tables import NodeTables

#: States in which a worker runs a task.
RUNNING = frozenset({"RUNNING", "RUNNING_IN_RAY_GET"})
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
        #: The ended tasks of functions that have been dropped.
        self._ended: Counts = {}
        self._names: set[str] = set()
        #: The job of the program that hosts the node, whose templates do not name it.
        self._own_job = ""
        #: Of the attempts at tasks, which summaries show.
        self.attempts = AttemptCounts(tables)
        tables.functions.dropped = self._keep

    def scan(self, where: Where, detail: bool) -> Rows:
        """Yield one row for each metric."""
        yield _gauge("tasks", "Tasks by function and state.", self._count_tasks())
        yield from self._of_tables()
        yield from self._memory()
        yield from self._of_users.rows()

    def _count_tasks(self) -> Counts:
        """Count the tasks in progress here, and those that have ended here since the start."""
        found = dict(self._ended)
        for template in self._tables.functions.templates.values():
            self._add_ended(found, template)
        for (template, state, again), number in task_counts.count(self._tables).items():
            self._add(found, template, again, state, number)
        return found

    def _keep(self, template: Template) -> None:
        """Keep the numbers of a function that is dropped."""
        self._add_ended(self._ended, template)
        self.attempts.keep(template)

    def _add_ended(self, found: Counts, template: Template) -> None:
        for state, number, again in (
            ("FINISHED", template.finished, template.finished_again),
            ("FAILED", template.failed, template.failed_again),
        ):
            if number > again:
                self._add(found, template, False, state, number - again)
            if again:
                self._add(found, template, True, state, again)

    def _add(self, found: Counts, template: Template, again: bool, state: str, number: int) -> None:
        name, _ = names_of(CREATION if template.constructs else PLAIN, template)
        if name not in self._names:
            if len(self._names) < NAMES_MAX:
                self._names.add(name)
            else:
                name = OTHER_NAMES
        job = template.job or self._own_job or self._find_own_job()
        labels = (
            ("Name", name),
            ("State", state),
            ("IsRetry", str(int(again))),
            ("JobId", job),
            ("Source", "executor" if state in RUNNING else "owner"),
        )
        found[labels] = found.get(labels, 0.0) + number

    def _find_own_job(self) -> str:
        """Return the job of the program that hosts the node, as its tasks have it in their ids."""
        tables = self._tables
        ids = [
            *islice(tables.tasks, 1),
            *(entry[1] for entry in islice(tables.history.finished, 1)),
            *(entry[0] for entry in tables.history.failures[:1]),
        ]
        self._own_job = job_of(ids[0]).hex() if ids else ""
        return self._own_job

    def _of_tables(self) -> Iterator[Row]:
        tables = self._tables
        yield _gauge("actors", "Actors by class and state.", self._actors())
        if tables.members.head is tables.members.here:
            groups: Counts = {_labels(State=state.value, Source="gcs"): 0.0 for state in GROUP_STATES}
            for group in tables.placement.groups.values():
                groups[_labels(State=group.state.value, Source="gcs")] += 1
            yield _gauge("placement_groups", "Placement groups by state.", groups)
            yield _gauge("autoscaler_active_nodes", "Nodes that are part of the cluster.", self._nodes())
            total = {_labels(resource=name): units / UNIT for name, units in self._total().items()}
            yield _gauge("autoscaler_cluster_resources", "Resources of the cluster.", total)
        yield _gauge("resources", "Resources of the node, used and available.", self._resources())
        workers = sum(bool(worker.pid) for worker in tables.scheduler.workers.values())
        yield _gauge("internal_num_processes_started", "Worker processes.", {(): float(workers)})
        left_out: list[Series] = [((), float(self._of_users.left_out), (), 0.0)]
        yield row(
            "skate_metrics_left_out", COUNTER, "Reported series that were invalid or too many.", left_out
        )

        ended = tables.ended_workers
        for name, description, lost in (
            ("node_manager_unexpected_worker_failure", "Workers that have ended unexpectedly.", ended.lost),
            ("memory_manager_worker_eviction", "Workers ended because memory was short.", ended.evicted),
        ):
            series: list[Series] = [
                (_labels(Type=kind, Name=work), float(number), (), 0.0)
                for (kind, work), number in lost.items()
            ]
            yield row(name, COUNTER, description, series)

    def _nodes(self) -> Counts:
        members = self._tables.members
        counts: Counts = {_labels(NodeType="head"): 1.0}
        if members.alive:
            counts[_labels(NodeType="worker")] = float(len(members.alive))
        return counts

    def _total(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for each in self._tables.members.totals():
            for name, units in each.items():
                total[name] = total.get(name, 0) + units
        return total

    def _actors(self) -> Counts:
        """Count the actors as the head of a cluster knows them, and those that are alive as their workers do."""
        counts: Counts = {}
        for actor in self._tables.actors.actors.values():
            state = actor.state.public
            if actor.state == PENDING and actor.creation.missing > 0:
                state = "DEPENDENCIES_UNREADY"
            elif actor.worker is not None and actor.state not in (PENDING, DEAD):
                state = "ALIVE_RUNNING_TASKS" if actor.worker.outstanding else "ALIVE_IDLE"
            job = actor.actor_id[12:16].hex()
            known = "ALIVE" if state.startswith("ALIVE") else state
            for source, shown in (("gcs", known), ("executor", state)):
                labels = _labels(Name=actor.class_name, State=shown, JobId=job, Source=source)
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
        inline = self._tables.objects.inline_bytes
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
