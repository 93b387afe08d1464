"""Lineage: the task that made each value, so that the value can be reconstructed when its node is lost.

Only tasks with large results may have to run again: owners have the small results. An actor call is repeated if it may be
retried and the actor is alive. A stream runs again from its start and yields the lost items. Arguments of such a task are kept
as ids, not as values: a value that nothing else needs is freed, and reconstructed in turn when needed. A value that no task can
make again (it was put, or its task is not retried) is kept as well.
"""

from __future__ import annotations

from collections.abc import Callable

from skate.core.actor.actor_calls import ActorCalls
from skate.core.actor.call_errors import retries_of
from skate.core.cluster.membership import Membership
from skate.core.cluster.remote_object import RemoteObject
from skate.core.cluster.secondary_copies import SecondCopies
from skate.core.object.object_table import ObjectRecord, ObjectTable
from skate.core.task.task import Task, return_ids
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m
from skate.protocol.fields import ErrorValue
from skate.protocol.states import METHOD, WAITING

KEPT_MAX = 10_000
FAILED = "ObjectReconstructionFailedError"
NOT_RECORDED = "the task that created it is no longer recorded"  # why a value cannot be reconstructed
PUT = b"\xff" * 4  # first byte of the ids of put values
NOBODY = -3  # the client of a task that runs again: its results only fill records
EVERYTHING = 1 << 60  # the number of items read of a stream that runs again, so that it waits for no reader


