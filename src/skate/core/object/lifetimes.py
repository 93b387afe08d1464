"""Messages about objects: escape, publish, hold, free, fetch, and memory for large values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.core.memory.admission import Request
from skate.core.object.object_table import ObjectRecord
from skate.core.task.task import Task, return_ids
from skate.protocol import messages as m
from skate.protocol.effects import ServeReads
from skate.protocol.fields import ErrorValue
from skate.protocol.states import CREATION, PLAIN

if TYPE_CHECKING:
    from skate.core.node import NodeCore


def owner_of(oid: bytes) -> int:
    """The process in which an object's id was made."""
    return int.from_bytes(oid[16:20], "little")


class Lifetimes:
    """Handles the clients' messages about refs: changes the object and actor tables."""

    def __init__(self, node: NodeCore) -> None:
        self.node = node

    def escape(self, cid: int, message: m.Escape) -> None:
        """ESCAPE: the sender holds a ref whose value is to come, and is about to pass it on."""
        _, oid = message
        objects = self.node.objects
        objects.grant(objects.ensure(oid), cid)

    def publish(self, cid: int, message: m.Publish) -> None:
        """PUBLISH: the sender has the value of a ref that it passes on."""
        _, oid, kind, payload, held, granted = message
        objects = self.node.objects
        record = objects.ensure(oid)
        if granted:
            objects.grant(record, cid)
        self.node.placement.awaiting.discard(oid)
        objects.fill(record, kind, payload, held)
        objects.drop_if_unused(record)

    def grant(self, cid: int, any_id: bytes) -> None:
        """Count a grant to a process, of an object or an actor."""
        if len(any_id) == 28:
            self.node.objects.grant(self.node.objects.ensure(any_id), cid)
            return
        actor = self.node.actors.actors.get(any_id)
        if actor is None and self.node.peers.active:
            actor = self.node.actor_directory.entry(any_id)
        if actor is not None:
            actor.holders[cid] = actor.holders.get(cid, 0) + 1
            if actor.routed:
                self.node.actor_directory.sync(actor)

    def hold(self, cid: int, message: m.Hold) -> None:
        """HOLD: the sender came by a ref or a handle inside a value."""
        _, any_id = message
        self.grant(cid, any_id)
        if len(any_id) == 28:
            self._lose_if_orphaned(self.node.objects.records[any_id])

    def free(self, cid: int, message: m.Free) -> None:
        """FREE: the sender gives grants back."""
        _, any_id, grants = message
        if len(any_id) == 28:
            if not grants:
                self.node.admission.withdraw(cid, any_id)
            self.node.objects.free(cid, any_id, grants)
            return
        actor = self.node.actors.actors.get(any_id)
        if actor is None:
            return
        left = actor.holders.get(cid, 0) - grants
        if left > 0:
            actor.holders[cid] = left
        else:
            actor.holders.pop(cid, None)
            self.node.actor_manager.end_if_unwanted(actor)

    def watch(self, cid: int, message: m.Watch) -> None:
        """WATCH: the sender keeps something beside the object, and wants to know when it is freed."""
        _, oid = message
        if oid in self.node.objects.records:
            self.node.objects.watched[oid] = cid
        else:
            self.node.emit(cid, m.Freed(m.FREED, oid))

    def freed(self, cid: int, oid: bytes) -> None:
        """An object that a process watches is freed."""
        self.node.emit(cid, m.Freed(m.FREED, oid))

    def fetch(self, cid: int, message: m.Fetch) -> None:
        """FETCH: send the value now or when it is there."""
        _, oid = message
        record = self.node.objects.ensure(oid)
        self._lose_if_orphaned(record)
        if record.kind == m.PENDING:
            record.fetchers.append(cid)
            if record.away is not None:
                self.node.remote_objects.want(record)
        elif record.kind == m.REMOTE and cid not in self.node.peers.alive:
            record.fetchers.append(cid)
            self.node.remote_objects.want(record)
        elif record.kind == m.SPILLED and cid not in self.node.peers.alive:
            record.fetchers.append(cid)
            self.node.spill_manager.want(record)
        else:
            self.deliver(cid, record)

    def deliver(self, cid: int, record: ObjectRecord) -> None:
        """Send a value to a process that holds a ref to it."""
        if cid in self.node.peers.alive:
            self.node.remote_objects.deliver(cid, record)
            return
        if cid == m.SHELL:
            self.node.spill_manager.reading(record.oid)
            self.node.shell(ServeReads(record.oid))
            return
        if record.kind == m.ARENA:
            self.node.spill_manager.told(record)
            self.node.objects.grant(record, cid)
        self.node.emit(cid, m.Value(m.VALUE, record.oid, record.kind, record.payload, record.held))

    def allocate(self, cid: int, message: m.Allocate) -> None:
        """ALLOCATE: memory for a value that the sender will write."""
        _, number, oid, size = message
        record = self.node.objects.get(oid)
        if record is not None and record.kind != m.PENDING:
            # A second attempt of a task whose first value is still there.
            self.node.emit(cid, m.Reply(m.REPLY, number, True, None))
            return
        self.node.admission.ask(Request(self, cid, oid, size, number))

    def granted(self, request: Request) -> None:
        """There is memory for a value that a process will write."""
        node = self.node
        cid, offset = request.lane, request.offset
        record = node.objects.ensure(request.oid)
        if record.kind != m.PENDING:  # as above
            node._release(offset)
            node.emit(cid, m.Reply(m.REPLY, request.detail, True, None))
            return
        if record.payload is not None:
            node._release(record.payload[0])
        record.writer = cid
        record.payload = (offset, request.size)
        node.emit(cid, m.Reply(m.REPLY, request.detail, True, offset))

    def refused(self, request: Request, error: ErrorValue) -> None:
        """There is none."""
        self.node.emit(request.lane, m.Reply(m.REPLY, request.detail, False, error))

    def put(self, cid: int, message: m.Put) -> None:
        """PUT: a value from `ray.put` is written; the sender holds it."""
        _, oid, held = message
        objects = self.node.objects
        record = objects.records[oid]
        objects.grant(record, cid)
        objects.fill(record, m.ARENA, record.payload, held)

    def forget_client(self, cid: int, called: bool = True) -> None:
        """Release everything that only a dead process held and, if it could have `called` anything, its requests."""
        node = self.node
        node.admission.forget_client(cid)
        node.spill_manager.forget_client(cid)
        node.objects.forget_client(cid)
        for record in list(node.objects.records.values()):
            self._lose_if_orphaned(record)
        for actor in list(node.actors.actors.values()):
            if actor.holders.pop(cid, None) is not None:
                node.actor_manager.end_if_unwanted(actor)
        if not called:  # as most workers, which end while very many tasks of others may wait
            return
        # The last ones first: they may be all that the results of earlier ones are for.
        for task in reversed(list(node.tasks.values())):
            if task.client == cid and task.kind != CREATION and not self._awaited(task):
                node.task_manager.cancel(cid, m.Cancel(m.CANCEL, task.task_id, task.kind == PLAIN, True))

    def _lose_if_orphaned(self, record: ObjectRecord) -> None:
        """Fail objects that can never get a value: no task computes it, and the process that knew it has ended."""
        node = self.node
        oid = record.oid
        if record.kind != m.PENDING or record.writer is not None or oid[:24] in node.tasks:
            return
        if record.away is not None and record.away.owner is not None:  # which is for that node to say
            return
        if owner_of(oid) in node.clients or node.placement.will_settle(oid):
            return
        node.objects.fail(record, "OwnerDiedError", message=oid.hex())
        node.objects.drop_if_unused(record)

    def _awaited(self, task: Task) -> bool:
        """True if others than its caller know a task's results."""
        if task.template.streaming:
            return False
        records = self.node.objects.records
        return any(oid in records for oid in return_ids(task.task_id, max(1, task.template.returns)))
