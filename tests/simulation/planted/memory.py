"""Memory and its holders: freed twice, freed under a reader, never freed."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

BOTH = ("node", "cluster")
CLUSTER = ("cluster",)

BUGS = (
    Bug(
        "memory of a freed object is freed twice",
        "skate.core.object.object_table:ObjectTable.forget_value",
        "self._release(record.payload[0])",
        "self._release(record.payload[0]); self._release(record.payload[0])",
    ),
    Bug(
        "memory of an abandoned value is freed again with its record",
        "skate.core.object.object_table:ObjectTable._abandon",
        "record.payload = None",
        "pass",
    ),
    Bug(
        "an object is freed while a process holds it",
        "skate.core.object.object_table:ObjectTable.drop_if_unused",
        "record.holders\n        or record.pins > 0",
        "record.pins > 0",
    ),
    Bug(
        "an object is freed when the first of several grants is returned",
        "skate.core.object.object_table:ObjectTable.free",
        "if left > 0:",
        "if left > 1:",
    ),
    Bug(
        "a value in memory is sent to an uncounted reader",
        "skate.core.object.lifetimes:Lifetimes.deliver",
        "if record.kind == m.ARENA:",
        "if record.kind == m.REMOTE:",
    ),
    Bug(
        "arguments in memory are sent to an uncounted worker",
        "skate.core.task.task_starter:TaskStarter._values",
        "if record.kind == m.ARENA:",
        "if record.kind == m.REMOTE:",
    ),
    Bug(
        "of several grants returned together, one is counted",
        "skate.core.object.object_table:ObjectTable.free",
        "- grants",
        "- min(grants, 1)",
    ),
    Bug(
        "the contents of a failed or freed value stay pinned",
        "skate.core.object.object_table:ObjectTable.drop_if_unused",
        "self.unpin(other)",
        "pass",
    ),
    Bug(
        "refs inside a value are not pinned by it",
        "skate.core.object.object_table:ObjectTable.fill",
        "self.pin(other)",
        "pass",
    ),
    Bug(
        "a task without arguments keeps the refs inside its arguments pinned",
        "skate.core.task.task_manager:TaskManager._remove",
        "if task.deps or task.held:",
        "if task.deps:",
    ),
    Bug(
        "a dead actor keeps the arguments of its constructor",
        "skate.core.actor.actor_manager:ActorManager.die",
        "self.task_manager.drop_arguments(actor.creation)",
        "pass",
    ),
    Bug(
        "a cancelled task still waits for its argument",
        "skate.core.task.task_manager:TaskManager.drop_arguments",
        "record.waiters.remove(task)",
        "pass",
    ),
    Bug(
        "a value that a lost attempt had begun to write is never freed",
        "skate.core.object.object_table:ObjectTable.fill",
        "self._release(place[0])",
        "pass",
    ),
    Bug(
        "a value to be written by a dead process is still awaited",
        "skate.core.object.object_table:ObjectTable.forget_client",
        "if record.writer == cid:",
        "if record.writer == cid and record.holders:",
    ),
    Bug(
        "the objects held by a dead process are held forever",
        "skate.core.object.object_table:ObjectTable.forget_client",
        "if record.holders.pop(cid, None) is not None or not record.holders:",
        "if not record.holders:",
    ),
    Bug(
        "the error of a call reaches the table, its grant to the caller does not",
        "skate.core.task.task_manager:TaskManager.give",
        "if present:\n            self.objects.grant(record, client)",
        "if present and kind != m.ERROR:\n            self.objects.grant(record, client)",
    ),
    Bug(
        "refs inside a small result are not held for its reader",
        "skate.core.task.task_manager:TaskManager.give",
        "self.objects.grant_any(client, other)",
        "pass",
    ),
    Bug(
        "a value whose writer is cancelled keeps its memory",
        "skate.core.object.object_table:ObjectTable.free",
        "if not grants and record.writer == cid:",
        "if grants and record.writer == cid:",
        rare=True,
    ),
    Bug(
        "a stream's item repeated by a retry keeps its memory",
        "skate.core.task.task_manager:TaskManager.item",
        "self._unwritten(cid, oid)",
        "pass",
        rare=True,
    ),
)