class Lineage:
    """The tasks that may have to run again, and the objects that they would take."""

    def __init__(
        self,
        objects: ObjectTable,
        task_manager: TaskManager,
        calls: ActorCalls,
        copies: SecondCopies,
        members: Membership,
        want: Callable[[ObjectRecord], None],
    ) -> None:
        self.objects = objects
        self.task_manager = task_manager
        #: Tasks in progress.
        self.running = task_manager.tasks
        self.emit = task_manager.out.emit
        self.calls = calls
        self.copies = copies
        self._node_id = members.here.node_id
        self._tag = members.here.tag
        self._want = want
        #: Tasks that have ended and may run again.
        self.tasks: dict[bytes, Task] = {}
        #: Own objects, with the number of those tasks that take them.
        self.needs: dict[bytes, int] = {}
        self._loose: list[bytes] = []
        self._loosening = False

    def keep(self, task: Task) -> None:
        """Remember a successful task if its results can be lost."""
        if task.origin is not None:
            return
        records = self.objects.records
        if task.template.streaming:
            self.fail_lost_items(task, missing_item_error(task), task.yielded())
        made = [records[oid] for oid in made_by(task) if oid in records]
        lost = [record for record in made if is_lost(record)]  # its removal waited for the end of its task
        for record in lost:
            record.kind = m.REMOTE
            record.payload = record.size
        self._keep(task, [record for record in made if is_large(record)])
        for record in lost:
            self._want(record)

    def _keep(self, task: Task, made: list[ObjectRecord]) -> None:
        records = self.objects.records
        if not made:
            return
        if (
            task.kind == METHOD and not task.attempt
        ):  # the actor's setting was not known here when the call was made
            task.retries = retries_of(task)
        if task.retries == 0 or task.cancelled:
            self._explain(made, *unreconstructable_reason(task))
            return
        for record in made:
            record.producer = task
        task.lineage_refs = len(made)
        self.tasks[task.task_id] = task
        for oid in self._taken(task):
            if self._ours(oid):
                self.needs[oid] = self.needs.get(oid, 0) + 1
            else:
                self.objects.pin(oid)
        if len(self.tasks) > KEPT_MAX:
            oldest = next(iter(self.tasks.values()))
            last = [
                records[oid] for oid in made_by(oldest) if oid in records and records[oid].producer is oldest
            ]
            text = (
                f"only the last {KEPT_MAX} tasks with large results are recorded; store such values elsewhere"
            )
            self._explain(last, "OBJECT_UNRECONSTRUCTABLE_LINEAGE_EVICTED", text)
            for record in last:
                record.producer = None
            self._forget(oldest)

    @staticmethod
    def _explain(made: list[ObjectRecord], reason: str, text: str) -> None:
        """Record for values on other nodes why they cannot be reconstructed."""
        for record in made:
            if record.remote is not None:
                record.remote.final = (reason, text)

    @staticmethod
    def _taken(task: Task) -> list[bytes]:
        return [oid for oid in (*(oid for _, oid in task.deps), *task.held) if len(oid) == 28]

    def _ours(self, oid: bytes) -> bool:
        return oid[8:16] == self._tag

    def pinned(self) -> list[bytes]:
        """The objects of other nodes that are pinned for kept tasks."""
        return [oid for task in self.tasks.values() for oid in self._taken(task) if not self._ours(oid)]

    def retain(self, record: ObjectRecord) -> bool:
        """Return True if an object without users keeps its record for a kept task, and a large value if no task can make it."""
        objects = self.objects
        if record.oid not in self.needs or objects.get(record.oid) is not record:
            return False
        if record.kind == m.PENDING:  # it is kept for its id, unless nothing will make it
            return record.oid[:24] in self.running
        if record.kind not in (m.ARENA, m.REMOTE, m.SPILLED):
            return True
        if record.producer is None or record.producer.retries == 0:
            return True
        if record.kind != m.REMOTE:
            objects.forget_value(record)
        if record.remote is None:
            record.remote = RemoteObject()
        remote = record.remote
        if remote.place is not None and remote.place.alive:
            self.emit(remote.place.cid, (m.FREE, record.oid, 1))
        remote.place = None
        remote.readers.clear()
        self.copies.release(remote, record.oid)
        record.kind = m.REMOTE
        record.payload = record.size
        held, record.held = record.held, ()
        for other in held:
            objects.unpin(other)
        return True

    def released(self, record: ObjectRecord) -> None:
        """Handle the removal of a record: drop its task unless it has other results."""
        task, record.producer = record.producer, None
        if task.task_id in self.tasks:
            task.lineage_refs -= 1
            if not task.lineage_refs:
                self._forget(task)

    def _forget(self, task: Task) -> None:
        if self.tasks.pop(task.task_id, None) is None:
            return
        for oid in self._taken(task):
            if not self._ours(oid):
                self.objects.unpin(oid)
                continue
            self.needs[oid] -= 1
            if not self.needs[oid]:
                del self.needs[oid]
                self._loose.append(oid)
        # A loop, not recursion: a chain of ancestors may be long.
        if self._loosening:
            return
        self._loosening = True
        while self._loose:
            record = self.objects.get(self._loose.pop())
            if record is not None:
                self.objects.drop_if_unused(record)
        self._loosening = False

    def rebuild(self, record: ObjectRecord, problem: str = "") -> None:
        """Reconstruct a lost value that is needed: run its task again, or set an error that explains the problem."""
        task: Task | None = record.producer
        runs = self.running.get(record.oid[:24])
        if runs is not None and runs.client == NOBODY:  # for another of its values, lost just before
            return
        if task is None and runs is not None and runs.node is not None and not runs.template.streaming:
            # The message that it has ended, or that its node is lost, has not arrived yet.
            self._note_lost(record, runs)
            return
        if task is None and runs is not None and is_yet_to_yield(runs, record):
            return
        if task is None or task.task_id not in self.tasks or task.retries == 0:
            self._fail(record, task, problem)
            return
        if task.task_id in self.running:
            return
        for oid in made_by(task):
            other = self.objects.get(oid)
            if other is not None and other.producer is task:
                other.producer = None
                if other.kind == m.REMOTE and other.remote.place is None:
                    other.kind = m.PENDING
                    other.payload = None
        task.retries -= task.retries > 0
        self.task_manager.count_attempt(task)
        task.lineage_refs = 0
        task.given = None
        task.missing = 0
        task.state = WAITING
        task.node = task.worker = None
        task.client = NOBODY
        task.consumed = EVERYTHING
        self.running[task.task_id] = task
        task.template.entered += 1
        self.task_manager.take_arguments(task)
        self._forget(task)
        if task.kind == METHOD:
            self.calls.again(task)
        elif not task.missing:
            self.task_manager.arguments_complete(task)

    def fail_lost_items(self, task: Task, error: ErrorValue, yielded: int = 0) -> None:
        """Handle the end of a stream: set an error on lost items after the first `yielded`, which it did not yield again."""
        objects = self.objects
        for oid in made_by(task)[yielded:]:
            record = objects.get(oid)
            if record is not None and record.kind == m.PENDING and record.writer is None:
                objects.fill(record, m.ERROR, error, ())
                objects.drop_if_unused(record)

    def interrupted(self, record: ObjectRecord) -> None:
        """Handle a lost value whose task has not ended but is retried: it will be made again."""
        task = self.running.get(record.oid[:24])
        if task is None or task.origin is not None or record.kind != m.REMOTE:
            return
        if all_results_arrived(task) or (task.template.streaming and not is_yet_to_yield(task, record)):
            return
        record.kind = m.PENDING
        record.payload = None
        self._note_lost(record, task)

    @staticmethod
    def _note_lost(record: ObjectRecord, task: Task) -> None:
        """Note that a result must be given once more if its task, not known to have ended, runs again."""
        if task.given is not None and record.oid in task.given and not all_results_arrived(task):
            task.given.discard(record.oid)
            task.lost_results |= {record.oid}

    def _fail(self, record: ObjectRecord, task: Task | None, problem: str) -> None:
        """Fail a lost value permanently, with the lost node and the reason why it cannot be reconstructed."""
        remote = record.remote
        if record.oid[:4] == PUT:
            reason, text = (
                "OBJECT_UNRECONSTRUCTABLE_PUT",
                "it was created by put(), so there is no task to run again",
            )
        elif task is not None and task.retries == 0:
            reason, text = unreconstructable_reason(task)
        elif remote is not None and remote.final is not None:
            reason, text = remote.final
        else:
            reason, text = ("OBJECT_UNRECONSTRUCTABLE_REF_NOT_FOUND", NOT_RECORDED)
        if remote is not None and remote.lost is not None:
            text = f"it was on {remote.lost.describe()}, which {remote.lost.reason}; {text}"
        elif problem:
            text = f"{problem}; {text}"
        text = f"{text} (owner: node {self._node_id.hex()})"
        fields = {"message": record.oid.hex(), "reason": reason, "reason_message": text}
        self.objects.fail(record, FAILED, **fields)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        counted: dict[bytes, int] = {}
        lineage_refs: dict[bytes, int] = {}
        for record in self.objects.records.values():
            if record.producer is not None:
                assert record.producer.task_id in self.tasks, (
                    f"{record} could be made again by a task that was dropped"
                )
                lineage_refs[record.producer.task_id] = lineage_refs.get(record.producer.task_id, 0) + 1
        for task in self.tasks.values():
            assert task.lineage_refs > 0, f"{task} is kept for nothing"
            made = lineage_refs.get(task.task_id, 0)
            assert task.lineage_refs == made, (
                f"{task} is kept for {task.lineage_refs} values, but {made} of it are there"
            )
            for oid in self._taken(task):
                if self._ours(oid):
                    counted[oid] = counted.get(oid, 0) + 1
        assert counted == self.needs, (counted, self.needs)
        for oid in self.needs:
            assert oid in self.objects.records, f"{oid.hex()} is needed for a kept task, and forgotten"


