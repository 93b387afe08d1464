"""Messages from node to node, beside those of clients and nodes: a node is a client of its peers."""

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
    """Have a task, a call or a creation run on the receiver; `kind` is a TaskKind."""

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
    """Nothing more is sent of a task that was forwarded: microseconds or -1, and the error of one that never ran."""

    tag: Literal[61]
    task_id: AnyTaskId
    micros: int
    error: ErrorValue | None


class Report(Record):
    """Free resources, those in bundles, and how many tasks of the receiver the sender has taken in so far."""

    tag: Literal[62]
    available: dict[str, int]
    pools: dict[str, int]
    received: Count


class Seek(Record):
    """Ask the head where an actor is, now and whenever that changes."""

    tag: Literal[63]
    actor_id: ActorId


class ActorAt(Record):
    """Where an actor is, or what has become of it; `state` is an ActorState."""

    tag: Literal[64]
    actor_id: ActorId
    state: int
    node_id: bytes
    fields: ActorFacts


class ActorReport(Record):
    """The state of an actor that the head has put on the sender."""

    tag: Literal[65]
    actor_id: ActorId
    state: int
    restarts: Count
    pid: Count
    death: ErrorValue | None


class Reserve(Record):
    """Set a bundle apart."""

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
    """Give a bundle back."""

    tag: Literal[68]
    group_id: GroupId
    bundle: Count


class Group(Record):
    """A placement group as the head knows it."""

    tag: Literal[69]
    group_id: GroupId
    fields: GroupFacts


class Retried(Record):
    """A task that was forwarded runs again where it is."""

    tag: Literal[70]
    task_id: AnyTaskId
    attempt: Count
    retries: int


class Copy(Record):
    """A second copy of a value is there, is gone, or is needed; `state` is a CopyState."""

    tag: Literal[71]
    oid: ObjectId
    state: int


class SurveyEnd(Record):
    """All processes of the sender have answered a survey."""

    tag: Literal[72]
    key: bytes


#: What nodes alone send to each other.
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
