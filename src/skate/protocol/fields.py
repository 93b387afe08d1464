"""Types of the fields of messages, as mypy and the checks of received messages read them, and the dicts inside messages.

A dict may have entries that are not checked: those are read by the receiver of the call, not by the node.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from skate.protocol.check import Length, Passes, Range, Value, is_condition, is_strategy
from skate.protocol.record import FieldDict, Record

#: Ids of tasks, actors and objects. The task that constructs an actor has the actor's id.
TaskId: TypeAlias = Annotated[bytes, Length(24)]
ActorId: TypeAlias = Annotated[bytes, Length(16)]
ObjectId: TypeAlias = Annotated[bytes, Length(28)]
AnyTaskId: TypeAlias = Annotated[bytes, Length(24, 16)]
#: A ref or an actor handle.
AnyId: TypeAlias = Annotated[bytes, Length(28, 16)]
#: The task that sends a message; empty for a driver's own code.
Parent: TypeAlias = Annotated[bytes, Length(24, 16, 0)]
#: The digest that identifies a function or a template.
Key: TypeAlias = Annotated[bytes, Length(16)]
GroupId: TypeAlias = Annotated[bytes, Length(18)]
Count: TypeAlias = Annotated[int, Range(0)]
#: The number of a value in its stream, from 1.
Position: TypeAlias = Annotated[int, Range(1, (1 << 32) - 1)]
#: The resources of a bundle, in units.
Bundle: TypeAlias = dict[str, Annotated[int, Range(1)]]
#: Conditions on rows: a column and its value. Texts are compared without regard to upper and lower case.
Where: TypeAlias = dict[str, bytes | str]
#: Refs and actor handles inside a value.
Held: TypeAlias = tuple[AnyId, ...]
#: Arguments that are refs: position or keyword, and the object.
Dependencies: TypeAlias = tuple[tuple[int | str, ObjectId], ...]
#: Arguments in the form for a worker: position or keyword, object, kind and payload of its value.
ArgumentValues: TypeAlias = tuple[tuple[int | str, ObjectId, int, Any], ...]
#: A value passed by a process: kind and payload.
Kind: TypeAlias = Annotated[int, Value()]
#: An error in place of a value: the name of an exception class, and its fields.
ErrorValue: TypeAlias = tuple[str, dict[str, Any]]


class Death(Record):
    """The cause of an actor's death or a worker's end: an error value with named fields."""

    error: str
    fields: dict[str, Any]


class TaskResult(Record):
    """One result of a task, inside DONE."""

    kind: Kind
    payload: Any
    held: Held


class CheckedTemplate(FieldDict, total=False):
    """Entries of TEMPLATE that the node reads."""

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


class TemplateFields(CheckedTemplate, total=False):
    """Entries of TEMPLATE: a function, class or method with its options."""

    qualified: str
    #: A class with the place of its definition.
    class_path: str
    streaming: bool
    backpressure: int
    #: The limit of unread values of all generators of an actor.
    actor_backpressure: int
    per_yield: int
    retry_exceptions: Any
    max_task_retries: int | None
    method: str
    group: str
    groups: dict[str, int] | None
    concurrent: bool
    is_async: bool
    max_concurrency: int
    tensor_transport: str


class CheckedActor(FieldDict, total=False):
    """Entries of CREATE_ACTOR that the node reads."""

    actor_name: str | None
    namespace: str
    max_restarts: int | None
    max_task_retries: int | None
    handle: bytes | None


class ActorFields(CheckedActor, total=False):
    """Entries of CREATE_ACTOR: the lifetime options of an actor."""

    detached: bool
    concurrent: bool
    restarts: int


class GroupFields(FieldDict, total=False):
    """Entries of the question `create_group` that the node reads."""

    strategy: str | None
    name: str | None
    namespace: str | None
    value: bytes | None
    selectors: tuple[tuple[Annotated[Any, Passes(is_condition)], ...], ...] | None


class WaitFacts(FieldDict, total=False):
    """Entries of WAITS that the node reads: other threads of the process that may act; the waiting line of code."""

    free: int | None
    where: str | None


class Greeting(FieldDict, total=False):
    """Entries of ATTACH with a driver's settings for its workers."""

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
    looks: bool | None


class LeaseFields(FieldDict, total=False):
    """Entries of LEASE: resources in units, the GPUs and other devices, the placement group, and the job."""

    resources: dict[str, int]
    gpus: list[Any]
    devices: dict[str, list[Any]]
    group: bytes
    capture: bool
    job: str
    namespace: str


class ConstructFields(FieldDict, total=False):
    """Entries of CONSTRUCT; `failed` is the error of a lost argument that could not be recreated."""

    name: str
    namespace: str
    restarts: int
    task_retries: int
    failed: ErrorValue


class ForwardFields(FieldDict, total=False):
    """Entries of FORWARD; `actor` for a call, `life` for a creation."""

    attempt: int
    retries: int
    consumed: int
    job: str
    namespace: str
    actor: bytes
    life: ActorFields


class ActorFacts(FieldDict, total=False):
    """Entries of ACTOR_AT; only the first four while it lives at the same place."""

    class_name: str
    name: str
    task_retries: int
    in_order: bool
    death: ErrorValue
    reason: str


class GroupFacts(FieldDict, total=False):
    """Entries of GROUP; places: node ids by the index of the bundle."""

    bundles: tuple[dict[str, int], ...]
    strategy: str
    name: str
    state: str
    places: dict[int, bytes]
