"""The tables of a node as rows: tasks, actors, objects, references, workers, environments, nodes, groups.

The state API, `ray.nodes()`, `skate status` and `placement_group_table` get the same rows. Rows are dicts of msgpack types; the
client that asked translates names and numbers into the terms of the public API. Rows are made one by one, so a survey of a
large table can let other messages pass in between. This module changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Reversible
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

from skate.core.resource.resources import UNIT
from skate.core.task.task import Task, Template
from skate.protocol import messages as m
from skate.protocol.fields import Where
from skate.protocol.states import CREATION, DEAD, METHOD, PENDING, SENT, WAITING, GroupState
from skate.protocol.strategies import BundleStrategy

if TYPE_CHECKING:
    from skate.core.actor.actor_table import Actor
    from skate.core.diagnosis.wait_explainer import WaitExplainer
    from skate.core.node_tables import NodeTables
    from skate.core.object.object_table import ObjectRecord
    from skate.core.schedule.worker_record import Worker

Row: TypeAlias = dict[str, Any]
#: Rows of one kind; None for each entry that is left out, so that the caller counts it as work.
Rows: TypeAlias = Iterator[Row | None]

MESSAGE_MAX = 2_000
#: Kinds that only the head of a cluster has all rows of.
HEAD_KINDS = frozenset({"actors", "groups"})
EVERYTHING: Where = {}


class Inventory:
    """Makes the rows of a node."""

    def __init__(self, tables: NodeTables, explainer: WaitExplainer) -> None:
        self._tables = tables
        self._node_id = tables.members.here.node_id
        self._explainer = explainer
        self._scans: dict[str, Callable[[Where, bool], Rows]] = {
            "tasks": self._tasks,
            "tasks_in_progress": self._tasks_in_progress,
            "actors": self._actors,
            "objects": self._objects,
            "references": self._references,
            "workers": self._workers,
            "environments": self._environments,
            "nodes": self._nodes,
            "groups": self._groups,
            "trace": self._trace,
        }

    def add(self, kind: str, scan: Callable[[Where, bool], Rows]) -> None:
        """Add the rows of another kind."""
        self._scans[kind] = scan

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of rows."""
        return frozenset(self._scans)

    def node(self) -> Row:
        """Return the facts about this node that go with its rows."""
        members = self._tables.members
        return {
            "node": self._node_id,
            "ip": members.here.address,
            "head": members.head is members.here,
            "now": self._tables.clock.now,
        }

    def scan(self, kind: str, where: Where, detail: bool) -> Rows:
        """Yield the rows of a kind with certain columns, and None for each other entry.

        The tables may change between two rows. Tasks have the reason why they wait only with `detail`. Raise KeyError for an
        unknown kind.
        """
        return self._scans[kind](where, detail)

    def rows(self, kind: str, where: Where = EVERYTHING) -> list[Row]:
        """Return the rows of a kind with certain columns, without `detail`. Raise KeyError for an unknown kind."""
        return [row for row in self.scan(kind, where, False) if row is not None]

    # -- tasks

    def _tasks(self, where: Where, detail: bool) -> Rows:
        """Yield the recently ended tasks, the failed ones, and those in progress."""
        history = self._tables.history
        finished, failures = list(history.finished), list(history.failures)
        last_finished, last_failure = finished[-1:], failures[-1:]
        wanted = _id_in(where, "task")
        if wanted is not None:
            finished = [entry for entry in finished if entry[1] == wanted]
            failures = [entry for entry in failures if entry[0] == wanted]
        yield from self._ended(finished, failures, where)
        yield from self._tasks_in_progress(where, detail)
        # The tasks that have ended since.
        finished = entries_since(history.finished, last_finished)
        yield from self._ended(finished, entries_since(history.failures, last_failure), where)

    def _tasks_in_progress(self, where: Where, detail: bool) -> Rows:
        tasks = self._tables.tasks
        for task_id in _ids(tasks, where, "task"):
            task = tasks.get(task_id)
            yield None if task is None else self._in_progress(task, where, detail)

    def _ended(self, finished: list[Any], failures: list[Any], where: Where) -> Rows:
        failed = {entry[:2]: entry for entry in failures}
        for entry in finished:
            _, task_id, kind, cid, pid, at, micros, status, attempt, template, actor, parent, since = entry
            failure = failed.pop((task_id, attempt), None) if failed else None
            state = "FINISHED" if status == m.OK and failure is None else "FAILED"
            if not _may_match(where, state, kind, template):
                yield None
                continue
            row = _task(task_id, kind, attempt, template, actor, parent)
            row.update(state=state, worker=cid, pid=pid, since=since, start=at - micros * 1e-6, end=at)
            if failure is not None:
                row["error"], row["message"], _ = failure[7:]
            elif status == m.CANCELLED:
                row["error"] = "TaskCancelledError"
            yield _if_matches(row, where)
        for task_id, attempt, kind, template, actor, parent, at, error, text, since in failed.values():
            if not _may_match(where, "FAILED", kind, template):
                yield None
                continue
            row = _task(task_id, kind, attempt, template, actor, parent)
            row.update(state="FAILED", since=since, end=at, error=error, message=text)
            yield _if_matches(row, where)

    def _in_progress(self, task: Task, where: Where, detail: bool) -> Row | None:
        state = task_state(task)
        if not _may_match(where, state, task.kind, task.template):
            return None
        row = _task(task.task_id, task.kind, task.attempt, task.template, task.actor, task.parent)
        row["state"], row["since"] = state, task.since
        if task.node is not None:
            row["place"] = task.node.node_id
        worker = task.worker
        if worker is not None:
            row["worker"], row["pid"] = worker.cid, worker.pid
        if _if_matches(row, where) is None:
            return None
        if detail:
            row["why"] = self._explainer.of_task(task)
        return row

    def _trace(self, where: Where, detail: bool) -> Rows:
        """Yield the recently ended tasks: name, id, kind, worker, pid, end, microseconds, status, function, start of the wait,
        attempt.
        """
        for entry in list(self._tables.history.finished):
            yield {"entry": (*entry[:8], _qualified(entry[9]), entry[12], entry[8])}

    def demand(self) -> list[tuple[str, int, str]]:
        """Return the pending work: name, number, and the reason why it waits."""
        counted = self._explainer.count_waiting(self._tables.tasks.values())
        for group in self._tables.placement.groups.values():
            if group.state == GroupState.PENDING:
                key = (f"placement group {group.name or group.group_id.hex()[:8]}", "no room for its bundles")
                counted[key] = counted.get(key, 0) + 1
        return [(name, count, why) for (name, why), count in counted.items()]

    # -- actors

    def _actors(self, where: Where, detail: bool) -> Rows:
        """Yield all actors that this node manages, including dead ones."""
        actors = self._tables.actors.actors
        for actor_id in _ids(actors, where, "actor"):
            actor = actors.get(actor_id)
            yield None if actor is None else _if_matches(self._actor(actor), where)

    def _actor(self, actor: Actor) -> Row:
        template = actor.template
        place = self._node_id if actor.node is None else actor.node.node_id
        unready = actor.state == PENDING and actor.creation.missing > 0
        row: Row = {
            "actor": actor.actor_id,
            "class": template.fields.get("class_path") or actor.class_name,
            "class_name": actor.class_name,
            "state": "DEPENDENCIES_UNREADY" if unready else actor.state.public,
            "job": template.job,
            "name": actor.name,
            "namespace": actor.namespace,
            "place": b"" if actor.state == PENDING else place,
            "pid": actor.worker.pid if actor.worker is not None else actor.pid,
            "restarts": actor.restarts,
            "detached": actor.detached,
            "request": template.request,
            "environment": template.environment,
            "group": _group_of(template),
        }
        if actor.state == DEAD and actor.death is not None:
            name, fields = actor.death
            row["death"] = {
                "error": name,
                "message": (fields.get("message") or _init_text(fields))[-MESSAGE_MAX:],
                "reason": fields.get("reason", ""),
            }
        return row

    # -- objects

    def _objects(self, where: Where, detail: bool) -> Rows:
        """Yield the objects that have escaped from the process that made them, with the processes that hold them."""
        records = self._tables.objects.records
        for oid in _ids(records, where, "object"):
            record = records.get(oid)
            yield None if record is None else _if_matches(self._object(record), where)

    def _object(self, record: ObjectRecord) -> Row:
        remote = record.remote
        return {
            "object": record.oid,
            "kind": record.kind,
            "size": record.size or (len(record.payload) if record.kind == m.INLINE else 0),
            "where": self._where(record),
            "place": b"" if remote is None or remote.place is None else remote.place.node_id,
            "owner": self._node_id if remote is None or remote.owner is None else remote.owner.node_id,
            "holders": dict(record.holders),
        }

    def _where(self, record: ObjectRecord) -> str:
        if record.kind == m.ARENA:
            return "arena" if record.payload[0] < self._tables.disk.allocator.boundary else "disk"
        if record.kind == m.SPILLED:
            return "disk"
        if record.kind == m.INLINE:
            return "node"
        if record.kind == m.ERROR:
            return "error"
        if record.kind == m.REMOTE:
            return "elsewhere" if record.remote is not None and record.remote.place is not None else "lost"
        return "being written" if record.writer is not None else "pending"

    def _references(self, where: Where, detail: bool) -> Rows:
        """Yield what keeps objects alive besides processes: tasks, objects that contain others, function definitions.

        With an object in `where`, yield only the references to it.
        """
        tables, wanted = self._tables, _id_in(where, "object")
        tasks, records, functions = tables.tasks, tables.objects.records, tables.functions.functions
        for task_id in [*tasks, *(key for key in tables.actors.actors if key not in tasks)]:
            task = tasks.get(task_id) or self._restartable(task_id)
            if task is None or not (task.deps or task.held):
                yield None
            else:
                holder = f"task {task.template.name} ({task_state(task)})"
                ids = (*(oid for _, oid in task.deps), *task.held)
                yield _reference("USED_BY_PENDING_TASK", task.client, holder, ids, wanted)
        for oid in list(records):
            record = records.get(oid)
            if record is None or not record.held:
                yield None
            else:
                yield _reference("CAPTURED_IN_OBJECT", -1, oid.hex(), record.held, wanted)
        names = {template.function: template.name for template in tables.functions.templates.values()}
        for key, (_, held) in list(functions.items()):
            holder = f"the definition of {names.get(key, 'a function')}"
            yield _reference("CAPTURED_IN_OBJECT", -1, holder, held, wanted)

    def _restartable(self, actor_id: bytes) -> Task | None:
        """Return the task that constructs an actor again if it fails."""
        actor = self._tables.actors.actors.get(actor_id)
        return None if actor is None or actor.state == DEAD else actor.creation

    # -- workers

    def _workers(self, where: Where, detail: bool) -> Rows:
        """Yield the worker processes, including recently ended ones."""
        workers = self._tables.scheduler.workers
        for worker in list(workers.values()):
            if workers.get(worker.cid) is worker:
                yield _if_matches(self.worker(worker), where)
        for ended in self._tables.ended_workers.ended:
            yield _if_matches({"node": self._node_id, **ended.row()}, where)

    def worker(self, worker: Worker) -> Row:
        """Return the row of a worker that lives."""
        actor = worker.actor
        actor_id, name = (b"", "") if actor is None else (actor.actor_id, actor.describe())
        return {
            "node": self._node_id,
            "cid": worker.cid,
            "pid": worker.pid,
            "alive": True,
            "actor": actor_id,
            "name": name,
            "outstanding": len(worker.outstanding),
            "since": worker.ready_at,
        }

    def _environments(self, where: Where, detail: bool) -> Rows:
        """Yield the requested runtime environments, with the number of workers for each."""
        counts: dict[str, int] = {}
        for worker in self._tables.scheduler.workers.values():
            counts[worker.env_key] = counts.get(worker.env_key, 0) + 1
        templates = self._tables.functions.templates
        known = {each.env_key: each.environment for each in templates.values() if each.environment}
        for key, text in known.items():
            yield _if_matches({"environment": text, "workers": counts.get(key, 0)}, where)

    # -- the cluster, as far as this node knows it

    def _nodes(self, where: Where, detail: bool) -> Rows:
        """Yield the nodes of the cluster, including the last dead ones."""
        members = self._tables.members
        for peer in [members.here, *members.by_tag.values()]:
            row = {
                "node_id": peer.node_id.hex(),
                "alive": peer.alive,
                "total": dict(peer.total),
                "available": dict(peer.available),
                "labels": dict(peer.labels),
                "reason": peer.reason,
                "dead_for": -1.0 if peer.lost_at is None else self._tables.clock.now - peer.lost_at,
                "expected": bool(peer.leaving),
                "draining": peer.draining if peer.alive else "",
                "seconds_left": -1
                if peer.deadline is None
                else max(0, int(peer.deadline - self._tables.clock.now)),
                "address": peer.address,
                **peer.facts,
            }
            yield _if_matches(row, where)

    def _groups(self, where: Where, detail: bool) -> Rows:
        """Yield the placement groups, including removed ones. Only the head knows them all."""
        for group in list(self._tables.placement.groups.values()):
            waits = GroupState.RESCHEDULING if group.has_lost else GroupState.PENDING
            state = waits if group.state == GroupState.INFEASIBLE else group.state
            row = {
                "placement_group_id": group.group_id.hex(),
                "name": group.name,
                "bundles": dict(enumerate(group.bundles)),
                "strategy": group.strategy,
                "state": state.value,
                "nodes": {index: place.node_id.hex() for index, place in group.places.items()},
                "why": group.why,
                "detached": group.detached,
            }
            yield _if_matches(row, where)

    def total(self) -> dict[str, int]:
        """Return the total resources of the nodes, in units."""
        total: dict[str, int] = {}
        for each in self._tables.members.totals():
            for name, units in each.items():
                total[name] = total.get(name, 0) + units
        return total

    def free(self) -> dict[str, int]:
        """Return the free resources, in units; those of placement groups have their own names."""
        tables = self._tables
        free: dict[str, int] = {}
        here = (tables.scheduler.capacity.available, tables.placement.pools_free())
        peers = [part for peer in tables.members.alive.values() for part in (peer.available, peer.pools)]
        for each in (*here, *peers):
            for name, units in each.items():
                if units > 0:
                    free[name] = free.get(name, 0) + units
        store = free.get("object_store_memory")
        if store is not None:  # tasks do not reserve it: the free part is what no value occupies
            free["object_store_memory"] = max(0, store - tables.disk.allocator.arena.used * UNIT)
        return free

    def __repr__(self) -> str:
        return f"<Inventory of {self._node_id.hex()[:8]}>"


