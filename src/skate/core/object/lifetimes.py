"""Messages about objects: escape, publish, hold, free, fetch, and memory for large values."""

from __future__ import annotations

from typing import Protocol

from skate.core.actor.actor_manager import ActorManager
from skate.core.cluster.membership import Membership
from skate.core.memory.admission import Admission, Request
from skate.core.memory.spill_manager import SpillManager
from skate.core.object.object_table import ObjectRecord, ObjectTable
from skate.core.placement.placement_table import PlacementTable
from skate.core.task.task import Task, return_ids
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m
from skate.protocol.effects import ServeReads
from skate.protocol.fields import ErrorValue
from skate.protocol.states import CREATION, PLAIN

FREED = "ReferenceCountingAssertionError"
UNCOUNTED = "the process or node that passed on the ref was lost before the owner could count this borrower"


def owner_of(oid: bytes) -> int:
    """Return the id of the process that made an object's id."""
    return int.from_bytes(oid[16:20], "little")


class Cluster(Protocol):
    """The operations on other nodes that this module needs."""

    def want(self, record: ObjectRecord) -> None:
        """Fetch a value from another node."""

    def deliver(self, cid: int, record: ObjectRecord) -> None:
        """Answer a FETCH from a peer."""

    def deliver_early(self, cid: int, record: ObjectRecord) -> bool:
        """Name a place to a peer although the value has not arrived here; return False if none is known."""


