"""Functions and the templates that refer to them. Each calling process registers them once; they are kept while in use.

A process reports which keys it will not use again. An entry that no process uses is removed once no task, actor or lineage needs
it, so a program that makes a new function for every call does not fill the node and its workers.
"""

from __future__ import annotations

from collections.abc import Callable

from skate.core.actor.actor_table import ActorTable
from skate.core.client import Client
from skate.core.cluster.membership import Membership
from skate.core.object.object_table import ObjectTable
from skate.core.outbox import Outbox
from skate.core.schedule.scheduler import Scheduler
from skate.core.task.task import Task, Template
from skate.protocol import messages as m
from skate.protocol.registry_records import FunctionRecord, TemplateRecord
from skate.protocol.states import DEAD

# With more unreferenced keys than this, `sweep` looks which of them are still in use.
LOOSE_MAX = 256


class FunctionTable:
    """All functions and templates of a node, by key, with the processes that may use them."""

    def __init__(
        self,
        clients: dict[int, Client],
        tasks: dict[bytes, Task],
        actors: ActorTable,
        objects: ObjectTable,
        scheduler: Scheduler,
        members: Membership,
        out: Outbox,
    ) -> None:
        self.clients = clients
        self.tasks = tasks
        self.actors = actors
        self.objects = objects
        self.scheduler = scheduler
        self.members = members
        self.out = out
        self.functions: dict[bytes, tuple[bytes, tuple[bytes, ...]]] = {}
        self.templates: dict[bytes, Template] = {}
        #: Tasks that have ended and may run again on another node.
        self.kept: dict[bytes, Task] = {}
        #: Called with each template that is dropped.
        self.dropped: Callable[[Template], None]
        self._holders: dict[bytes, set[int]] = {}
        #: Keys that no process may use, in the order of their release, so that nothing depends on the order of hashes.
        self._loose: dict[bytes, None] = {}

    def function(self, cid: int, message: m.Function) -> None:
        """FUNCTION: a definition by value, and the refs in it."""
        _, key, blob, held = message
        self._hold(cid, key)
        if key not in self.functions:
            self.functions[key] = (blob, held)
            for oid in held:
                self.objects.pin(oid)

    def template(self, cid: int, message: m.Template) -> None:
        """TEMPLATE: a function with its options."""
        _, key, fields = message
        self._hold(cid, key)
        client = self.clients.get(cid)
        if client is not None:
            client.calls = True
        if key not in self.templates:
            self.templates[key] = Template(key, fields)

    def restore(self, record: FunctionRecord | TemplateRecord) -> None:
        """Add a definition of the last head, which no process holds."""
        if isinstance(record, TemplateRecord):
            self.templates.setdefault(record.key, Template(record.key, record.fields))
        elif record.key not in self.functions:
            self.functions[record.key] = (record.blob, record.held)
            for oid in record.held:
                self.objects.pin(oid)
        if record.key not in self._holders:
            self._loose[record.key] = None

    def forget(self, cid: int, message: m.Forget) -> None:
        """FORGET: the sender will register these keys again before it uses them."""
        _, keys = message
        for key in keys:
            self._let_go(cid, key)
        self.sweep()

    def forget_client(self, cid: int) -> None:
        """Forget a process that has ended."""
        for key in [key for key, holders in self._holders.items() if cid in holders]:
            self._let_go(cid, key)
        if len(self._loose) > LOOSE_MAX:
            self.sweep()

    def _hold(self, cid: int, key: bytes) -> None:
        self._holders.setdefault(key, set()).add(cid)
        self._loose.pop(key, None)

    def _let_go(self, cid: int, key: bytes) -> None:
        holders = self._holders.get(key)
        if holders is not None:
            holders.discard(cid)
            if not holders:
                del self._holders[key]
                self._loose[key] = None

    def sweep(self) -> None:
        """Drop unreferenced and unused functions; workers drop them as well, and other nodes if they do not use them."""
        if not self._loose:
            return
        used = {task.template.key for task in self.tasks.values()}
        used |= {task.template.key for task in self.kept.values()}
        used |= {actor.template.key for actor in self.actors.actors.values() if actor.state != DEAD}
        gone = [key for key in self._loose if key in self.templates and key not in used]
        for key in gone:
            self.dropped(self.templates.pop(key))
        called = {template.function for template in self.templates.values()}
        code = [key for key in self._loose if key in self.functions and key not in called]
        for key in code:
            for oid in self.functions.pop(key)[1]:
                self.objects.unpin(oid)
        gone += code
        for key in gone:
            self._loose.pop(key, None)
        for worker in self.scheduler.workers.values():
            if worker.actor is not None and worker.actor.state == DEAD:
                continue  # it is about to end, and may still begin what it was sent
            known = tuple(key for key in gone if key in worker.known)
            if known:
                worker.known.difference_update(known)
                self.out.emit(worker.cid, m.Forget(m.FORGET, known))
        for peer in self.members.alive.values():
            known = tuple(key for key in gone if key in peer.known)
            if known:  # it gets them again before a task that needs them
                peer.known.difference_update(known)
                self.out.emit(peer.cid, m.Forget(m.FORGET, known))
        self.scheduler.forget_classes({id(template.sched_class) for template in self.templates.values()})

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        for task in (*self.tasks.values(), *self.kept.values()):
            assert task.template.key in self.templates, f"{task} has lost its template"
            assert not task.template.function or task.template.function in self.functions, task
        for key in (*self.functions, *self.templates):
            assert (key in self._holders) != (key in self._loose), f"{key.hex()} is held by nobody"

    def __repr__(self) -> str:
        return f"<Definitions {len(self.functions)} functions, {len(self.templates)} templates>"
