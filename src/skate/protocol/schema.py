"""The fields of each message that a client or a worker may send to its node, with their types.

A message is one of these records written as a plain tuple: its number from `messages`, then the fields in order. The node checks
what arrives over a socket against them (`check`) before it acts on it, so that a peer which sends something else loses
its own connection and nothing more.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypeAlias

from skate.protocol import messages as m
from skate.protocol.check import Length, Passes, Range, Value, is_condition, is_strategy

#: Ids of tasks, actors and objects. The task that constructs an actor has the actor's id.
TaskId: TypeAlias = Annotated[bytes, Length(24)]
ActorId: TypeAlias = Annotated[bytes, Length(16)]
ObjectId: TypeAlias = Annotated[bytes, Length(28)]
AnyTaskId: TypeAlias = Annotated[bytes, Length(24, 16)]
#: A ref or an actor handle.
AnyId: TypeAlias = Annotated[bytes, Length(28, 16)]
#: The task that a message comes from; empty for a driver's own code.
Parent: TypeAlias = Annotated[bytes, Length(24, 16, 0)]
#: The digest that names a function or a template.
Key: TypeAlias = Annotated[bytes, Length(16)]
GroupId: TypeAlias = Annotated[bytes, Length(18)]
Count: TypeAlias = Annotated[int, Range(0)]
#: Resources of a bundle, in units.
Bundle: TypeAlias = dict[str, Annotated[int, Range(1)]]
#: Refs and actor handles inside a value.
Held: TypeAlias = tuple[AnyId, ...]
#: Arguments that are refs: position or keyword, and the object.
Dependencies: TypeAlias = tuple[tuple[int | str, ObjectId], ...]
#: A value that a process hands over: kind and payload.
Kind: TypeAlias = Annotated[int, Value()]
#: An error in place of a value: class name and fields.
ErrorValue: TypeAlias = tuple[str, dict[str, Any]]


class Function(NamedTuple):
    """Register a function or class by value."""

    key: Key
    blob: bytes
    held: Held


class Template(NamedTuple):
    """Register a function together with its options."""

    key: Key
    fields: TemplateFields


class Submit(NamedTuple):
    """Start a task."""

    task_id: TaskId
    template: Key
    args: bytes
    deps: Dependencies
    held: Held
    parent: Parent


class CreateActor(NamedTuple):
    """Start an actor."""

    actor_id: ActorId
    template: Key
    args: bytes
    deps: Dependencies
    held: Held
    parent: Parent
    fields: ActorFields


class Call(NamedTuple):
    """Call a method of an actor."""

    task_id: TaskId
    actor_id: ActorId
    template: Key
    args: bytes
    deps: Dependencies
    held: Held
    parent: Parent


class Cancel(NamedTuple):
    """Cancel a task, and those that it started if `recursive`."""

    task_id: AnyTaskId
    force: bool
    recursive: bool


class Kill(NamedTuple):
    """End the process of an actor."""

    actor_id: ActorId
    no_restart: bool


class Forget(NamedTuple):
    """Release functions and templates that the sender will not name again."""

    keys: tuple[Key, ...]


class Escape(NamedTuple):
    """Announce a ref whose value is still to come."""

    oid: ObjectId


class Publish(NamedTuple):
    """Hand over the value of a ref that other processes may learn of."""

    oid: ObjectId
    kind: Kind
    payload: Any
    held: Held
    granted: bool


class Hold(NamedTuple):
    """Take one more grant of an object or actor."""

    any_id: AnyId


class Free(NamedTuple):
    """Give grants back; none of them withdraws an allocation."""

    any_id: AnyId
    grants: Count


class Fetch(NamedTuple):
    """Ask for a value."""

    oid: ObjectId


class Watch(NamedTuple):
    """Ask to be told when an object is freed."""

    oid: ObjectId


class Allocate(NamedTuple):
    """Ask for memory for a value."""

    number: Count
    oid: ObjectId
    size: Count


class Put(NamedTuple):
    """Report that allocated memory is written."""

    oid: ObjectId
    held: Held


class Consumed(NamedTuple):
    """Report how many items of a stream were taken."""

    task_id: TaskId
    taken: Count


class Recalled(NamedTuple):
    """Answer a request to forget the place of a value; -1 grants refuse it."""

    number: Count
    oid: ObjectId
    grants: Annotated[int, Range(-1)]


class Request(NamedTuple):
    """Ask a question; the arguments are checked by its verb."""

    number: Count
    verb: str
    arguments: tuple[Any, ...]


class GroupFields(NamedTuple):
    """The entries that the node reads of a placement group; others pass."""

    strategy: str | None
    name: str | None
    namespace: str | None
    value: bytes | None
    selectors: tuple[tuple[Annotated[Any, Passes(is_condition)], ...], ...] | None


class WaitFacts(NamedTuple):
    """The entries that the node reads of a wait; others pass."""

    free: int | None
    where: str | None


class Surveyed(NamedTuple):
    """Answer a survey with what the process holds."""

    key: bytes
    part: dict[str, Any]


class Ready(NamedTuple):
    """Report that a worker runs."""

    pid: Count


class Done(NamedTuple):
    """Answer for one task: its results, or an error."""

    task_id: AnyTaskId
    status: Annotated[int, Range(m.OK, m.PARTIAL)]
    returns: tuple[Any, ...]
    micros: Count
    retriable: bool


class Item(NamedTuple):
    """Hand over one value of a stream."""

    task_id: TaskId
    position: Annotated[int, Range(1, (1 << 32) - 1)]
    kind: Kind
    payload: Any
    held: Held


class Returned(NamedTuple):
    """Give back tasks that were not begun."""

    task_ids: tuple[AnyTaskId, ...]


class Blocked(NamedTuple):
    """Report that a task waits in a get."""

    task_id: Parent


class Unblocked(NamedTuple):
    """Report that a task runs again."""

    task_id: Parent


class Exiting(NamedTuple):
    """Announce that an actor ends itself."""

    reason: str


class Waits(NamedTuple):
    """Report a wait that has lasted for a while."""

    number: Count
    ids: tuple[Annotated[bytes, Length(28, 24, 16)], ...]
    needed: Count
    task_id: Parent
    facts: WaitFacts


class WaitOver(NamedTuple):
    """Report the end of a wait."""

    number: Count


class Still(NamedTuple):
    """End the answer to CONFIRM."""

    round: int


class Result(NamedTuple):
    """One result of a task, inside DONE."""

    kind: Kind
    payload: Any
    held: Held


class TemplateFields(NamedTuple):
    """The entries of TEMPLATE that the node reads; others pass."""

    name: str
    kind: Annotated[str, Passes(frozenset({"task", "actor", "method"}).__contains__)]
    function: Annotated[bytes, Length(0, 16)]
    request: dict[str, Count] | None
    placement: dict[str, Count] | None
    max_retries: int | None
    returns: Count | None
    environment: str | None
    env_key: str | None
    job: str | None
    strategy: Annotated[Any, Passes(is_strategy)]
    max_calls: Count | None


class ActorFields(NamedTuple):
    """The entries of CREATE_ACTOR that the node reads; others pass."""

    actor_name: str | None
    namespace: str
    max_restarts: int | None
    max_task_retries: int | None
    handle: bytes | None


class Printed(NamedTuple):
    """Report how many characters of the output of workers a driver has printed."""

    size: Count


class Leave(NamedTuple):
    """End a session; the values that stay in view."""

    viewed: tuple[ObjectId, ...]


class Greeting(NamedTuple):
    """The entries of ATTACH, by which a driver says what its workers are to be like."""

    sys_path: tuple[str, ...]
    stdlib: str
    environ: dict[str, str]
    cwd: str | None
    preload: tuple[str, ...]
    main: str | None
    namespace: str
    python: Annotated[tuple[str, ...], Passes(bool)]
    command: str | None
    log_to_driver: bool | None


#: The messages that every client may send, and those of workers alone.
OF_CLIENTS: dict[int, type] = {
    m.FUNCTION: Function, m.TEMPLATE: Template, m.SUBMIT: Submit, m.CREATE_ACTOR: CreateActor, m.CALL: Call,
    m.CANCEL: Cancel, m.KILL: Kill, m.FORGET: Forget, m.ESCAPE: Escape, m.PUBLISH: Publish, m.HOLD: Hold, m.FREE: Free,
    m.FETCH: Fetch, m.ALLOCATE: Allocate, m.PUT: Put, m.CONSUMED: Consumed, m.RECALLED: Recalled, m.REQUEST: Request,
    m.SURVEYED: Surveyed, m.WAITS: Waits, m.WAIT_OVER: WaitOver, m.STILL: Still,
    m.WATCH: Watch,
}  # fmt: skip
OF_WORKERS: dict[int, type] = {
    m.READY: Ready, m.DONE: Done, m.ITEM: Item, m.RETURNED: Returned, m.BLOCKED: Blocked, m.UNBLOCKED: Unblocked,
    m.EXITING: Exiting,
}  # fmt: skip


def _why(any_id: Annotated[bytes, Length(28, 24, 16)]) -> None:
    """Ask why something is not there yet."""


def _survey(token: Count, kinds: tuple[str, ...]) -> None:
    """Ask what all processes hold."""


#: The arguments of the questions that are not answered by `Queries` itself.
VERBS: dict[str, Any] = {"why": _why, "survey": _survey}
