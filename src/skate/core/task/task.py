"""Templates (a function with its options, registered once) and tasks (one call each)."""

from __future__ import annotations

from typing import Any

from skate.protocol.fields import ForwardFields, TemplateFields
from skate.protocol.states import WAITING, TaskKind, TaskState
from skate.protocol.strategies import strategy_of


class Template:
    """A function, class or method with its options, as registered by its caller; shared by many calls."""

    __slots__ = (
        "key", "fields", "name", "function", "request", "max_retries", "returns", "environment", "env_key", "strategy",
        "seconds", "sched_class", "judged", "refusal", "max_calls", "streaming", "concurrent", "placement", "job",
        "constructs", "entered", "finished", "left", "finished_again", "made_again", "tried_again", "failed",
        "failed_again", "unready", "lined", "called", "at_once", "away",
    )  # fmt: skip

    def __init__(self, key: bytes, fields: TemplateFields) -> None:
        self.key = key
        self.fields = fields
        self.name: str = fields["name"]
        self.function: bytes = fields["function"]
        self.request: dict[str, int] = fields.get("request") or {}
        #: Resources that a node must have to place the task there; an actor may hold less once it runs.
        self.placement: dict[str, int] = fields.get("placement") or self.request
        self.max_retries: int = fields.get("max_retries") or 0
        returns = fields.get("returns")
        self.returns: int = 1 if returns is None else returns
        self.streaming: bool = bool(fields.get("streaming"))
        self.environment: str | None = fields.get("environment")
        self.env_key: str = fields.get("env_key") or ""
        #: The job it belongs to, on a node that serves several; its workers run no other job.
        self.job: str = fields.get("job") or ""
        if self.job:
            self.env_key = f"{self.job}/{self.env_key}"
        self.strategy = strategy_of(fields.get("strategy"))
        self.max_calls: int = fields.get("max_calls") or 0
        self.concurrent: bool = bool(fields.get("concurrent"))
        self.seconds = -1.0  # moving average of the run time; unknown at first
        self.sched_class: Any = None
        self.judged = (-1, 0)  # for which version of the cluster, and among how many nodes
        self.refusal: tuple[str, dict[str, Any]] | None = None

        #: It makes actors. Its tasks are counted with them, and not in the numbers of tasks in progress below.
        self.constructs = False
        #: How many of its tasks have come, how many have succeeded here, and how many have left in another way.
        self.entered = self.finished = self.left = 0
        #: How many have failed for good, run or not; and how many have succeeded or failed after the first attempt.
        self.failed = self.finished_again = self.failed_again = 0
        #: How many attempts have succeeded or failed in a worker, and were followed by another one.
        self.made_again = self.tried_again = 0
        #: Of its tasks in progress, those that miss arguments, and those that another node has.
        self.unready = self.away = 0
        #: Of its calls in progress: those in the lanes of their actors, those sent to actors here, and those of them whose actor
        #: runs calls concurrently.
        self.lined = self.called = self.at_once = 0

    @property
    def live(self) -> int:
        """How many of its tasks are in progress, if it makes no actors."""
        return self.entered - self.finished - self.left

    def ran(self, seconds: float) -> None:
        """Update the average with a run time."""
        known = self.seconds
        self.seconds = seconds if known < 0 else known + (seconds - known) * 0.2

    def __repr__(self) -> str:
        return f"<Template {self.name}>"


class Task:
    """One call: its caller, arguments and state."""

    # Class attributes hold the defaults that most tasks never change: creating a task must be fast.
    state: TaskState = WAITING
    missing = 0
    worker: Any = None
    attempt = 0
    cancelled = False
    actor: Any = None
    sequence = 0
    items = 0
    consumed = 0
    run_again = (0, 0)  # the number of a stream's later attempt, and the last item that it has yielded
    error: tuple[str, dict[str, Any]] | None = None
    node: Any = None  # the peer it was forwarded to
    origin: ForwardFields | None = None  # information from the peer that forwarded it here
    report = 0  # the last report of free resources before it arrived from a peer
    given: set[bytes] | None = None  # results that arrived from a peer before it was lost
    #: Results that its caller knows of and that have been lost since.
    lost_results: frozenset[bytes] = frozenset()
    since = 0.0  # when its attempt was submitted, or arrived from another node
    oom_kills = 0  # attempts killed because memory ran out
    lineage_refs = 0  # values that it could make again if they were lost

    def __init__(
        self,
        task_id: bytes,
        kind: TaskKind,
        client: int,
        template: Template,
        args: bytes,
        deps: tuple[tuple[Any, bytes], ...],
        held: tuple[bytes, ...],
        parent: bytes,
    ) -> None:
        self.task_id = task_id
        self.kind = kind
        self.client = client
        self.template = template
        self.args = args
        self.deps = deps
        self.held = held
        self.parent = parent
        self.retries = template.max_retries

    def left_actor(self) -> None:
        """Count a call less that its actor has."""
        self.template.called -= 1
        if not self.actor.in_order:
            self.template.at_once -= 1

    def has_given(self, oid: bytes) -> bool:
        """Return True if a result has been given to the caller, and will not be given once more."""
        if self.template.streaming:
            return 0 < int.from_bytes(oid[24:], "little") <= self.items
        return self.given is not None and oid in self.given

    def yielded(self) -> int:
        """Return how many items the latest attempt of a stream has yielded, as far as known here."""
        if not self.attempt:
            return self.items
        attempt, count = self.run_again
        return count if attempt == self.attempt else 0

    def __repr__(self) -> str:
        return f"<Task {self.task_id.hex()[:16]} {self.template.name} {self.state.name}>"


def return_ids(task_id: bytes, count: int) -> list[bytes]:
    """Return the object ids of a task's return values: the task's id and an index from 1."""
    if count == 1:
        return [task_id + b"\x01\x00\x00\x00"]
    return [task_id + index.to_bytes(4, "little") for index in range(1, count + 1)]