# -- conditions


def _id_in(where: Where, column: str) -> bytes | None:
    """Return the id that a column must have, if there is such a condition."""
    wanted = where.get(column)
    return wanted if isinstance(wanted, bytes) else None


def _ids(table: Mapping[bytes, object], where: Where, column: str) -> list[bytes]:
    """Return the ids of a table's entries, or only the one that a column must have."""
    wanted = _id_in(where, column)
    return list(table) if wanted is None else [wanted]


def _same(value: object, wanted: bytes | str) -> bool:
    """Compare as the filters of the state API do: upper and lower case are the same."""
    if isinstance(value, str) and isinstance(wanted, str):
        return value.lower() == wanted.lower()
    return value == wanted


def _if_matches(row: Row, where: Where) -> Row | None:
    """Return the row if it meets the conditions on the columns that it has, else None."""
    if where and not all(column not in row or _same(row[column], where[column]) for column in where):
        return None
    return row


def _may_match(where: Where, state: str, kind: int, template: Template) -> bool:
    """Return False if the row of a task, not made yet, would not match."""
    if not where:
        return True
    wanted = where.get("state")
    if wanted is not None and not _same(state, wanted):
        return False
    if "name" not in where and "function" not in where:
        return True
    name, function = names_of(kind, template)
    return _same(name, where.get("name", name)) and _same(function, where.get("function", function))


