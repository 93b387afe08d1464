"""Messages that every client, driver or worker, may send to its node."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from skate.protocol.check import Entries, Length, Range
from skate.protocol.fields import (
    ActorFields,
    ActorId,
    AnyId,
    AnyTaskId,
    CheckedActor,
    CheckedTemplate,
    Count,
    Dependencies,
    Held,
    Key,
    Kind,
    ObjectId,
    Parent,
    TaskId,
    TemplateFields,
    WaitFacts,
)
from skate.protocol.record import Record

# -- tasks and actors


class Function(Record):
    """Register a function or class by value; a node sends it to workers and peers as well."""

    tag: Literal[1]
    key: Key
    blob: bytes
    held: Held


class Template(Record):
    """Register a function together with its options; a node sends it to workers and peers as well."""

    tag: Literal[2]
    key: Key
    fields: Annotated[TemplateFields, Entries(CheckedTemplate)]


class Submit(Record):
    """Start a task."""

    tag: Literal[3]
    task_id: TaskId
    template: Key
    args: bytes
    deps: Dependencies
    held: Held
    parent: Parent


class CreateActor(Record):
    """Start an actor."""

    tag: Literal[4]
    actor_id: ActorId
    template: Key
    args: bytes
    deps: Dependencies
    held: Held
    parent: Parent
    fields: Annotated[ActorFields, Entries(CheckedActor)]


class Call(Record):
    """Call a method of an actor."""

    tag: Literal[5]
    task_id: TaskId
    actor_id: ActorId
    template: Key
    args: bytes
    deps: Dependencies
    held: Held
    parent: Parent


class Cancel(Record):
    """Cancel a task, and those that it started if `recursive`."""

    tag: Literal[6]
    task_id: AnyTaskId
    force: bool
    recursive: bool


class Kill(Record):
    """End the process of an actor."""

    tag: Literal[7]
    actor_id: ActorId
    no_restart: bool


class Forget(Record):
    """Release functions and templates that the sender will not use again; a node makes its workers drop them
    as well."""

    tag: Literal[8]
    keys: tuple[Key, ...]


# -- objects


class Escape(Record):
    """Announce a ref whose value will follow."""

    tag: Literal[10]
    oid: ObjectId


class Publish(Record):
    """Pass the value of a ref that has escaped to other processes."""

    tag: Literal[11]
    oid: ObjectId
    kind: Kind
    payload: Any
    held: Held
    granted: bool


class Hold(Record):
    """Take one more grant of an object or actor."""

    tag: Literal[12]
    any_id: AnyId


class Free(Record):
    """Return grants; none of them withdraws an allocation."""

    tag: Literal[13]
    any_id: AnyId
    grants: Count


class Fetch(Record):
    """Request a value."""

    tag: Literal[14]
    oid: ObjectId


class Allocate(Record):
    """Request memory for a value."""

    tag: Literal[15]
    number: Count
    oid: ObjectId
    size: Count


class Put(Record):
    """Report that allocated memory is written."""

    tag: Literal[16]
    oid: ObjectId
    held: Held


class Consumed(Record):
    """Report how many items of a stream were taken."""

    tag: Literal[17]
    task_id: TaskId
    taken: Count


class Recalled(Record):
    """Answer RECALL: the grants of the sender, which has forgotten the location of the value; -1 refuses."""

    tag: Literal[18]
    number: Count
    oid: ObjectId
    grants: Annotated[int, Range(-1)]


class Watch(Record):
    """Subscribe to the release of an object."""

    tag: Literal[19]
    oid: ObjectId


# -- queries


class Request(Record):
    """Send a query; the arguments are checked by its verb."""

    tag: Literal[20]
    number: Count
    verb: str
    arguments: tuple[Any, ...]


class Surveyed(Record):
    """Answer SURVEY with the process's references; a node forwards it to the requesting node."""

    tag: Literal[24]
    key: bytes
    part: dict[str, Any]


# -- long waits


class Waits(Record):
    """Report a long wait; 24 bytes identify the task of a stream."""

    tag: Literal[37]
    number: Count
    ids: tuple[Annotated[bytes, Length(28, 24, 16)], ...]
    needed: Count
    task_id: Parent
    facts: WaitFacts


class WaitOver(Record):
    """Report the end of a wait."""

    tag: Literal[38]
    number: Count


class Still(Record):
    """End the answer to CONFIRM: the waits reported since then are all there are."""

    tag: Literal[39]
    round: int


# Messages of every call are plain tuples, which cost a fourth of a record.
SubmitTuple: TypeAlias = tuple[Literal[3], bytes, bytes, bytes, Dependencies, Held, bytes]
CallTuple: TypeAlias = tuple[Literal[5], bytes, bytes, bytes, bytes, Dependencies, Held, bytes]
FreeTuple: TypeAlias = tuple[Literal[13], bytes, int]

#: The messages that every client may send to its node.
FromClient: TypeAlias = (
    Function | Template | Submit | CreateActor | Call | Cancel | Kill | Forget | Escape | Publish | Hold | Free
    | Fetch | Allocate | Put | Consumed | Recalled | Watch | Request | Surveyed | Waits | WaitOver | Still
    | SubmitTuple | CallTuple | FreeTuple
)  # fmt: skip
