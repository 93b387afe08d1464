"""The worker processes of a node, as the core sees them."""

from __future__ import annotations

from typing import Any, NamedTuple

from skate.core.task.task import Task
from skate.protocol.fields import Death

#: Reasons for losing a worker that would also apply to the next one.
START_FAILED = ("RuntimeEnvSetupError", "RaySystemError")
#: The error of the tasks of a worker that was ended because memory ran out.
OUT_OF_MEMORY = "OutOfMemoryError"


class Ending(NamedTuple):
    """The reason why a worker is to end, for lists of workers: Ray's type of the exit, and a text."""

    type: str
    detail: str


IDLE = Ending("INTENDED_SYSTEM_EXIT", "it was idle for a long time, and other workers suffice")
MAX_CALLS = Ending("INTENDED_SYSTEM_EXIT", "it has executed a function as often as its max_calls allows")
JOB_ENDED = Ending("INTENDED_SYSTEM_EXIT", "its job has ended, for example by ray.shutdown()")
OUT_OF_SCOPE = Ending("INTENDED_SYSTEM_EXIT", "its actor went out of scope: no handle to it was left")
GROUP_REMOVED = Ending("INTENDED_SYSTEM_EXIT", "its placement group was removed")
FORCED = Ending("INTENDED_USER_EXIT", "its task was cancelled by ray.cancel(force=True)")
CONSTRUCTOR_FAILED = Ending(
    "USER_ERROR",
    "an exception in the initialization method of its actor: the constructor raised; the calls of the actor have the traceback",
)


class Worker:
    """One worker process: its unanswered tasks and its lease."""

    __slots__ = (
        "cid", "env_key", "pid", "sched_class", "lease", "outstanding", "sent", "known", "actor", "blocked", "stalled",
        "progress", "lent", "recall_sent", "calls", "idle_since", "leaving", "kill_reason", "leased_at",
        "beyond", "details", "owed", "ready_at", "ending",
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
        self.ending: Ending | None = None
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