class Lifetimes:
    """Handles the clients' messages about refs, and updates the object and actor tables."""

    def __init__(
        self,
        admission: Admission,
        spill_manager: SpillManager,
        task_manager: TaskManager,
        actor_manager: ActorManager,
        cluster: Cluster,
    ) -> None:
        self.admission = admission
        self.spill_manager = spill_manager
        self.task_manager = task_manager
        self.actor_manager = actor_manager
        self.cluster = cluster
        self.members: Membership = spill_manager.members
        self.clients = task_manager.clients
        self.tasks = task_manager.tasks
        self.emit, self.shell = task_manager.out.emit, task_manager.out.shell
        self.objects: ObjectTable
        self.placement: PlacementTable

    def connect(self, objects: ObjectTable, placement: PlacementTable) -> None:
        """Set the object table, which delivers values through this class, and the placement table, which fills some objects."""
        self.objects = objects
        self.placement = placement

    def escape(self, cid: int, message: m.Escape) -> None:
        """ESCAPE: the sender is about to pass on a ref that it holds, whose value is not available yet."""
        _, oid = message
        objects = self.objects
        objects.grant(objects.ensure(oid), cid)

    def publish(self, cid: int, message: m.Publish) -> None:
        """PUBLISH: the sender has the value of a ref that it passes on."""
        _, oid, kind, payload, held, granted = message
        objects = self.objects
        record = objects.ensure(oid)
        if granted:
            objects.grant(record, cid)
        self.placement.awaiting.pop(oid, None)
        objects.fill(record, kind, payload, held)
        objects.drop_if_unused(record)

    def hold(self, cid: int, message: m.Hold) -> None:
        """HOLD: the sender found a ref or a handle inside a value."""
        _, any_id = message
        self.objects.grant_any(cid, any_id)
        if len(any_id) == 28:
            self._lose_if_orphaned(self.objects.records[any_id])

    def unrecorded(self, record: ObjectRecord) -> None:
        """Fail a new record of an object of this node that is referred to: its owner freed it, or has ended.

        An object gets its record before any message carries its ref, and keeps it while a borrower is counted. A borrower goes
        uncounted if the node that lent it the ref is lost before its HOLD arrives, or if it is being killed itself.
        """
        if record.remote is not None and record.remote.owner is not None:  # the owner node decides that
            return
        oid = record.oid
        task = self.tasks.get(oid[:24])
        if task is not None and not task.has_given(oid):
            return
        if owner_of(oid) in self.clients:
            self.objects.fail(record, FREED, message=oid.hex(), detail=UNCOUNTED)
        else:
            self.objects.fail(record, "OwnerDiedError", message=oid.hex())

    def free(self, cid: int, message: m.Free) -> None:
        """FREE: the sender gives grants back."""
        _, any_id, grants = message
        if len(any_id) == 28:
            if not grants:
                self.admission.withdraw(cid, any_id)
            self.objects.free(cid, any_id, grants)
            return
        self.actor_manager.free(cid, any_id, grants)

    def watch(self, cid: int, message: m.Watch) -> None:
        """WATCH: tell the sender when the object is freed, because it keeps data for it."""
        _, oid = message
        if oid in self.objects.records:
            self.objects.watched[oid] = cid
        else:
            self.emit(cid, m.Freed(m.FREED, oid))

    def freed(self, cid: int, oid: bytes) -> None:
        """Tell the watchers of an object that it was freed."""
        self.emit(cid, m.Freed(m.FREED, oid))

    def fetch(self, cid: int, message: m.Fetch) -> None:
        """FETCH: send the value now, or as soon as it is available."""
        _, oid = message
        record = self.objects.referenced(oid)
        self._lose_if_orphaned(record)
        if record.kind == m.PENDING:
            if (
                record.remote is not None
                and cid in self.members.alive
                and self.cluster.deliver_early(cid, record)
            ):
                return
            record.fetchers.append(cid)
            if record.remote is not None:
                self.cluster.want(record)
        elif record.kind == m.REMOTE and cid not in self.members.alive:
            record.fetchers.append(cid)
            self.cluster.want(record)
        elif record.kind == m.SPILLED and cid not in self.members.alive:
            record.fetchers.append(cid)
            self.spill_manager.want(record)
        else:
            self.deliver(cid, record)
            if record.kind == m.ERROR:  # of an object that was freed, perhaps, which nothing holds
                self.objects.drop_if_unused(record)

    def deliver(self, cid: int, record: ObjectRecord) -> None:
        """Send a value to a process that holds a ref to it."""
        if cid in self.members.alive:
            self.cluster.deliver(cid, record)
            return
        if cid == m.SHELL:
            self.spill_manager.reading(record.oid)
            self.shell(ServeReads(record.oid))
            return
        if record.kind == m.ARENA:
            self.objects.lend(record, cid)
        self.emit(cid, m.Value(m.VALUE, record.oid, record.kind, record.payload, record.held))

    def allocate(self, cid: int, message: m.Allocate) -> None:
        """ALLOCATE: memory for a value that the sender will write."""
        _, number, oid, size = message
        record = self.objects.get(oid)
        if record is not None and record.kind != m.PENDING:
            # A second attempt of a task, whose first attempt's value still exists.
            self.emit(cid, m.Reply(m.REPLY, number, True, None))
            return
        self.admission.ask(Request(self, cid, oid, size, number))

    def granted(self, request: Request) -> None:
        """Handle a granted request: there is memory for a value that a process will write."""
        cid, offset = request.lane, request.offset
        record = self.objects.ensure(request.oid)
        if record.kind != m.PENDING:  # it exists already, see `allocate`
            self.spill_manager.release(offset)
            self.emit(cid, m.Reply(m.REPLY, request.detail, True, None))
            return
        if record.payload is not None:
            self.spill_manager.release(record.payload[0])
        record.writer = cid
        record.payload = (offset, request.size)
        self.emit(cid, m.Reply(m.REPLY, request.detail, True, offset))

    def refused(self, request: Request, error: ErrorValue) -> None:
        """Handle a refused request: there is no memory."""
        self.emit(request.lane, m.Reply(m.REPLY, request.detail, False, error))

    def put(self, cid: int, message: m.Put) -> None:
        """PUT: the sender has written a value for `ray.put` and holds it."""
        _, oid, held = message
        objects = self.objects
        record = objects.records[oid]
        objects.grant(record, cid)
        objects.fill(record, m.ARENA, record.payload, held)

    def forget_client(self, cid: int, called: bool = True) -> None:
        """Release everything that only a dead process held; if it may have `called` anything, drop its requests too."""
        self.admission.forget_client(cid)
        self.spill_manager.forget_client(cid)
        self.objects.forget_client(cid)
        for record in list(self.objects.records.values()):
            self._lose_if_orphaned(record)
        self.actor_manager.forget_client(cid)
        if not called:  # true for most workers; this avoids a search through all waiting tasks
            return
        # Newest first: earlier tasks may exist only to feed later ones.
        for task in reversed(list(self.tasks.values())):
            if task.client == cid and task.kind != CREATION and not self._awaited(task):
                self.task_manager.cancel(cid, m.Cancel(m.CANCEL, task.task_id, task.kind == PLAIN, True))

    def _lose_if_orphaned(self, record: ObjectRecord) -> None:
        """Fail objects that can never get a value because no task computes it and the process that had it has ended."""
        oid = record.oid
        if record.kind != m.PENDING or record.writer is not None or oid[:24] in self.tasks:
            return
        if record.remote is not None and record.remote.owner is not None:  # the owner node decides that
            return
        if owner_of(oid) in self.clients or self.placement.will_settle(oid):
            return
        self.objects.fail(record, "OwnerDiedError", message=oid.hex())
        self.objects.drop_if_unused(record)

    def _awaited(self, task: Task) -> bool:
        """Return True if a task's results are known beyond its caller."""
        if task.template.streaming:
            return False
        records = self.objects.records
        return any(oid in records for oid in return_ids(task.task_id, max(1, task.template.returns)))
