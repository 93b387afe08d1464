"""The objects of a node: their values, holders and waiters.

A ref that never leaves its process has no record here. It gets one when it *escapes* (is passed on inside a value or as an
argument), when its value is large, or when a client requests it. An object is freed when no process holds it and nothing pins
it. A process holds it by *grants*, counted on both sides, so that a release and a new grant may cross on the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from skate.core.task.task import Task
from skate.protocol.fields import ErrorValue
from skate.protocol.messages import ARENA, ERROR, INLINE, PENDING, REMOTE, SPILLED

Value = tuple[int, Any, tuple[bytes, ...]]


class ObjectRecord:
    """One object: its value (kind, payload), the ids inside its value, and what keeps it alive."""

    __slots__ = (
        "oid",
        "kind",
        "payload",
        "held",
        "holders",
        "pins",
        "waiters",
        "fetchers",
        "writer",
        "producer",
        "size",
        "remote",
    )

    def __init__(self, oid: bytes) -> None:
        self.oid = oid
        self.kind = PENDING
        self.payload: Any = None
        self.held: tuple[bytes, ...] = ()
        self.holders: dict[int, int] = {}
        self.pins = 0
        self.waiters: list[Task] = []  # tasks with it as an argument, once for each use
        self.fetchers: list[int] = []
        self.writer: int | None = None  # the process that is writing the value into the arena
        self.producer: Any = None  # the task that can reconstruct the value
        self.size = 0
        self.remote: Any = None  # its relations to other nodes

    def __repr__(self) -> str:
        kind = ("pending", "inline", "arena", "error", "unknown", "remote", "spilled")[self.kind]
        return f"<Object {self.oid.hex()[:16]} {kind} holders={self.holders} pins={self.pins}>"


class Memory(Protocol):
    """The memory for large values, and the disk that it overflows to."""

    def arrived(self, record: ObjectRecord) -> None:
        """Record that a value has been written."""

    def place_sent(self, record: ObjectRecord) -> None:
        """Record that a process is about to learn the place of a value."""

    def forget(self, record: ObjectRecord) -> None:
        """Forget a freed value, in memory and on disk."""

    def release(self, offset: int) -> None:
        """Free the memory at an offset."""


class Actors(Protocol):
    """The actors, since values contain actor handles as well as refs."""

    def pin(self, actor_id: bytes, change: int) -> None:
        """Count a pin: something other than a process keeps an actor."""

    def grant(self, cid: int, actor_id: bytes) -> None:
        """Count one more hold of a process."""


class Lineage(Protocol):
    """The tasks that can reconstruct lost values."""

    needs: dict[bytes, int]

    def retain(self, record: ObjectRecord) -> bool:
        """Return True if an object without users keeps its record, for a task that may run again."""

    def released(self, record: ObjectRecord) -> None:
        """Handle the removal of a record made by such a task."""


class RemoteObjects(Protocol):
    """The objects shared with other nodes."""

    @property
    def lineage(self) -> Lineage:
        """The tasks that can reconstruct lost values."""

    def added(self, record: ObjectRecord) -> None:
        """Handle a new record; another node may own its object."""

    def used(self, record: ObjectRecord) -> None:
        """Handle the first hold or pin of an object here."""

    def unused(self, record: ObjectRecord) -> None:
        """Handle the release of an object."""

    def dropped(self, record: ObjectRecord) -> None:
        """Handle the removal of a record."""


class ObjectTable:
    """All objects of a node, by id."""

    def __init__(
        self,
        memory: Memory,
        actors: Actors,
        deliver: Callable[[int, ObjectRecord], None],
        freed: Callable[[int, bytes], None],
        arrived: Callable[[Task], None],
        unrecorded: Callable[[ObjectRecord], None],
    ) -> None:
        self.records: dict[bytes, ObjectRecord] = {}
        #: Bytes of the values that are in the records themselves.
        self.inline_bytes = 0
        self._memory = memory
        self._release = memory.release
        self._actors = actors
        self._deliver = deliver
        #: True once an object may be on another node; then `remote_objects` is set, which decides about `remote`.
        self.shared = False
        self.remote_objects: RemoteObjects
        #: Processes to notify, through `freed`, when an object is freed.
        self.watched: dict[bytes, int] = {}
        self._freed = freed
        self._arrived = arrived
        self._unrecorded = unrecorded

    def share(self, remote_objects: RemoteObjects) -> None:
        """Share objects with other nodes from now on."""
        self.remote_objects = remote_objects
        self.shared = True

    def get(self, oid: bytes) -> ObjectRecord | None:
        """Return the record of an object, or None if it is not (or no longer) known here."""
        return self.records.get(oid)

    def ensure(self, oid: bytes) -> ObjectRecord:
        """Return the record of an object; create one without a value if there is none."""
        record = self.records.get(oid)
        if record is None:
            record = self.records[oid] = ObjectRecord(oid)
            if self.shared:
                self.remote_objects.added(record)
        return record

    def referenced(self, oid: bytes) -> ObjectRecord:
        """Return the record of an object that a message refers to; one without a record has been freed, and fails."""
        record = self.records.get(oid)
        if record is None:
            record = self.ensure(oid)
            self._unrecorded(record)
        return record

    def fill(self, record: ObjectRecord, kind: int, payload: Any, held: tuple[bytes, ...]) -> None:
        """Set the value of an object, once; wake everything that waits for it."""
        if record.kind != PENDING:
            return
        place = record.payload
        if place is not None and (
            kind != ARENA or payload[0] != place[0]
        ):  # a failed attempt had begun to write it
            self._release(place[0])
        before = record.held  # of a lost value that is made again
        record.kind = kind
        record.payload = payload
        record.held = held
        record.writer = None
        if kind == ARENA:
            record.size = payload[1]
            self._memory.arrived(record)
        elif kind == INLINE:
            self.inline_bytes += len(payload)
        for other in held:
            self.pin(other)
        for other in before:
            self.unpin(other)
        waiters, record.waiters = record.waiters, []
        fetchers, record.fetchers = record.fetchers, []
        for cid in fetchers:
            self._deliver(cid, record)
        for waiter in waiters:
            self._arrived(waiter)

    def refill(self, oid: bytes, kind: int, payload: Any, held: tuple[bytes, ...]) -> None:
        """Replace the lost value of an object; its caller has already received the first one."""
        record = self.records[oid]
        self.fill(record, kind, payload, held)
        self.drop_if_unused(record)

    def vanished(self, task_id: bytes, returns: tuple[Any, ...]) -> bool:
        """True if a task left out a value because an earlier attempt had written it, and that one has gone since."""
        for index, (kind, payload, _) in enumerate(returns, 1):
            if kind == ARENA and not payload[1]:
                record = self.records.get(task_id + index.to_bytes(4, "little"))
                if record is None or record.kind == PENDING:
                    return True
        return False

    @staticmethod
    def result(record: ObjectRecord, kind: int, payload: Any, forwarded: bool) -> tuple[int, Any]:
        """Return a result with its place: an earlier attempt may have written the value, and then this one did not."""
        if kind != ARENA or record.kind == PENDING:
            return kind, payload
        if record.kind == ARENA:
            return ARENA, record.payload
        return (ARENA, (0, record.size)) if forwarded else (REMOTE, record.size)

    def fail(self, record: ObjectRecord, name: str, **fields: Any) -> None:
        """Set an error as the value of an object."""
        self.fill(record, ERROR, (name, fields), ())

    def fail_end_of_stream(self, task_id: bytes) -> None:
        """Fail the object that stands for the end of a stream: the reader, which would publish it, has died."""
        oid = task_id + bytes(4)
        record = self.records.get(oid)
        if record is not None and record.kind == PENDING:
            self.fail(record, "OwnerDiedError", message=oid.hex())
            self.drop_if_unused(record)

    def grant(self, record: ObjectRecord, cid: int) -> None:
        """Count one more grant to a process."""
        record.holders[cid] = record.holders.get(cid, 0) + 1
        if record.remote is not None:
            owner = record.remote.owner
            if owner is not None and owner.cid != cid:
                self.remote_objects.used(record)

    def grant_any(self, cid: int, any_id: bytes) -> None:
        """Count a grant to a process, of an object or (by a shorter id) of an actor."""
        if len(any_id) == 28:
            self.grant(self.referenced(any_id), cid)
        else:
            self._actors.grant(cid, any_id)

    def lend(self, record: ObjectRecord, cid: int) -> None:
        """Record that a process is about to learn the place of a value in memory: it holds the value, which must not move."""
        self._memory.place_sent(record)
        self.grant(record, cid)

    def free(self, cid: int, oid: bytes, grants: int) -> None:
        """Take back grants of a process; zero grants mean that it will not write the value it requested memory for."""
        record = self.records.get(oid)
        if record is None:
            return
        if not grants and record.writer == cid:
            self._abandon(record)
        left = record.holders.get(cid, 0) - grants
        if left > 0:
            record.holders[cid] = left
            return
        record.holders.pop(cid, None)
        if cid in record.fetchers:  # a peer that requested the value no longer needs it
            record.fetchers = [other for other in record.fetchers if other != cid]
        self.drop_if_unused(record)

    def wanted(self, oid: bytes) -> bool:
        """Return True if an object without a value is awaited, held or pinned: it was lost and is being reconstructed."""
        record = self.records.get(oid)
        return (
            record is not None
            and record.kind == PENDING
            and bool(record.holders or record.pins > 0 or record.waiters or record.fetchers)
        )

    def failed_argument(self, task: Task) -> ErrorValue | None:
        """Return the error of an argument that could not be computed, or None."""
        for _, oid in task.deps:
            record = self.records[oid]
            if record.kind == ERROR:
                name, fields = record.payload
                return (name, {**fields, "through": (*fields.get("through", ()), task.template.name)})
        return None

    def pin(self, oid: bytes) -> None:
        """Keep an object (or, by a shorter id, an actor) for a task or for a value that contains it."""
        if len(oid) != 28:
            self._actors.pin(oid, 1)
            return
        record = self.referenced(oid)
        record.pins += 1
        if record.remote is not None:
            self.remote_objects.used(record)

    def unpin(self, oid: bytes) -> None:
        """Undo one `pin`."""
        if len(oid) != 28:
            self._actors.pin(oid, -1)
            return
        record = self.records.get(oid)
        if record is not None:
            record.pins -= 1
            self.drop_if_unused(record)

    def drop_if_unused(self, record: ObjectRecord) -> None:
        """Free an object that nothing holds, pins, writes or awaits."""
        if record.remote is not None:
            self.remote_objects.unused(record)
        if (
            record.holders
            or record.pins > 0
            or record.writer is not None
            or record.waiters
            or record.fetchers
        ):
            return
        shared = self.shared
        if shared and self.remote_objects.lineage.retain(record):
            return
        if self.records.pop(record.oid, None) is None:
            return
        if record.kind in (ARENA, SPILLED):
            self.forget_value(record)
        elif record.kind == INLINE:
            self.inline_bytes -= len(record.payload)
        elif record.kind == PENDING and record.payload is not None:
            self._release(record.payload[0])
        if self.watched and record.oid in self.watched:
            self._freed(self.watched.pop(record.oid), record.oid)
        held, record.held = record.held, ()
        for other in held:
            self.unpin(other)
        if shared:
            if record.remote is not None:
                self.remote_objects.dropped(record)
            if record.producer is not None:
                self.remote_objects.lineage.released(record)

    def forget_value(self, record: ObjectRecord) -> None:
        """Free the memory and disk space of a large value."""
        self._memory.forget(record)
        if record.kind == ARENA:
            self._release(record.payload[0])

    def _abandon(self, record: ObjectRecord) -> None:
        """Free the memory of a value whose writer has given up."""
        record.writer = None
        if record.kind == PENDING and record.payload is not None:
            self._release(record.payload[0])
            record.payload = None

    def forget_client(self, cid: int) -> None:
        """Handle the end of a process: free the objects that only it held, fail those that it was writing."""
        for oid in [oid for oid, watcher in self.watched.items() if watcher == cid]:
            del self.watched[oid]
        for record in list(self.records.values()):
            if record.writer == cid:
                self._abandon(record)
            if cid in record.fetchers:
                record.fetchers = [other for other in record.fetchers if other != cid]
            if record.holders.pop(cid, None) is not None or not record.holders:
                self.drop_if_unused(record)

    def check(self, pins: dict[bytes, int]) -> None:
        """Raise AssertionError if an invariant is broken; `pins` are those that tasks, actors and values account for."""
        inline = sum(len(record.payload) for record in self.records.values() if record.kind == INLINE)
        assert inline == self.inline_bytes, f"{self.inline_bytes} bytes are counted, but {inline} are there"
        for oid, record in self.records.items():
            assert record.oid == oid
            assert all(grants > 0 for grants in record.holders.values()), record
            assert record.kind in (PENDING, SPILLED) or not record.waiters, record
            assert record.kind in (PENDING, SPILLED) or not record.fetchers, record
            assert record.pins == pins.get(oid, 0), f"{record}, but {pins.get(oid, 0)} pins are accounted for"
            kept = (
                record.holders
                or record.pins
                or record.writer is not None
                or record.waiters
                or record.fetchers
            )
            kept = kept or (self.shared and oid in self.remote_objects.lineage.needs)
            assert kept, f"{record} is kept by nobody"

    def __repr__(self) -> str:
        return f"<ObjectTable {len(self.records)} objects>"