def is_large(record: ObjectRecord) -> bool:
    """Return True if a value can be lost with a node; it may be in transit to this one."""
    if record.kind == m.PENDING:
        return record.remote is not None and (record.remote.place is not None or record.writer is not None)
    return record.kind in (m.ARENA, m.REMOTE, m.SPILLED)


def is_lost(record: ObjectRecord) -> bool:
    """Return True if a value was made on another node, is no longer there, and is not in transit."""
    remote = record.remote
    return (
        record.kind == m.PENDING
        and record.writer is None
        and remote is not None
        and remote.owner is None
        and remote.place is None
    )


def is_yet_to_yield(task: Task, record: ObjectRecord) -> bool:
    """Return True if a stream in progress will yield a lost item once more, because its node is lost or it runs again."""
    if not task.template.streaming:
        return False
    if task.node is not None and not task.node.alive:
        return True
    return int.from_bytes(record.oid[24:], "little") > task.yielded()


def all_results_arrived(task: Task) -> bool:
    """Return True if all results of a task on another node have arrived, though its end was not reported yet."""
    return task.given is not None and len(task.given) == task.template.returns


def made_by(task: Task) -> list[bytes]:
    """Return the ids of the values that a successful task has made."""
    return return_ids(task.task_id, task.items if task.template.streaming else task.template.returns)


def missing_item_error(task: Task) -> ErrorValue:
    """Return the error of an item that a stream yielded only in its first run."""
    name = task.template.name
    text = (
        f"{name} yielded fewer values when it ran again than the {task.items} before; it must yield the "
        "same values each time"
    )
    fields = {"reason": "OBJECT_UNRECONSTRUCTABLE_REF_NOT_FOUND", "reason_message": text}
    return (FAILED, {**fields, "message": task.task_id.hex()})


def unreconstructable_reason(task: Task) -> tuple[str, str]:
    """Return why lost results of a task are not reconstructed: the reason as Ray names it, and advice."""
    if task.cancelled:
        return ("OBJECT_UNRECONSTRUCTABLE_TASK_CANCELLED", f"its task {task.template.name} was cancelled")
    name, limit, option = task.template.name, task.template.max_retries, "max_retries"
    if task.kind == METHOD:
        limit, option = retries_of(task), "max_task_retries"
    if limit == 0:
        text = f"its {'method' if task.kind == METHOD else 'task'} {name} has {option}=0; with retries it would have run again"
        return ("OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED", text)
    text = f"its task {name} has run as often as {option}={limit} allows; raise it"
    return ("OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED", text)
