"""Messages between nodes, besides those of clients and nodes: a node is a client of its peers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from skate.protocol.fields import (
    ActorFacts,
    ActorId,
    AnyTaskId,
    Count,
    Dependencies,
    ErrorValue,
    ForwardFields,
    GroupFacts,
    GroupId,
    Held,
    Key,
    Kind,
    ObjectId,
    Parent,
)
from skate.protocol.record import Record


class Forward(Record):
    """Run a task, a call or a creation on the receiver; `kind` is a TaskKind."""

    tag: Literal[60]
    kind: int
    task_id: AnyTaskId
    template: Key
    args: bytes
    deps: Dependencies
    held: Held
    parent: Parent
    fields: ForwardFields


class Finished(Record):
    """Report the end of a forwarded task: microseconds or -1, and the error of one that never ran."""

    tag: Literal[61]
    task_id: AnyTaskId
    micros: int
    error: ErrorValue | None


class Answered(Record):
    """Report the end of a forwarded task with its only result: RESULT and FINISHED in one message."""

    tag: Literal[97]
    task_id: AnyTaskId
    kind: Kind
    payload: Any
    held: Held
    kept: Count
    micros: int


class Report(Record):
    """Report free resources, those in bundles, and how many tasks of the receiver the sender has accepted so far."""

    tag: Literal[62]
    available: dict[str, int]
    pools: dict[str, int]
    received: Count


class Seek(Record):
    """Subscribe to the location of an actor at the head."""

    tag: Literal[63]
    actor_id: ActorId


class ActorAt(Record):
    """Report the location or the end of an actor; `state` is an ActorState."""

    tag: Literal[64]
    actor_id: ActorId
    state: int
    node_id: bytes
    fields: ActorFacts


class ActorReport(Record):
    """Report the state of an actor that the head has placed on the sender."""

    tag: Literal[65]
    actor_id: ActorId
    state: int
    restarts: Count
    pid: Count
    death: ErrorValue | None


class Reserve(Record):
    """Reserve a bundle."""

    tag: Literal[66]
    group_id: GroupId
    bundle: Count
    resources: dict[str, int]


class Reserved(Record):
    """Answer RESERVE."""

    tag: Literal[67]
    group_id: GroupId
    bundle: Count
    done: bool


class Unreserve(Record):
    """Release a bundle."""

    tag: Literal[68]
    group_id: GroupId
    bundle: Count


class Group(Record):
    """Report a placement group, from the head."""

    tag: Literal[69]
    group_id: GroupId
    fields: GroupFacts


class Retried(Record):
    """Report that a forwarded task is retried where it is."""

    tag: Literal[70]
    task_id: AnyTaskId
    attempt: Count
    retries: int


class Copy(Record):
    """Report that a second copy of a value exists, is gone, or is needed; `state` is a CopyState."""

    tag: Literal[71]
    oid: ObjectId
    state: int


class SurveyEnd(Record):
    """Report that all processes of the sender have answered a survey."""

    tag: Literal[72]
    key: bytes


class Job(Record):
    """Introduce a job before its first task: its namespace, the node and the client id of its driver, and the settings of
    its workers (packed, see `node/job_views.py`): those for every machine, and all of them if the receiver is on the same
    machine as the driver, else empty."""

    tag: Literal[73]
    job: str
    namespace: str
    node_id: bytes
    driver: Count
    view: bytes
    local_view: bytes


class JobOver(Record):
    """Report to the head that the driver of a job has ended, and why."""

    tag: Literal[74]
    job: str
    node_id: bytes
    driver: Count
    reason: str


class JobClosed(Record):
    """End everything of a job but these actors, and what they have started; if there are none, nothing of the job comes
    any more."""

    tag: Literal[75]
    job: str
    reason: str
    survivors: tuple[ActorId, ...]


class JobPrinted(Record):
    """Output of workers for the job's driver, which is at the receiver."""

    tag: Literal[76]
    job: str
    is_error: bool
    text: str


class JobPaused(Record):
    """Request to stop reading the output of a job's workers, or to resume."""

    tag: Literal[77]
    job: str
    paused: bool


class JobQuiet(Record):
    """Report to the node of a job's driver that the sender has read all output of the job's workers."""

    tag: Literal[78]
    job: str


class Leaving(Record):
    """Announce that the sender leaves the cluster; the reason continues the sentence "node x ..."."""

    tag: Literal[79]
    reason: str


class Drain(Record):
    """Drain a node: it takes no new work, and leaves when it is idle, or after so many seconds; -1 is no limit.

    The head sends this to all nodes; a node that is to stop sends it to the head.
    """

    tag: Literal[94]
    node_id: bytes
    reason: str
    seconds: int


class HeldBundles(Record):
    """Report to a new head a placement group that the sender knows, and the bundles that are reserved there."""

    tag: Literal[95]
    group_id: GroupId
    bundles: tuple[Count, ...]


class Registered(Record):
    """Report to a new head that the sender has reported everything that the last one knew of it.

    The actors that it hosts (ACTOR_REPORT), those that it holds (HOLD), and its bundles (HELD_BUNDLES) come before this.
    """

    tag: Literal[96]


#: The messages that only nodes send to each other.
BetweenNodes: TypeAlias = (
    Forward
    | Finished
    | Answered
    | Report
    | Seek
    | ActorAt
    | ActorReport
    | Reserve
    | Reserved
    | Unreserve
    | Group
    | Retried
    | Copy
    | SurveyEnd
    | Job
    | JobOver
    | JobClosed
    | JobPrinted
    | JobPaused
    | JobQuiet
    | Leaving
    | Drain
    | HeldBundles
    | Registered
)  # fmt: skip