def entries_since(entries: Reversible[Any], last: list[Any]) -> list[Any]:
    """Return the entries after the last one that was seen; `last` has it, or is empty."""
    if not last:
        return [*entries]
    return list(takewhile(lambda entry: entry is not last[0], reversed(entries)))[::-1]


# -- parts of rows


def _qualified(template: Template) -> str:
    return template.fields.get("qualified") or template.name


def names_of(kind: int, template: Template) -> tuple[str, str]:
    """Return the name of a task, and that of its function or class."""
    if kind == CREATION:
        name = f"{_qualified(template)}.__init__"
        return name, name
    return template.name, template.name if kind == METHOD else _qualified(template)


def _task(task_id: bytes, kind: int, attempt: int, template: Template, actor: Any, parent: bytes) -> Row:
    name, function = names_of(kind, template)
    return {
        "task": task_id,
        "kind": kind,
        "attempt": attempt,
        "name": name,
        "function": function,
        "actor": b"" if actor is None else actor.actor_id,
        "parent": parent,
        "request": template.request,
        "environment": template.environment,
        "group": _group_of(template),
    }


def task_state(task: Task) -> str:
    if task.state == WAITING and task.missing:
        return "PENDING_ARGS_AVAIL"
    if task.kind == METHOD and task.state == WAITING:
        return "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY"
    if task.state != SENT:
        return "PENDING_NODE_ASSIGNMENT"
    worker = task.worker
    if worker is None:
        return "SUBMITTED_TO_WORKER"
    if task.task_id in worker.blocked:
        return "RUNNING_IN_RAY_GET"
    ahead = next(iter(worker.outstanding.values()), task) is not task
    concurrent = task.kind == METHOD and task.actor is not None and not task.actor.in_order
    return "SUBMITTED_TO_WORKER" if ahead and not concurrent else "RUNNING"


def _group_of(template: Template) -> bytes:
    """Return the placement group that a template requests, or empty bytes."""
    strategy = template.strategy
    return strategy.group_id if isinstance(strategy, BundleStrategy) else b""


def _init_text(fields: Row) -> str:
    init = fields.get("init_error")
    if init is None:
        return ""
    text: str = init[1].get("traceback") or init[1].get("message") or ""
    return text


def _reference(why: str, cid: int, holder: str, ids: Iterable[bytes], wanted: bytes | None) -> Row | None:
    """Return the row of what keeps objects alive; None if there are none, or not the wanted one."""
    kept = [oid for oid in dict.fromkeys(ids) if wanted is None or oid == wanted]
    return {"why": why, "cid": cid, "holder": holder, "ids": kept} if kept else None
