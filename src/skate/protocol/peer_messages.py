"""Messages between nodes, besides those of clients and nodes: a node is a client of its peers."""

from __future__ import annotations

from typing import Literal, TypeAlias

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


#: The messages that only nodes send to each other.
BetweenNodes: TypeAlias = (
    Forward
    | Finished
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
)  # fmt: skip
