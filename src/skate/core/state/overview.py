"""An overview of a node for whoever watches it: what runs, what waits and why, who holds resources, what has ended since.

Its cost does not grow with the number of queued tasks, so it may be asked for each second: it reads numbers that the tables keep,
the workers, and the tasks that have ended since the last question. Reasons are those of the oldest and the newest tasks of each
function and state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from skate.core.diagnosis.deadlock import held_units
from skate.core.state import task_counts
from skate.core.state.argument_graph import ArgumentGraph
from skate.core.state.inventory import Inventory, Rows, names_of, task_state
from skate.core.task.task import Task, Template
from skate.protocol.fields import Where
from skate.protocol.states import ALIVE, CREATION, DEAD, METHOD, PLAIN, SENT, WAITING, GroupState

if TYPE_CHECKING:
    from skate.core.diagnosis.wait_explainer import WaitExplainer
    from skate.core.node_tables import NodeTables

#: How many of the oldest and of the newest tasks are looked at for reasons.
LOOKED_AT = 500
#: The most rows of an answer.
WAITS_MAX, WORKERS_MAX, HOLDERS_MAX = 100, 500, 50
#: The most ended and failed tasks of an answer. Of more, every second, third, ... is left.
ENDED_MAX, FAILED_MAX = 2_000, 200
#: How far a chain of waiting tasks is followed.
CHAIN_MAX = 12
#: The condition with the times up to which ended tasks are known, by node: "node=seconds,node=seconds".
CURSOR = "cursor"
UNPLACED = frozenset({GroupState.PENDING, GroupState.RESCHEDULING, GroupState.INFEASIBLE})
RUNNING = frozenset({"RUNNING", "RUNNING_IN_RAY_GET"})


class Overview:
    """Makes the rows of the kinds "overview", "ended" and "failed"."""

    def __init__(self, tables: NodeTables, explainer: WaitExplainer) -> None:
        self._tables = tables
        self._explainer = explainer

    def join(self, inventory: Inventory) -> None:
        """Add the rows to those that an inventory makes."""
        inventory.add("overview", self.scan)
        inventory.add("ended", self.ended)
        inventory.add("failed", self.failed)
        inventory.add("chain", self.chain)
        inventory.add("arguments", ArgumentGraph(self._tables, self._explainer).scan)

    def scan(self, where: Where, detail: bool) -> Rows:
        """Yield one row: waits, workers, holders of resources, memory, and the number of objects."""
        tables = self._tables
        plan = tables.disk.allocator
        yield {
            "waits": self._waits(),
            "workers": self._workers(),
            "holders": self._holders(),
            "total": dict(tables.members.here.total),
            "free": dict(tables.scheduler.capacity.available),
            "arena": (plan.arena.used, plan.arena.capacity),
            "spilled": plan.used - plan.arena.used,
            "inline": tables.objects.inline_bytes,
            "objects": len(tables.objects.records),
            "actors": len(tables.actors.actors),
        }

    # -- what waits

    def _waits(self) -> list[tuple[str, str, int, str, bytes]]:
        """Return the tasks that have not begun: name, state, number, the reason of one of them, and its id."""
        examples = self._examples()
        found: dict[tuple[str, str], tuple[int, Task | None]] = {}
        for (template, state, _), number in task_counts.count(self._tables).items():
            if state in RUNNING or number <= 0:
                continue
            name, _ = names_of(CREATION if template.constructs else PLAIN, template)
            known, example = found.get((name, state), (0, None))
            found[name, state] = (known + number, example or examples.get((template, state)))
        most = sorted(found.items(), key=lambda each: -each[1][0])[:WAITS_MAX]
        rows = [
            (name, state, number, "", b"")
            if task is None
            else (name, state, number, self._explainer.of_task(task), task.task_id)
            for (name, state), (number, task) in most
        ]
        for group in islice(self._tables.placement.groups.values(), WAITS_MAX):
            if group.state in UNPLACED:
                name = f"placement group {group.name or group.group_id.hex()[:8]}"
                rows.append((name, "PENDING", 1, self._explainer.of_group(group), group.group_id))
        return rows

    def _examples(self) -> dict[tuple[Template, str], Task]:
        """Return a task of each function and state, as far as the oldest and the newest tasks have one."""
        tasks = self._tables.tasks
        found: dict[tuple[Template, str], Task] = {}
        for task_id in (*islice(tasks, LOOKED_AT), *islice(reversed(tasks), LOOKED_AT)):
            task = tasks[task_id]
            found.setdefault((task.template, task_state(task)), task)
        for actor in islice(self._tables.actors.actors.values(), LOOKED_AT):
            task = actor.creation
            if actor.state != DEAD and task.task_id in tasks:
                found.setdefault((task.template, task_state(task)), task)
        return found

    # -- what runs

    def _workers(self) -> list[tuple[int, int, str, str, bytes, float, int]]:
        """Return the workers: number, pid, actor, what runs, its id, for how many seconds, and how many tasks they have."""
        now = self._tables.clock.now
        found = []
        for worker in islice(self._tables.scheduler.workers.values(), WORKERS_MAX):
            task = next(iter(worker.outstanding.values()), None)
            name = "" if task is None else names_of(task.kind, task.template)[0]
            found.append(
                (
                    worker.cid,
                    worker.pid,
                    "" if worker.actor is None else worker.actor.describe(),
                    name,
                    b"" if task is None else task.task_id,
                    max(0.0, now - worker.progress) if task is not None and worker.progress else 0.0,
                    len(worker.outstanding),
                )
            )
        return found

    def _holders(self) -> list[tuple[str, str, int, int]]:
        """Return who holds resources: the resource, the function, actor or placement group, its number, and the units."""
        capacity = self._tables.scheduler.capacity
        names = [name for name in capacity.total if not name.startswith("node:")]
        found: dict[tuple[str, str], tuple[int, int]] = {}

        def add(name: str, who: str, units: int) -> None:
            number, held = found.get((name, who), (0, 0))
            found[name, who] = (number + 1, held + units)

        for worker in self._tables.scheduler.workers.values():
            lease = worker.lease
            if lease is None or lease.capacity is not capacity:
                continue
            who = _who(worker)
            for name in names:
                units = held_units(lease, name)
                if units:
                    add(name, who, units)
        for group in self._tables.placement.groups.values():
            for _, lease in group.leases.values():
                if lease.capacity is capacity:
                    for name, units in lease.request.items():
                        if units and name in names:
                            add(name, f"placement group {group.name or group.group_id.hex()[:8]}", units)
        most = sorted(found.items(), key=lambda each: -each[1][1])[:HOLDERS_MAX]
        return [(name, who, number, units) for (name, who), (number, units) in most]

    # -- what has ended

    def ended(self, where: Where, detail: bool) -> Rows:
        """Yield the tasks that have ended since the cursor, oldest first: a count, then each task or a sample of them."""
        entries = self._tables.history.finished
        since = self._since(where)
        found = list(takewhile(lambda entry: entry[5] > since, reversed(entries)))
        step = max(1, -(-len(found) // ENDED_MAX))
        yield {"count": len(found), "step": step, "whole": len(found) < len(entries)}
        for entry in reversed(found[::step]):
            name, task_id, kind, cid, pid, at, micros, status, attempt, template, _, _, asked = entry
            if kind == CREATION:
                name = names_of(kind, template)[0]
            yield {"entry": (name, task_id, cid, pid, at, micros, status, attempt, asked)}

    def failed(self, where: Where, detail: bool) -> Rows:
        """Yield the last failures since the cursor, oldest first."""
        since = self._since(where)
        recent = takewhile(lambda entry: entry[6] > since, reversed(self._tables.history.failures))
        for entry in reversed(list(islice(recent, FAILED_MAX))):
            task_id, attempt, kind, template, _, _, at, error, text, _ = entry
            yield {"entry": (names_of(kind, template)[0], task_id, attempt, at, error, text)}

    def chain(self, where: Where, detail: bool) -> Rows:
        """Yield the task of the condition "task" and, one after another, the task that the one before waits for."""
        tasks = self._tables.tasks
        wanted = where.get("task")
        seen: set[bytes] = set()
        while isinstance(wanted, bytes) and wanted not in seen and len(seen) < CHAIN_MAX:
            task = tasks.get(wanted)
            if task is None:
                return
            seen.add(wanted)
            yield {
                "task": wanted,
                "name": names_of(task.kind, task.template)[0],
                "state": task_state(task),
                "why": self._explainer.of_task(task, 0),
            }
            wanted = self._cause(task)

    def _cause(self, task: Task) -> bytes | None:
        """Return the id of a task that another one waits for: it makes an argument, or is before it at its worker or actor."""
        if task.missing:
            tasks = self._tables.tasks
            return next((oid[:24] for _, oid in task.deps if oid[:24] in tasks), None)
        actor = task.actor
        if task.kind == METHOD and task.state == WAITING and actor is not None:
            if actor.state != ALIVE:
                return bytes(actor.actor_id)
            lane = actor.lanes.get(actor.lane_of(task))
            return lane[0].task_id if lane and lane[0] is not task else None
        worker = task.worker
        if task.state != SENT or worker is None:
            return None
        if task.task_id in worker.blocked:
            return self._awaited(worker.cid, task.task_id)
        first = next(iter(worker.outstanding.values()), task)
        return None if first is task or (actor is not None and not actor.in_order) else first.task_id

    def _awaited(self, cid: int, task_id: bytes) -> bytes | None:
        """Return the task whose value a running task waits for."""
        for wait in self._explainer.waits.get(cid, {}).values():
            if wait.task_id == task_id:
                return next((oid[:24] for oid in wait.ids if oid[:24] in self._tables.tasks), None)
        return None

    def _since(self, where: Where) -> float:
        """Return the time up to which the asker knows the ended tasks of this node; negative if it knows none."""
        here = self._tables.members.here.node_id.hex()
        for node, seconds in _pairs(where.get(CURSOR)):
            if node == here:
                return seconds
        return -1.0

    def __repr__(self) -> str:
        return f"<Overview of {self._tables.members.here.node_id.hex()[:8]}>"


def _who(worker: Any) -> str:
    if worker.actor is not None:
        return f"actor {worker.actor.describe()}"
    return next((task.template.name for task in worker.outstanding.values()), "a worker")


def _pairs(text: bytes | str | None) -> Iterator[tuple[str, float]]:
    for part in text.split(",") if isinstance(text, str) else ():
        node, _, seconds = part.partition("=")
        try:
            yield node, float(seconds)
        except ValueError:  # the cursor of another program
            continue
