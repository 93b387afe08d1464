"""The worker processes of a node, as the core sees them."""

from __future__ import annotations

from typing import Any

from skate.core.task.task import Task
from skate.protocol.fields import Death

#: Reasons for losing a worker that would also apply to the next one.
START_FAILED = ("RuntimeEnvSetupError", "RaySystemError")
#: The error of the tasks of a worker that was ended because memory ran out.
OUT_OF_MEMORY = "OutOfMemoryError"


class Worker:
    """One worker process: its unanswered tasks and its lease."""

    __slots__ = (
        "cid", "env_key", "pid", "sched_class", "lease", "outstanding", "sent", "known", "actor", "blocked", "stalled",
        "progress", "lent", "recall_sent", "calls", "idle_since", "leaving", "kill_reason", "leased_at",
        "beyond", "details", "owed", "ready_at",
    )  # fmt: skip

    def __init__(self, cid: int, env_key: str) -> None:
        self.cid = cid
        self.env_key = env_key
        self.pid = 0
        self.sched_class: Any = None
        self.lease: Any = None
        #: Tasks sent and not answered, in the order they were sent.
        self.outstanding: dict[bytes, Task] = {}
        self.sent = 0  # how many tasks were ever sent; each task has its number
        self.known: set[bytes] = set()  # functions and templates that it has received
        self.actor: Any = None
        self.blocked: set[bytes] = set()
        self.stalled = False  # its task runs long: send nothing behind it
        self.progress = 0.0
        self.lent: Any = None  # the last lease sent to it
        self.recall_sent = False
        self.calls: dict[bytes, int] = {}
        self.idle_since = 0.0
        self.ready_at = -1.0  # when its process had started; negative before
        self.leased_at = 0.0
        self.leaving = False
        self.kill_reason: Death | None = None
        #: Known once the process has ended: tasks begun out of order, its last output as text, its unanswered calls.
        self.beyond: frozenset[int] = frozenset()
        self.details = ""
        self.owed = 0

    def had_begun(self, sequence: int, begun: int) -> bool:
        """Return True if it had begun the task sent with this number: one of the first `begun`, or one begun out of order."""
        return sequence <= begun or sequence in self.beyond

    def __repr__(self) -> str:
        what = f"actor {self.actor.name}" if self.actor is not None else "tasks"
        return f"<Worker {self.cid} {what} outstanding={len(self.outstanding)}>"
