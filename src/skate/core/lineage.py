"""Lineage: which task made a value, so that it can be made again when its node is lost.

Only plain tasks can run again, and only those whose results are large: small ones are with their owner. What such a task took
is kept as a name, not as a value: if nobody else needs that value it is let go, and made again in its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.core import messages as m
from skate.core.objects import ObjectRecord
from skate.core.tasks import PLAIN, WAITING, Task, return_ids

if TYPE_CHECKING:
    from skate.core.node import NodeCore

KEPT_MAX = 10_000
PUT = b"\xff" * 4  # how the ids of values begin that were put
NOBODY = -3  # the client of a task that runs again: its results are only filled in


class Lineage:
    """The tasks that could be needed again, and the objects that they would take."""

    def __init__(self, node: NodeCore) -> None:
        self.node = node
        self.tasks: dict[bytes, Task] = {}
        #: Objects of ours by how many of those tasks take them.
        self.needs: dict[bytes, int] = {}
        self._loose: list[bytes] = []
        self._loosening = False

    def keep(self, task: Task) -> None:
        """A task has ended well; remember it if it made what could be lost."""
        if task.origin is not None:
            return
        records = self.node.objects.records
        template = task.template
        count = task.items if template.streaming else template.returns
        made = [records[oid] for oid in return_ids(task.task_id, count) if oid in records]
        made = [record for record in made if record.kind in (m.ARENA, m.REMOTE)]
        if not made:
            return
        if task.kind != PLAIN or task.retries == 0 or template.streaming:
            self._explain(made, *why_not_kept(task))
            return
        for record in made:
            record.producer = task
        task.heirs = len(made)
        self.tasks[task.task_id] = task
        for oid in self._taken(task):
            if self._ours(oid):
                self.needs[oid] = self.needs.get(oid, 0) + 1
            else:
                self.node.objects.pin(oid)
        if len(self.tasks) > KEPT_MAX:
            oldest = next(iter(self.tasks.values()))
            ids = return_ids(oldest.task_id, oldest.template.returns)
            last = [records[oid] for oid in ids if oid in records and records[oid].producer is oldest]
            text = f"only the last {KEPT_MAX} tasks with large results are remembered; keep such values by other means"
            self._explain(last, "OBJECT_UNRECONSTRUCTABLE_LINEAGE_EVICTED", text)
            self._forget(oldest)

    @staticmethod
    def _explain(made: list[ObjectRecord], reason: str, text: str) -> None:
        """Note of values on other nodes why they could not be made again."""
        for record in made:
            if record.away is not None:
                record.away.final = (reason, text)

    @staticmethod
    def _taken(task: Task) -> list[bytes]:
        return [oid for oid in (*(oid for _, oid in task.deps), *task.held) if len(oid) == 28]

    def _ours(self, oid: bytes) -> bool:
        return oid[8:16] == self.node.tag

    def pinned(self) -> list[bytes]:
        """The objects of other nodes that are pinned for kept tasks."""
        return [oid for task in self.tasks.values() for oid in self._taken(task) if not self._ours(oid)]

    def retain(self, record: ObjectRecord) -> bool:
        """An object that nobody uses is about to go: True if its record stays, without a large value, for a kept task."""
        objects = self.node.objects
        if record.oid not in self.needs or record.kind == m.PENDING or objects.get(record.oid) is not record:
            return False
        if record.kind not in (m.ARENA, m.REMOTE):
            return True
        if record.kind == m.ARENA:
            self.node._release(record.payload[0])
        if record.away is None:
            record.away = self.node.abroad.away()
        away = record.away
        if away.place is not None and away.place.alive:
            self.node.emit(away.place.cid, (m.FREE, record.oid, 1))
        away.place = None
        record.kind = m.REMOTE
        record.payload = record.size
        held, record.held = record.held, ()
        for other in held:
            objects.unpin(other)
        return True

    def released(self, record: ObjectRecord) -> None:
        """A record is gone: if its task made nothing else, it need not be kept."""
        task, record.producer = record.producer, None
        if task.task_id in self.tasks:
            task.heirs -= 1
            if not task.heirs:
                self._forget(task)

    def _forget(self, task: Task) -> None:
        if self.tasks.pop(task.task_id, None) is None:
            return
        for oid in self._taken(task):
            if not self._ours(oid):
                self.node.objects.unpin(oid)
                continue
            self.needs[oid] -= 1
            if not self.needs[oid]:
                del self.needs[oid]
                self._loose.append(oid)
        # One after the other rather than one inside the other: a line of descent may be long.
        if self._loosening:
            return
        self._loosening = True
        while self._loose:
            record = self.node.objects.get(self._loose.pop())
            if record is not None:
                self.node.objects.drop_if_unused(record)
        self._loosening = False

    def rebuild(self, record: ObjectRecord) -> None:
        """A value is lost and needed: run its task again, or give it an error for its value."""
        node = self.node
        task: Task | None = record.producer
        if task is None or task.task_id not in self.tasks or task.retries == 0:
            self._fail(record, task)
            return
        if task.task_id in node.tasks:
            return
        for oid in return_ids(task.task_id, task.template.returns):
            other = node.objects.get(oid)
            if other is not None and other.producer is task:
                other.producer = None
                if other.kind == m.REMOTE and other.away.place is None:
                    other.kind = m.PENDING
                    other.payload = None
        task.retries -= task.retries > 0
        task.attempt += 1
        task.heirs = 0
        task.given = None
        task.missing = 0
        task.state = WAITING
        task.node = task.worker = None
        task.client = NOBODY
        node.tasks[task.task_id] = task
        node.execution.take_arguments(task)
        self._forget(task)
        if not task.missing:
            node.execution.arguments_there(task)

    def _fail(self, record: ObjectRecord, task: Task | None) -> None:
        """A value is lost for good: say with which node, and why nobody makes it again."""
        away = record.away
        if record.oid[:4] == PUT:
            reason, text = (
                "OBJECT_UNRECONSTRUCTABLE_PUT",
                "it came from put(), so there is no task to run again",
            )
        elif task is not None and task.retries == 0:
            reason, text = why_not_kept(task)
        elif away is not None and away.final is not None:
            reason, text = away.final
        else:
            reason, text = "OBJECT_UNRECONSTRUCTABLE_REF_NOT_FOUND", "the task that made it is not remembered"
        if away is not None and away.lost is not None:
            text = f"it was on node {away.lost.node_id.hex()}, which {away.lost.reason}; {text}"
        self.node.objects.fail(
            record,
            "ObjectReconstructionFailedError",
            message=record.oid.hex(),
            reason=reason,
            reason_message=f"{text} (owner: node {self.node.node_id.hex()})",
        )

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        counted: dict[bytes, int] = {}
        for task in self.tasks.values():
            assert task.heirs > 0, f"{task} is kept for nothing"
            for oid in self._taken(task):
                if self._ours(oid):
                    counted[oid] = counted.get(oid, 0) + 1
        assert counted == self.needs, (counted, self.needs)


def why_not_kept(task: Task) -> tuple[str, str]:
    """Why the results of a task are not made again when they are lost: the reason as Ray names it, and what to do."""
    template = task.template
    name = template.name
    if task.kind != PLAIN:
        return (
            "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED",
            f"results of actors are not made again, and {name} is a method; put() its result where it is needed, or make "
            "it in a task",
        )
    if template.streaming:
        return (
            "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED",
            f"items of streams are not made again, and {name} is one; use num_returns=n if they must outlive their node",
        )
    if template.max_retries == 0:
        return (
            "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED",
            f"its task {name} has max_retries=0; with more it would have run again",
        )
    return (
        "OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED",
        f"its task {name} has run as often as max_retries={template.max_retries} allows; raise it",
    )
