"""Rows for the state API: tasks, actors, objects with their holders, workers, groups.

A node knows the objects that have escaped; only a process itself knows refs that never left it. So a *survey* asks each local
process and each other node. It answers when all have answered, or with a partial result when the client stops waiting.
Rows are dicts of msgpack types; the client that asked translates names and numbers into the terms of the public API.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.core.task.task import Task, Template
from skate.protocol import messages as m
from skate.protocol.states import DEAD, METHOD, PENDING, SENT, WAITING
from skate.protocol.strategies import BundleStrategy

if TYPE_CHECKING:
    from skate.core.actor.actor_table import Actor
    from skate.core.node_tables import NodeTables
    from skate.core.object.object_table import ObjectRecord
    from skate.core.schedule.worker_record import Worker

Row = dict[str, Any]

ENDED_MAX = 1_000
MESSAGE_MAX = 2_000
#: Parts of a survey that only the processes themselves know.
OF_PROCESSES = frozenset({"objects", "jobs", "workers"})


class Survey:
    """One survey in progress: the asker, the missing answers, and the rows so far."""

    __slots__ = ("cid", "number", "waiting", "parts")

    def __init__(self, cid: int, number: int | None) -> None:
        self.cid = cid
        #: The request to reply to when all have answered; None if answers are passed on to another node.
        self.number = number
        self.waiting: set[tuple[bytes, int]] = set()
        self.parts: list[Row] = []


class Inventory:
    """Answers surveys, and keeps short records of ended workers."""

    def __init__(self, tables: NodeTables, explain: Callable[[Task], str], needs: dict[bytes, int]) -> None:
        self._tables = tables
        self._node_id = tables.members.here.node_id
        self._peers = tables.members.alive
        self._scheduler = tables.scheduler
        self._emit = tables.out.emit
        self._explain = explain
        self._needs = needs  # objects that tasks kept for lineage take
        #: Surveys in progress, by the asker's node and process and its number for the survey.
        self.surveys: dict[bytes, Survey] = {}
        self.ended: list[Row] = []
        self._views = {
            "tasks": self.tasks,
            "actors": self.actors,
            "objects": self.objects,
            "workers": self.workers,
            "environments": self.environments,
        }

    # -- ended workers

    def worker_ended(self, worker: Worker, reason: str) -> None:
        """Record the end of a worker process."""
        row = self._worker(worker)
        row.update(alive=False, reason=reason, at=self._tables.clock.now, intended=worker.leaving)
        self.ended.append(row)
        if len(self.ended) > 2 * ENDED_MAX:
            del self.ended[:ENDED_MAX]

    # -- surveys

    def begin(self, cid: int, number: int, token: int, kinds: tuple[str, ...]) -> None:
        """Start a survey for a client; the reply is sent when all have answered."""
        key = self._key(cid, token)
        survey = self.surveys[key] = Survey(cid, number)
        self._start(survey, key, kinds)
        for peer in self._peers.values():
            survey.waiting.add((peer.node_id, peer.cid))
            self._emit(peer.cid, m.Survey(m.SURVEY, key, kinds))
        self._end_if_complete(key)

    def give_up(self, cid: int, token: int) -> tuple[list[Row], list[Row]]:
        """End a survey whose client stops waiting; return the rows so far and the missing processes."""
        survey = self.surveys.pop(self._key(cid, token), None)
        if survey is None:
            return [], []
        return survey.parts, [self._silent(*who) for who in sorted(survey.waiting)]

    def _key(self, cid: int, token: int) -> bytes:
        return self._node_id[:8] + cid.to_bytes(4, "little") + token.to_bytes(8, "little")

    def _start(self, survey: Survey, key: bytes, kinds: tuple[str, ...]) -> None:
        """Add what this node knows, and ask its processes."""
        self._take(survey, key, self.view(kinds))
        if OF_PROCESSES.isdisjoint(kinds):
            return
        for cid in list(self._tables.clients):
            worker = self._scheduler.workers.get(cid)
            if cid not in self._peers and (worker is None or worker.pid):
                survey.waiting.add((self._node_id, cid))
                self._emit(cid, m.Survey(m.SURVEY, key, kinds))

    def asked(self, cid: int, message: m.Survey) -> None:
        """SURVEY: run a survey for a peer; pass on each answer as it comes, then the end."""
        _, key, kinds = message
        survey = self.surveys[key] = Survey(cid, None)
        self._start(survey, key, kinds)
        self._end_if_complete(key)

    def surveyed(self, cid: int, message: m.Surveyed) -> None:
        """SURVEYED: a process has answered, or a peer passes on an answer of one of its processes."""
        _, key, part = message
        survey = self.surveys.get(key)
        if survey is None:
            return
        if cid not in self._peers:
            part.update(node=self._node_id, ip=self._tables.members.here.address, cid=cid)
            survey.waiting.discard((self._node_id, cid))
        self._take(survey, key, part)
        self._end_if_complete(key)

    def survey_ended(self, cid: int, message: m.SurveyEnd) -> None:
        """SURVEY_END: all processes of a peer have answered."""
        _, key = message
        survey = self.surveys.get(key)
        peer = self._peers.get(cid)
        if survey is not None and peer is not None:
            survey.waiting.discard((peer.node_id, cid))
            self._end_if_complete(key)

    def forget(self, cid: int) -> None:
        """Stop waiting for the answer of a process or peer that has ended."""
        for key, survey in list(self.surveys.items()):
            if survey.cid == cid:
                del self.surveys[key]
                continue
            survey.waiting = {who for who in survey.waiting if who[1] != cid}
            self._end_if_complete(key)

    def _take(self, survey: Survey, key: bytes, part: Row) -> None:
        if survey.number is not None:
            survey.parts.append(part)
        else:
            self._emit(survey.cid, m.Surveyed(m.SURVEYED, key, part))

    def _end_if_complete(self, key: bytes) -> None:
        survey = self.surveys.get(key)
        if survey is None or survey.waiting:
            return
        del self.surveys[key]
        if survey.number is not None:
            self._emit(survey.cid, m.Reply(m.REPLY, survey.number, True, (survey.parts, [])))
        else:
            self._emit(survey.cid, m.SurveyEnd(m.SURVEY_END, key))

    def _silent(self, node_id: bytes, cid: int) -> Row:
        worker = self._scheduler.workers.get(cid)
        if worker is not None:
            return self._worker(worker)
        return {"node": node_id, "cid": cid, "pid": 0, "actor": b"", "name": ""}

    # -- rows of this node

    def view(self, kinds: tuple[str, ...]) -> Row:
        """Return the rows of each kind, and their common fields."""
        found: Row = {
            "node": self._node_id,
            "ip": self._tables.members.here.address,
            "head": self._tables.members.head is self._tables.members.here,
            "now": self._tables.clock.now,
        }
        for kind in kinds:
            rows = self._views.get(kind)
            if rows is not None:
                found[kind] = rows()
        return found

    def tasks(self) -> list[Row]:
        """Return the tasks in progress, the recently ended ones, and the failed ones."""
        rows: dict[tuple[bytes, int], Row] = {}
        for entry in self._tables.history.finished:
            name, task_id, kind, cid, pid, at, micros, status, attempt, template, actor, parent = entry
            row = self._task(task_id, kind, attempt, template, actor, parent)
            row.update(
                state="FINISHED" if status == m.OK else "FAILED",
                worker=cid,
                pid=pid,
                start=at - micros * 1e-6,
                end=at,
            )
            if status == m.CANCELLED:
                row["error"] = "TaskCancelledError"
            rows[task_id, attempt] = row
        for task_id, attempt, kind, template, actor, parent, at, error, text in self._tables.history.failures:
            ran = rows.get((task_id, attempt))
            if ran is None:
                ran = rows[task_id, attempt] = self._task(task_id, kind, attempt, template, actor, parent)
                ran["end"] = at
            ran.update(state="FAILED", error=error, message=text)
        for task in self._tables.tasks.values():
            rows[task.task_id, task.attempt] = self._under_way(task)
        return list(rows.values())

    @staticmethod
    def _task(task_id: bytes, kind: int, attempt: int, template: Any, actor: Any, parent: bytes) -> Row:
        return {
            "task": task_id,
            "kind": kind,
            "attempt": attempt,
            "name": template.name,
            "function": template.fields.get("qualified") or template.name,
            "actor": b"" if actor is None else actor.actor_id,
            "parent": parent,
            "request": template.request,
            "environment": template.environment,
            "group": group_of(template),
        }

    def _under_way(self, task: Task) -> Row:
        row = self._task(task.task_id, task.kind, task.attempt, task.template, task.actor, task.parent)
        row["state"] = self._state(task)
        row["why"] = self._explain(task)
        if task.node is not None:
            row["place"] = task.node.node_id
        worker = task.worker
        if worker is not None:
            row["worker"], row["pid"] = worker.cid, worker.pid
        return row

    def _state(self, task: Task) -> str:
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

    def actors(self) -> list[Row]:
        """Return all actors that this node manages, including dead ones."""
        return [self._actor(actor) for actor in self._tables.actors.actors.values()]

    def _actor(self, actor: Actor) -> Row:
        template = actor.template
        place = self._node_id if actor.node is None else actor.node.node_id
        unready = actor.state == PENDING and actor.creation.missing > 0
        row: Row = {
            "actor": actor.actor_id,
            "class": template.fields.get("class_path") or actor.class_name,
            "state": "DEPENDENCIES_UNREADY" if unready else actor.state.public,
            "name": actor.name,
            "namespace": actor.namespace,
            "place": b"" if actor.state == PENDING else place,
            "pid": actor.worker.pid if actor.worker is not None else actor.pid,
            "restarts": actor.restarts,
            "detached": actor.detached,
            "request": template.request,
            "environment": template.environment,
            "group": group_of(template),
            "holders": dict(actor.holders),
            "pins": actor.pins,
        }
        if actor.state == DEAD and actor.death is not None:
            name, fields = actor.death
            row["death"] = {
                "error": name,
                "message": (fields.get("message") or _init_text(fields))[-MESSAGE_MAX:],
                "reason": fields.get("reason", ""),
            }
        return row

    def objects(self) -> list[Row]:
        """Return the objects that have escaped from the process that made them, with everything that keeps them alive."""
        used: dict[bytes, list[Row]] = {}
        creations = [a.creation for a in self._tables.actors.actors.values() if a.state != DEAD]
        for task in (
            *self._tables.tasks.values(),
            *(each for each in creations if each.task_id not in self._tables.tasks),
        ):
            user: Row = {
                "task": task.task_id,
                "kind": task.kind,
                "name": task.template.name,
                "cid": task.client,
                "state": self._state(task),
            }
            for oid in {*(oid for _, oid in task.deps), *task.held}:
                used.setdefault(oid, []).append(user)
        inside: dict[bytes, list[bytes]] = {}
        for record in self._tables.objects.records.values():
            for oid in record.held:
                inside.setdefault(oid, []).append(record.oid)
        captured: dict[bytes, list[str]] = {}
        names = {template.function: template.name for template in self._tables.functions.templates.values()}
        for key, (_, held) in self._tables.functions.functions.items():
            for oid in held:
                captured.setdefault(oid, []).append(names.get(key, "a function"))
        rows = []
        for record in self._tables.objects.records.values():
            row = self._object(record)
            row["used"] = used.get(record.oid, [])
            row["inside"] = inside.get(record.oid, [])
            row["captured"] = captured.get(record.oid, [])
            rows.append(row)
        return rows

    def _object(self, record: ObjectRecord) -> Row:
        away = record.away
        return {
            "object": record.oid,
            "kind": record.kind,
            "size": record.size or (len(record.payload) if record.kind == m.INLINE else 0),
            "where": self._where(record),
            "place": b"" if away is None or away.place is None else away.place.node_id,
            "owner": self._node_id if away is None or away.owner is None else away.owner.node_id,
            "holders": dict(record.holders),
            "pins": record.pins,
            "writer": -1 if record.writer is None else record.writer,
            "lineage": record.oid in self._needs,
            "making": record.oid[:24] in self._tables.tasks,
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
            return "elsewhere" if record.away is not None and record.away.place is not None else "lost"
        return "being written" if record.writer is not None else "pending"

    def workers(self) -> list[Row]:
        """Return the worker processes, including recently ended ones."""
        return [*map(self._worker, self._scheduler.workers.values()), *self.ended]

    def _worker(self, worker: Worker) -> Row:
        actor = worker.actor
        return {
            "node": self._node_id,
            "cid": worker.cid,
            "pid": worker.pid,
            "alive": True,
            "actor": b"" if actor is None else actor.actor_id,
            "name": "" if actor is None else actor.describe(),
            "outstanding": len(worker.outstanding),
        }

    def environments(self) -> list[Row]:
        """Return the requested runtime environments, with the number of workers for each."""
        counts: dict[str, int] = {}
        for worker in self._scheduler.workers.values():
            counts[worker.env_key] = counts.get(worker.env_key, 0) + 1
        known = {t.env_key: t.environment for t in self._tables.functions.templates.values() if t.environment}
        return [{"environment": text, "workers": counts.get(key, 0)} for key, text in known.items()]


def group_of(template: Template) -> bytes:
    """Return the placement group that a template requests, or empty bytes."""
    strategy = template.strategy
    return strategy.group_id if isinstance(strategy, BundleStrategy) else b""


def _init_text(fields: Row) -> str:
    init = fields.get("init_error")
    if init is None:
        return ""
    text: str = init[1].get("traceback") or init[1].get("message") or ""
    return text
