"""Messages of a node to its clients; peers, which are clients of each other, receive them as well."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from skate.protocol.fields import Count, Held, Kind, ObjectId, Position, TaskId, Where
from skate.protocol.record import Record


class Result(Record):
    """One result of a task; `kept` is 1 if the receiver holds a grant of it."""

    tag: Literal[40]
    oid: ObjectId
    kind: Kind
    payload: Any
    held: Held
    kept: Count


class Value(Record):
    """Answer FETCH."""

    tag: Literal[41]
    oid: ObjectId
    kind: Kind
    payload: Any
    held: Held


class Reply(Record):
    """Answer REQUEST or ALLOCATE: a value, or an error if not `ok`."""

    tag: Literal[42]
    number: Count
    ok: bool
    value: Any


class Stream(Record):
    """One value of a stream."""

    tag: Literal[43]
    task_id: TaskId
    position: Position
    kind: Kind
    payload: Any
    held: Held
    kept: Count


class StreamEnd(Record):
    """The end of a stream, with its number of values."""

    tag: Literal[44]
    task_id: TaskId
    length: Count


class Confirm(Record):
    """Request all waits again; STILL ends the answer."""

    tag: Literal[46]
    round: Count


class Deadlock(Record):
    """Report that a wait will never end; the text has the reason."""

    tag: Literal[47]
    number: Count
    text: str


class Survey(Record):
    """Request rows of the process, or of the peer and its processes: those `where` columns have certain values, at most
    `limit` of each kind (0 for all), with all `detail`."""

    tag: Literal[48]
    key: bytes
    kinds: tuple[str, ...]
    where: Where
    limit: Count
    detail: bool


class Recall(Record):
    """Request a process to forget the location of a value, unless it has a view of it."""

    tag: Literal[49]
    number: Count
    oid: ObjectId


class Freed(Record):
    """Report that a watched object has been freed."""

    tag: Literal[58]
    oid: ObjectId


# Messages of every call are plain tuples, which cost a fourth of a record.
ResultTuple: TypeAlias = tuple[Literal[40], bytes, int, Any, Held, int]
StreamTuple: TypeAlias = tuple[Literal[43], bytes, int, int, Any, Held, int]

#: The messages of a node to every client.
ToClient: TypeAlias = (
    Result
    | Value
    | Reply
    | Stream
    | StreamEnd
    | Confirm
    | Deadlock
    | Survey
    | Recall
    | Freed
    | ResultTuple
    | StreamTuple
)
