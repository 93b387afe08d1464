"""Spilling: values move from memory to disk when room is needed, and are restored when needed again.

A process that knows the place of a value may read it there at any time. So before a value moves, every process that holds it is
asked (RECALL) to forget the place; a process that is reading the value refuses. If another process learns the place meanwhile,
the move is cancelled. So once all answers have arrived and the move proceeds, no process knows the place. The least recently
used values go first; arguments of tasks that run, or are about to, stay.

A copy on disk stays until the value's last ref is gone, so a restored value can leave memory again at no cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from skate.core.actor.actor_manager import ActorManager
from skate.core.cluster.membership import Membership
from skate.core.memory.admission import RESTORES, Admission, Request
from skate.core.memory.spill_move import BATCH_BYTES, RECALL_SECONDS, REFUSED_SECONDS, Move
from skate.core.object.object_table import ObjectRecord, ObjectTable
from skate.core.schedule.scheduler import Scheduler
from skate.core.task.task import Task
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m
from skate.protocol.effects import DropCopy, FreeBlocks, Restore, Spill
from skate.protocol.fields import ErrorValue
from skate.protocol.states import METHOD, QUEUED

#: Seconds during which a full disk is not tried again, unless space on it is freed.
FULL_SECONDS = 1.0
OUTSIDE = -1  # stands for external storage among the disk numbers


class Cluster(Protocol):
    """The operations on other nodes that this module needs."""

    def unwait(self, task: Task) -> None:
        """Stop a task's wait for a node."""

    def want(self, record: ObjectRecord) -> None:
        """A value that is elsewhere is needed here."""

    def copy_lost(self, record: ObjectRecord) -> None:
        """The value of another node's object is no longer here."""


