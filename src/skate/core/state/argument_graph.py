"""The graph of a task's arguments: what each of them waits for, and who waits for the task's values.

A walk from the task in both directions, nearest first, up to a number of entries. An entry is a task in progress, a value that
nobody computes any more, or a process whose own code waits. Edges lead from who waits to what it waits for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from skate.core.state.inventory import Rows, names_of, task_state
from skate.core.task.task import Task, return_ids
from skate.protocol.fields import Where
from skate.protocol.messages import ARENA, ERROR, INLINE, PENDING, REMOTE, SPILLED

if TYPE_CHECKING:
    from skate.core.diagnosis.wait_explainer import WaitExplainer
    from skate.core.node_tables import NodeTables
    from skate.core.object.object_table import ObjectRecord

#: The most entries of an answer, those of them that one task brings, and how many of its arguments or users are looked at.
ENTRIES_MAX, EACH_MAX, LOOKED_AT = 80, 12, 2_000
TASK, VALUE, PROCESS = "task", "value", "process"
#: How an edge holds: as an argument of a task, or in a `get` or `wait` of a running one.
ARGUMENT, GET = "argument", "get"
PLACES = {
    PENDING: "pending",
    INLINE: "inline",
    ARENA: "memory",
    SPILLED: "disk",
    REMOTE: "elsewhere",
    ERROR: "error",
}
#: An edge: the kind and id of who waits, those of what it waits for, how, and if that is there already.
_Edge = tuple[str, bytes, str, bytes, str, bool]


class ArgumentGraph:
    """Makes the rows of the kind "arguments"."""

    def __init__(self, tables: NodeTables, explainer: WaitExplainer) -> None:
        self._tables = tables
        self._explainer = explainer

    def scan(self, where: Where, detail: bool) -> Rows:
        """Yield one row for each entry of the graph around the task of the condition "task", and one for each edge."""
        wanted = where.get("task")
        task = self._tables.tasks.get(wanted) if isinstance(wanted, bytes) else None
        if task is None:
            return
        entries: dict[tuple[str, bytes], dict[str, Any]] = {}
        edges: dict[_Edge, None] = {}
        getters = self._getters()
        for step, direction in ((self._needed, -1), (lambda each: self._users(each, getters), 1)):
            ahead = deque([(task, 0)])
            seen = {task.task_id}
            self._add(entries, TASK, task.task_id, 0)
            while ahead:
                here, depth = ahead.popleft()
                for count, edge in enumerate(step(here)):
                    far = edge[2:4] if direction < 0 else edge[:2]
                    if far not in entries and (count >= EACH_MAX or len(entries) >= ENTRIES_MAX):
                        entries[TASK, here.task_id]["more"] += 1
                        continue
                    edges[edge] = None
                    self._add(entries, *far, depth + direction)
                    next_one = self._tables.tasks.get(far[1]) if far[0] == TASK else None
                    if next_one is not None and far[1] not in seen:
                        seen.add(far[1])
                        ahead.append((next_one, depth + direction))
        self._name_values(entries)
        yield from entries.values()
        for kind, one, other_kind, other, how, is_there in edges:
            yield {
                "from": one,
                "from_kind": kind,
                "to": other,
                "to_kind": other_kind,
                "how": how,
                "there": is_there,
            }

    def _add(
        self, entries: dict[tuple[str, bytes], dict[str, Any]], kind: str, id: bytes, depth: int
    ) -> None:
        """Add an entry, if it is new."""
        if (kind, id) in entries:
            return
        row: dict[str, Any] = {
            "id": id,
            "kind": kind,
            "depth": depth,
            "more": 0,
            "name": "",
            "state": "",
            "why": "",
        }
        if kind == TASK:
            task = self._tables.tasks[id]
            row["name"] = names_of(task.kind, task.template)[0]
            row["state"] = task_state(task)
            row["why"] = self._explainer.of_task(task, 0)
        elif kind == VALUE:
            record = self._tables.objects.records.get(id)
            row["state"] = "pending" if record is None else PLACES.get(record.kind, "")
            row["size"] = 0 if record is None else record.size
            row["why"] = self._explainer.of_object(id, 0)
        entries[kind, id] = row

    def _name_values(self, entries: dict[tuple[str, bytes], dict[str, Any]]) -> None:
        """Name values by the tasks that have made them, as far as the node remembers these."""
        unnamed = {id[:24]: row for (kind, id), row in entries.items() if kind == VALUE}
        if not unnamed:
            return
        for name, task_id, *_ in self._tables.history.finished:
            row = unnamed.get(task_id)
            if row is not None:
                row["name"] = name

    # -- in the direction of what a task needs

    def _needed(self, task: Task) -> Iterator[_Edge]:
        """Yield the edges to what a task waits for: first the arguments that are not there, then the others, then its `get`."""
        records = self._tables.objects.records
        ids = dict.fromkeys(oid for _, oid in islice(task.deps, LOOKED_AT))
        missing = [oid for oid in ids if not _is_there(records.get(oid))]
        for oid in missing:
            yield self._edge_to(task, oid, ARGUMENT, False)
        worker = task.worker
        if worker is not None and task.task_id in getattr(worker, "blocked", ()):
            for wait in self._explainer.waits.get(worker.cid, {}).values():
                if wait.task_id == task.task_id:
                    for oid in islice(wait.ids, LOOKED_AT):
                        if not _is_there(records.get(oid)):
                            yield self._edge_to(task, oid, GET, False)
        for oid in ids:
            if _is_there(records.get(oid)):
                yield (TASK, task.task_id, VALUE, oid, ARGUMENT, True)

    def _edge_to(self, task: Task, oid: bytes, how: str, is_there: bool) -> _Edge:
        """Return the edge to a value: to the task that computes it, if one does."""
        maker = oid[:24]
        if maker in self._tables.tasks:
            return (TASK, task.task_id, TASK, maker, how, is_there)
        return (TASK, task.task_id, VALUE, oid, how, is_there)

    # -- in the direction of who needs it

    def _users(self, task: Task, getters: dict[bytes, list[_Edge]]) -> Iterator[_Edge]:
        """Yield the edges from those that wait for the values of a task."""
        records = self._tables.objects.records
        for oid in return_ids(task.task_id, min(task.template.returns, EACH_MAX)):
            record = records.get(oid)
            users = (
                ()
                if record is None
                else dict.fromkeys(each.task_id for each in islice(record.waiters, LOOKED_AT))
            )
            for user in users:
                if user in self._tables.tasks:
                    yield (TASK, user, TASK, task.task_id, ARGUMENT, False)
        yield from getters.get(task.task_id, ())

    def _getters(self) -> dict[bytes, list[_Edge]]:
        """Return the edges from processes, and tasks in them, that wait in `get` or `wait`, by the task that they wait for."""
        tasks, found = self._tables.tasks, dict[bytes, list[_Edge]]()
        waits = ((cid, wait) for cid, each in self._explainer.waits.items() for wait in each.values())
        awaited = ((cid, wait, oid[:24]) for cid, wait in waits for oid in wait.ids)
        for cid, wait, maker in islice(awaited, 10 * LOOKED_AT):
            if maker not in tasks:
                continue
            if wait.task_id in tasks:
                edge = (TASK, wait.task_id, TASK, maker, GET, False)
            else:
                edge = (PROCESS, cid.to_bytes(8, "little", signed=True), TASK, maker, GET, False)
            if edge not in found.setdefault(maker, []):
                found[maker].append(edge)
        return found

    def __repr__(self) -> str:
        return f"<ArgumentGraph of {self._tables.members.here.node_id.hex()[:8]}>"


def _is_there(record: ObjectRecord | None) -> bool:
    return record is not None and record.kind != PENDING
