"""Validation of messages from sockets: their shape, their sender, and the ids that they name.

The components behind `NodeCore.step` trust their input. Messages from other processes are checked here first, so a broken or
hostile peer can only lose its own connection, never harm the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from skate.core.client import Client
from skate.core.job.job_table import JobTable
from skate.core.node_tables import NodeTables
from skate.core.object.lifetimes import owner_of
from skate.core.state.queries import Queries
from skate.protocol import messages as m
from skate.protocol.check import Check, Checks, arguments_check, entries_check, fields_check, is_error
from skate.protocol.directory import VERBS
from skate.protocol.fields import GroupFields, TaskResult
from skate.protocol.shape import shape_refusal
from skate.protocol.states import CREATION

Message = tuple[Any, ...]

_FIELDS, _ENTRIES = Checks(fields_check), Checks(entries_check)
STRATEGIES = frozenset({None, "PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"})


class Core(Protocol):
    """The state of the guarded node."""

    tables: NodeTables
    queries: Queries
    jobs: JobTable


class Guard:
    """Checks the messages of other processes against the state of a node."""

    def __init__(self, core: Core) -> None:
        tables = core.tables
        self.clients = tables.clients
        self.tasks = tables.tasks
        self.functions, self.templates = tables.functions.functions, tables.functions.templates
        self.objects = tables.objects
        self.actors = tables.actors
        self.scheduler = tables.scheduler
        self.jobs = core.jobs.jobs
        self.placement = tables.placement
        self._queries = core.queries.verbs
        self._verbs = Checks(self._verb_check)
        self._known: dict[int, Callable[[int, Any], str]] = {
            m.TEMPLATE: self._template,
            m.SUBMIT: self._submit,
            m.CREATE_ACTOR: self._create,
            m.CALL: self._call,
            m.PUBLISH: self._publish,
            m.PUT: self._put,
            m.REQUEST: self._request,
            m.DONE: self._done,
            m.ITEM: self._item,
        }

    def _verb_check(self, verb: str) -> Check:
        function = VERBS.get(verb)
        return arguments_check(self._queries[verb], 1) if function is None else arguments_check(function, 0)

    def refusal(self, cid: int, message: Message, of_worker: bool) -> str:
        """Return why a message is refused, or "" if it is valid."""
        refused = shape_refusal(message, of_worker)
        if refused:
            return refused
        known = self._known.get(message[0])
        return "" if known is None else known(cid, message)

    # -- ids in messages

    def _template(self, cid: int, message: m.Template) -> str:
        _, _, fields = message
        function = fields["function"]
        if function and function not in self.functions:
            return f"template {fields['name']!r} names a function that was not sent"
        client = self.clients.get(cid)
        if client is not None and (fields.get("job") or "") != self._job_of(cid, client):
            return f"template {fields['name']!r} belongs to job {fields.get('job')!r}, its sender to job {client.job!r}"
        return ""

    def _job_of(self, cid: int, client: Client) -> str:
        """Return the job that the definitions of a process belong to; empty in the program that hosts the node."""
        worker = self.scheduler.workers.get(cid)
        if worker is None:
            return client.job if client.job in self.jobs else ""
        job, slash, _ = worker.env_key.partition("/")
        return job if slash else ""

    def _submit(self, cid: int, message: m.Submit) -> str:
        _, task_id, template, *_ = message
        if not self._is_template(template, "task"):
            return "a task names no template of a task that was sent"
        if task_id in self.tasks:
            return f"there is already a task {task_id.hex()}"
        return self._not_own(cid, task_id)

    def _create(self, cid: int, message: m.CreateActor) -> str:
        _, actor_id, template, *_ = message
        if not self._is_template(template, "actor"):
            return "an actor names no template of an actor that was sent"
        if actor_id in self.tasks or actor_id in self.actors.actors:
            return f"there is already an actor {actor_id.hex()}"
        if int.from_bytes(actor_id[3:7], "little") != cid:
            return f"id {actor_id.hex()} was not made by its sender"
        return ""

    def _call(self, cid: int, message: m.Call) -> str:
        _, task_id, _, template, *_ = message
        known = self.templates.get(template)
        if known is None or known.fields["kind"] != "method":
            return "a call names no template of a method that was sent"
        if task_id in self.tasks:
            return f"there is already a task {task_id.hex()}"
        return self._not_own(cid, task_id)

    def _is_template(self, key: bytes, kind: str) -> bool:
        template = self.templates.get(key)
        return template is not None and template.fields["kind"] == kind

    @staticmethod
    def _not_own(cid: int, some_id: bytes) -> str:
        if owner_of(some_id) == cid:
            return ""
        return f"id {some_id.hex()} was not made by its sender"

    def _publish(self, cid: int, message: m.Publish) -> str:
        _, oid, kind, payload, _, _ = message
        return self._place(cid, oid, payload) if kind == m.ARENA else ""

    def _place(self, cid: int, oid: bytes, payload: Any) -> str:
        """Return why the place of a value in a message is invalid."""
        record = self.objects.get(oid)
        if record is not None and (
            record.kind != m.PENDING or (record.writer == cid and record.payload == payload)
        ):
            return ""
        return f"no memory at {payload} was given to its sender for object {oid.hex()}"

    def _put(self, cid: int, message: m.Put) -> str:
        _, oid, _ = message
        record = self.objects.get(oid)
        if record is not None and record.writer == cid and record.payload is not None:
            return ""
        return f"no memory was given to its sender for object {oid.hex()}"

    def _request(self, cid: int, message: m.Request) -> str:
        _, _, verb, arguments = message
        try:
            check = self._verbs[verb]
        except KeyError:
            return f"there is no question {verb!r}"
        if not check(arguments):
            return f"the arguments of the question {verb!r} have other types: {arguments!r:.200}"
        if verb == "create_group":
            return self._group(*arguments)
        return ""

    def _group(self, group_id: bytes, bundles: Any, fields: dict[str, Any]) -> str:
        if group_id in self.placement.groups:
            return f"there is already a placement group {group_id.hex()}"
        if not bundles or not _ENTRIES[GroupFields](fields) or fields.get("strategy") not in STRATEGIES:
            return f"a placement group has other fields: {fields!r:.200}"
        return ""

    # -- answers of workers

    def _done(self, cid: int, message: m.Done) -> str:
        _, task_id, status, returns, _, _ = message
        worker = self.scheduler.workers.get(cid)
        task = None if worker is None else worker.outstanding.get(task_id)
        if task is None or status == m.CANCELLED:  # the node ignores answers that it does not expect
            return ""
        partial = status == m.PARTIAL
        if partial and not (len(returns) == 2 and isinstance(returns[1], (tuple, list))):
            return f"the error and first results of {task} are none: {returns!r:.200}"
        if status == m.FAILED or partial:
            error = returns[0] if partial else returns
            if not is_error(error):
                return f"the error of {task} is none: {error!r:.200}"
            if status == m.FAILED:
                return ""
            returns = returns[1]
        if not all(map(_FIELDS[TaskResult], returns)):
            return f"the results of {task} are no values: {returns!r:.200}"
        if task.template.streaming or task.kind == CREATION:
            return ""
        wrong = len(returns) > task.template.returns if partial else len(returns) != task.template.returns
        if wrong:
            return f"{task} has {task.template.returns} results, not {len(returns)}"
        for index, (kind, payload, _) in enumerate(returns, 1):
            if kind == m.ARENA:
                refused = self._place(cid, task_id + index.to_bytes(4, "little"), payload)
                if refused:
                    return refused
        return ""

    def _item(self, cid: int, message: m.Item) -> str:
        _, task_id, index, kind, payload, _ = message
        return self._place(cid, task_id + index.to_bytes(4, "little"), payload) if kind == m.ARENA else ""