class SpillManager:
    """Decides which values to spill and which to restore."""

    def __init__(self, admission: Admission, members: Membership, cluster: Cluster, external: bool) -> None:
        self.admission = admission
        self.allocator = admission.allocator
        self.clients = admission.clients
        self.clock = admission.clock
        self.emit, self.shell = admission.out.emit, admission.out.shell
        self.members = members
        self.cluster = cluster
        self.scheduler: Scheduler
        self.objects: ObjectTable
        self.task_manager: TaskManager
        self.actor_manager: ActorManager
        self.deliver: Callable[[int, ObjectRecord], None]
        self._rebuild: Callable[[ObjectRecord, str], None]  # reconstructs a lost value, or gives it an error
        #: Copies go to external storage, under the number of their move; else to the overflow file.
        self.external = external
        #: Values in the arena, most recently used last.
        self.warm: dict[bytes, ObjectRecord] = {}
        #: Values that are only on disk.
        self.spilled: dict[bytes, ObjectRecord] = {}
        #: Places of copies on disk, including those of values restored to the arena.
        self.copies: dict[bytes, int] = {}
        self.moves: dict[bytes, Move] = {}
        #: Copies being written, by the number of their move: (object, place).
        self.writes: dict[int, tuple[bytes, int]] = {}
        #: Values to restore: by the number of the read, or 0 while there is no room.
        self.restoring: dict[bytes, int] = {}
        #: Reads in progress: (object, destination).
        self.reads: dict[int, tuple[bytes, int]] = {}
        #: Values that were being read when recalled, and when that was.
        self.refused_at: dict[bytes, float] = {}
        #: Processes that did not answer in time; the values they hold are not recalled until they do.
        self.silent: set[int] = set()
        self.used_once = False  # anything was ever spilled
        self._coming = 0  # bytes of the values in `moves`
        self._fresh = True  # anything has changed since the last search for victims
        self._full: dict[int, float] = {}  # disks found full, and until when they count as full
        self._number = 0

    def connect(
        self,
        scheduler: Scheduler,
        objects: ObjectTable,
        task_manager: TaskManager,
        actor_manager: ActorManager,
        deliver: Callable[[int, ObjectRecord], None],
        rebuild: Callable[[ObjectRecord, str], None],
    ) -> None:
        """Set the users of values, which are notified when a value is restored or lost."""
        self.scheduler = scheduler
        self.objects = objects
        self.task_manager = task_manager
        self.actor_manager = actor_manager
        self.deliver = deliver
        self._rebuild = rebuild

    @property
    def able(self) -> bool:
        """False while there is no disk, or every disk is full."""
        if not self._full:
            return self.external or bool(self.allocator.disks)
        self._full = {disk: until for disk, until in self._full.items() if until > self.clock.now}
        if self.external:
            return OUTSIDE not in self._full
        return any(disk not in self._full for disk in range(len(self.allocator.disks)))

    # -- events of values

    def arrived(self, record: ObjectRecord) -> None:
        """Record that a value has been written."""
        offset = record.payload[0]
        self.admission.writing.pop(offset, None)
        if offset < self.allocator.boundary:
            self.warm[record.oid] = record
            self._fresh = True

    def place_sent(self, record: ObjectRecord) -> None:
        """Record that a process is about to learn the place of a value, which must stay there."""
        oid = record.oid
        warm = self.warm
        if oid in warm:
            del warm[oid]
            warm[oid] = record
            if self.moves:
                move = self.moves.get(oid)
                if move is not None:
                    self._cancel(move)

    def reading(self, oid: bytes) -> None:
        """Record that another node reads a value piece by piece: it stays until the reads have stopped for a while."""
        if oid in self.warm:
            self.refused_at[oid] = self.clock.now
            move = self.moves.get(oid)
            if move is not None:
                self._cancel(move)

    def forget(self, record: ObjectRecord) -> None:
        """Forget a freed value, in memory and on disk."""
        oid = record.oid
        self.warm.pop(oid, None)
        self.refused_at.pop(oid, None)
        self.spilled.pop(oid, None)
        self.restoring.pop(oid, None)
        move = self.moves.get(oid)
        if move is not None:
            self._cancel(move)
        place = self.copies.pop(oid, None)
        if place is not None:
            self._give_back(place)

    def _give_back(self, place: int) -> None:
        if self.external:
            self.shell(DropCopy(place))
        else:
            self.release(place)

    def release(self, offset: int) -> None:
        """Free the memory at an offset, or the blocks on a disk."""
        self.admission.writing.pop(offset, None)
        on_disk = self.allocator.free(offset)
        if on_disk is not None:
            self._full.pop(self.allocator.disk_of(offset), None)  # the disk has room again
            self.shell(FreeBlocks(*on_disk))

    def disk_full(self, disk: int) -> None:
        """Record that a disk is full."""
        self._full[disk] = self.clock.now + FULL_SECONDS

    # -- spilling

    def make_room(self, size: int) -> bool:
        """Have values moved out until `size` bytes are coming free; False if nothing is."""
        now = self.clock.now
        late = [move for move in self.moves.values() if move.pending and now - move.since >= RECALL_SECONDS]
        for move in late:
            self.silent |= move.pending
        for move in [item for item in self.moves.values() if late and self.silent & item.pending]:
            self._refused(move)
        arena = self.allocator.arena
        missing = size - (arena.capacity - arena.used)
        if self._fresh and self.able and (not self.moves or self._coming < missing):
            self._fresh = False
            # Enough bytes may be free, but fragmented.
            goal = missing if missing > 0 else size
            self._choose(max(goal, min(BATCH_BYTES, arena.capacity // 8)))
        return bool(self.moves)

    def _choose(self, goal: int) -> None:
        busy = self._busy()
        late = self.clock.now - REFUSED_SECONDS
        refused = self.refused_at = {oid: at for oid, at in self.refused_at.items() if at > late}
        coming = self._coming
        victims = []
        for oid, record in self.warm.items():
            if coming >= goal:
                break
            if oid in busy or oid in self.moves or oid in refused:
                continue
            if not self.silent or self.silent.isdisjoint(record.holders):
                victims.append(record)
                coming += record.size
        for record in victims:
            self._recall(record)

    def _busy(self) -> set[bytes]:
        """Return the arguments of tasks that were sent, or will be sent once all their arguments are available."""
        scheduler = self.scheduler
        tasks = [task for worker in scheduler.workers.values() for task in worker.outstanding.values()]
        tasks += [group.queue[0] for group in scheduler.waiting.values() if group.queue]
        tasks += [task for oid in self.restoring for task in self.spilled[oid].waiters]
        return {oid for task in tasks for _, oid in task.deps}

    def _recall(self, record: ObjectRecord) -> None:
        peers = self.members.alive
        self._number = number = self._number + 1
        pending = {cid for cid in record.holders if cid not in peers}
        self.moves[record.oid] = move = Move(record, number, pending, self.clock.now)
        self._coming += record.size
        for cid in pending:
            self.emit(cid, m.Recall(m.RECALL, number, record.oid))
        if not pending:
            self._write(move)

    def recalled(self, cid: int, message: m.Recalled) -> None:
        """RECALLED: a process has forgotten the place of a value, or is reading it."""
        _, number, oid, grants = message
        self.silent.discard(cid)
        move = self.moves.get(oid)
        if move is None or move.number != number or cid not in move.pending:
            return
        # If it counts fewer grants than this node, it has not yet handled all messages sent to it.
        if grants == move.record.holders.get(cid, 0):
            self._without(move, cid)
        else:
            self._refused(move)

    def forget_client(self, cid: int) -> None:
        """Forget a process that has ended, with its reads of values."""
        self._fresh = True
        self.silent.discard(cid)
        for move in [move for move in self.moves.values() if cid in move.pending]:
            self._without(move, cid)

    def _without(self, move: Move, cid: int) -> None:
        move.pending.discard(cid)
        if not move.pending:
            self._write(move)

    def _refused(self, move: Move) -> None:
        """Cancel the move of a value that a process is reading; it counts as just used."""
        self._cancel(move)
        oid = move.record.oid
        self.warm[oid] = self.warm.pop(oid)
        self.refused_at[oid] = self.clock.now

    def _cancel(self, move: Move) -> None:
        del self.moves[move.record.oid]
        self._coming -= move.record.size
        self._fresh = True

    def _write(self, move: Move) -> None:
        """Copy a value whose place no process knows to disk, unless a copy is there."""
        record = move.record
        if record.oid in self.copies:
            self._moved(move)
            return
        place: int | None = move.number
        if not self.external:
            place = self.allocator.allocate_copy(record.size, self._full)
        if place is None:
            self._cancel(move)
            for disk in range(len(self.allocator.disks)):
                self.disk_full(disk)
            return
        self.writes[move.number] = (record.oid, place)
        on_disk = -1 if self.external else place - self.allocator.boundary
        offset, size = record.payload
        self.shell(Spill(move.number, record.oid, offset, size, on_disk))

    def spilled_to(self, number: int, success: bool) -> None:
        """Handle a copy written to disk, or a full disk."""
        oid, place = self.writes.pop(number)
        move = self.moves.get(oid)
        goes_on = move is not None and move.number == number  # else it was used or freed meanwhile
        if move is not None and goes_on and success:
            self.copies[oid] = place
            self._moved(move)
            return
        if success or not self.external:
            self._give_back(place)
        if move is not None and goes_on:
            self._cancel(move)
        if not success:
            self.disk_full(OUTSIDE if self.external else self.allocator.disk_of(place))

    def _moved(self, move: Move) -> None:
        """Record that a value is on disk, and free its memory."""
        record = move.record
        self._cancel(move)
        del self.warm[record.oid]
        offset, _ = record.payload
        record.kind = m.SPILLED
        record.payload = None
        self.spilled[record.oid] = record
        self.used_once = True
        self.release(offset)

    # -- restoring

    def lacks(self, task: Task) -> bool:
        """Return True if any arguments of a task are only on disk; start to restore them."""
        lacking = False
        for _, oid in task.deps:
            record = self.spilled.get(oid)
            if record is not None:
                lacking = True
                self.want(record)
        return lacking

    def want(self, record: ObjectRecord) -> None:
        """Restore a value; its waiters and fetchers wait for it, and queued tasks check again when tasks are sent."""
        if record.oid not in self.restoring:
            self.restoring[record.oid] = 0
            self.admission.ask(Request(self, RESTORES, record.oid, record.size))

    def granted(self, request: Request) -> None:
        """Handle a granted request: there is room to restore a value."""
        oid = request.oid
        if self.restoring.get(oid) != 0:  # freed meanwhile
            self.release(request.offset)
            return
        self._number = number = self._number + 1
        self.restoring[oid] = number
        self.reads[number] = (oid, request.offset)
        place = self.copies[oid]
        if not self.external:
            place -= self.allocator.boundary
        self.shell(Restore(number, place, request.offset, request.size))

    def refused(self, request: Request, error: ErrorValue) -> None:
        """Handle a refused request to restore a value: waiters get the error, and the value stays on disk."""
        record = self.spilled.get(request.oid)
        if record is None or self.restoring.get(request.oid) != 0:
            return
        fetchers, record.fetchers = record.fetchers, []
        for cid in fetchers:
            if cid == m.SHELL:
                self.deliver(cid, record)
            else:
                self.emit(cid, m.Value(m.VALUE, record.oid, m.ERROR, error, ()))
        while tasks := {task.task_id: task for task in (*record.waiters, *self._queued(record.oid))}:
            record.waiters = []
            for task in tasks.values():  # further calls of the same callers may wait for it too
                self._end(task, error)
        self.restoring.pop(request.oid, None)
        self.scheduler.dispatch_all()
        self.objects.drop_if_unused(record)

    def _end(self, task: Task, error: ErrorValue) -> None:
        if task.task_id not in self.task_manager.tasks:
            return
        self.scheduler.dequeue(task)
        if task.kind == METHOD:
            self.actor_manager.calls.dequeue(task)
            self.task_manager.fail(task, error)
            self.actor_manager.end_if_unwanted(task.actor)
        elif task.actor is not None:
            self.actor_manager.arguments_failed(task, error)
        else:
            self.task_manager.fail(task, error)

    def _queued(self, oid: bytes) -> list[Task]:
        """Return the queued tasks that take a value."""
        tasks = self.task_manager.tasks.values()
        return [
            t
            for t in tasks
            if t.state == QUEUED and t.kind != METHOD and any(oid == dep for _, dep in t.deps)
        ]

    def read_in_place(self, oid: bytes) -> bool:
        """Serve a value from a disk of this machine, because there is no room to restore it."""
        record = self.spilled.get(oid)
        if record is None or self.restoring.get(oid) != 0:  # freed meanwhile
            return True
        if self.external or self.allocator.disk_of(
            self.copies[oid]
        ):  # not on the disk that other processes can read
            return False
        del self.restoring[oid]
        self._in_memory(record, self.copies.pop(oid))
        return True

    def restored(self, number: int, problem: str) -> None:
        """Handle a restored value, or a failed read."""
        oid, offset = self.reads.pop(number)
        if self.restoring.get(oid) != number:
            self.release(offset)
            return
        del self.restoring[oid]
        record = self.spilled[oid]
        if not problem:
            self._in_memory(record, offset)
        else:
            self.release(offset)
            self._lost(record, problem)

    def _in_memory(self, record: ObjectRecord, offset: int) -> None:
        del self.spilled[record.oid]
        record.kind = m.ARENA
        record.payload = (offset, record.size)
        self.arrived(record)
        if offset >= self.allocator.boundary and record.oid in self.copies:
            self._give_back(self.copies.pop(record.oid))  # it stays on disk for good
        objects = self.objects
        fetchers, record.fetchers = record.fetchers, []
        waiters, record.waiters = record.waiters, []
        for cid in fetchers:
            self.deliver(cid, record)
        for task in waiters:
            self.task_manager.argument_arrived(task)
        self.scheduler.dispatch_all()
        objects.drop_if_unused(record)

    def _lost(self, record: ObjectRecord, problem: str) -> None:
        """Handle an unreadable copy: reconstruct the value if possible."""
        self.forget(record)
        for task in self._queued(record.oid):
            self.scheduler.take_out(task)
            self.cluster.unwait(task)
            for _ in [1 for _, oid in task.deps if oid == record.oid]:
                self.task_manager.await_argument(task, record)
        remote = record.remote
        if remote is not None and remote.owner is not None:
            self._copy_lost(record)
            return
        if remote is not None and (remote.place or remote.copies):  # which have it still
            record.kind, record.payload = m.REMOTE, record.size
            self.cluster.want(record)
            self.scheduler.dispatch_all()
            return
        record.kind, held, record.held = m.PENDING, record.held, ()
        self._rebuild(record, problem)
        self.scheduler.dispatch_all()
        for other in held:
            self.objects.unpin(other)
        self.objects.drop_if_unused(record)

    def _copy_lost(self, record: ObjectRecord) -> None:
        """Handle an unreadable copy of a value that another node owns: that node knows of others, or reconstructs it."""
        record.kind = m.PENDING
        self.cluster.copy_lost(record)
        reads = record.fetchers.count(m.SHELL)
        record.fetchers = [cid for cid in record.fetchers if cid != m.SHELL]
        for _ in range(reads):  # by other nodes, which ask the owner again
            self.deliver(m.SHELL, record)
        if record.waiters or record.fetchers:
            self.cluster.want(record)
        self.scheduler.dispatch_all()
        self.objects.drop_if_unused(record)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        boundary = self.allocator.boundary
        records = self.objects.records
        for record in records.values():
            if record.kind == m.ARENA:
                assert (record.oid in self.warm) == (record.payload[0] < boundary), f"{record} was overlooked"
            elif record.kind == m.SPILLED:
                assert self.spilled.get(record.oid) is record and record.payload is None, record
                assert record.oid in self.copies, f"{record} is nowhere"
                assert record.oid in self.restoring or not (record.waiters or record.fetchers), (
                    f"{record} is waited for and does not come"
                )
        for table in (self.warm, self.spilled):
            for oid, record in table.items():
                assert records.get(oid) is record, f"{record} is gone"
                assert record.kind == (m.ARENA if table is self.warm else m.SPILLED), record
        assert set(self.copies) <= {*self.warm, *self.spilled}, "a copy of a value that is gone"
        assert set(self.restoring) <= set(self.spilled), "what comes back is not on disk"
        assert self._coming == sum(move.record.size for move in self.moves.values())
        for oid, move in self.moves.items():
            assert self.warm.get(oid) is move.record, f"{move} of a value that is not in memory"
            assert move.pending or move.number in self.writes, f"{move} waits for nobody"
            assert all(cid in self.clients for cid in move.pending), f"{move} waits for who is gone"
        for task in self.task_manager.tasks.values():
            if task.worker is not None and task.node is None:
                for _, oid in task.deps:
                    assert oid not in self.spilled, f"{task} was sent, but its argument is on disk"
                    assert oid not in self.moves, f"{task} was sent, but its argument is leaving"
