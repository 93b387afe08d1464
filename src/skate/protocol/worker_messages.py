"""Messages between a node and its workers, besides those of every client."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from skate.protocol.check import Range
from skate.protocol.fields import (
    ActorId,
    AnyTaskId,
    ArgumentValues,
    ConstructFields,
    Count,
    Held,
    Key,
    Kind,
    LeaseFields,
    Parent,
    Position,
    TaskId,
)
from skate.protocol.record import Record
from skate.protocol.values import OK, PARTIAL

# -- worker -> node


class Ready(Record):
    """Report that a worker runs, and its version of the protocol."""

    tag: Literal[30]
    pid: Count
    protocol: Count


class Done(Record):
    """Answer for one task: its results, or an error."""

    tag: Literal[31]
    task_id: AnyTaskId
    status: Annotated[int, Range(OK, PARTIAL)]
    returns: tuple[Any, ...]
    micros: Count
    retriable: bool


class Item(Record):
    """Pass one value of a stream."""

    tag: Literal[32]
    task_id: TaskId
    position: Position
    kind: Kind
    payload: Any
    held: Held


class Returned(Record):
    """Return tasks that were not begun."""

    tag: Literal[33]
    task_ids: tuple[AnyTaskId, ...]


class Blocked(Record):
    """Report that a task waits in a get."""

    tag: Literal[34]
    task_id: Parent


class Unblocked(Record):
    """Report that a task runs again."""

    tag: Literal[35]
    task_id: Parent


class Exiting(Record):
    """Announce that an actor ends itself."""

    tag: Literal[36]
    reason: str


# -- node -> worker


class Execute(Record):
    """Run a task."""

    tag: Literal[50]
    task_id: TaskId
    template: Key
    args: bytes
    deps: ArgumentValues
    attempt: Count


class Construct(Record):
    """Run the constructor of an actor."""

    tag: Literal[51]
    actor_id: ActorId
    template: Key
    args: bytes
    deps: ArgumentValues
    fields: ConstructFields


class Invoke(Record):
    """Run a method of the worker's actor."""

    tag: Literal[52]
    task_id: TaskId
    template: Key
    args: bytes
    deps: ArgumentValues
    attempt: Count


class Lease(Record):
    """Set the lease under which the worker runs from now on."""

    tag: Literal[53]
    fields: LeaseFields


class TakeBack(Record):
    """Request the tasks that were not begun."""

    tag: Literal[54]


class StopTask(Record):
    """Cancel a task; with `force` by leaving, if it runs."""

    tag: Literal[55]
    task_id: AnyTaskId
    force: bool


class Exit(Record):
    """Request the worker to exit once it is idle."""

    tag: Literal[56]
    reason: str


class Ack(Record):
    """Report how many items of a stream its reader has taken."""

    tag: Literal[57]
    task_id: TaskId
    taken: Count


# Messages of every call are plain tuples, which cost a fourth of a record.
DoneTuple: TypeAlias = tuple[Literal[31], bytes, int, Any, int, bool]
ItemTuple: TypeAlias = tuple[Literal[32], bytes, int, int, Any, Held]
RunTuple: TypeAlias = tuple[Literal[50, 52], bytes, bytes, bytes, ArgumentValues, int]

#: The messages that a worker queues.
Work: TypeAlias = Execute | Construct | Invoke | Lease
#: The messages that only workers may send.
FromWorker: TypeAlias = Ready | Done | Item | Returned | Blocked | Unblocked | Exiting | DoneTuple | ItemTuple

#: The messages of a node only to workers.
ToWorker: TypeAlias = Execute | Construct | Invoke | Lease | TakeBack | StopTask | Exit | Ack | RunTuple
