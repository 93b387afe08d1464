"""Submission of calls: packs arguments, collects refs, and creates the refs of results."""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any, Protocol

from skate.client.object import large_values
from skate.client.object.object_ref import ObjectRef
from skate.protocol import messages as m
from skate.protocol.messages import PENDING
from skate.wire import values

if TYPE_CHECKING:
    from skate.client.core.client_core import ClientCore
    from skate.client.process import Process
    from skate.protocol.fields import ActorFields

NO_ARGUMENTS = b""
WHOLE = "*"  # the place of an argument that holds all arguments

Packed = tuple[bytes, list[tuple[Any, Any]], list[Any]]


class Callee(Protocol):
    """A called function or method, for error messages."""

    @property
    def name(self) -> str:
        """The name in error messages."""

    def parameters(self) -> list[str]:
        """Return the names of its positional parameters."""


def pack_arguments(process: Process, args: tuple[Any, ...], kwargs: dict[str, Any], callee: Callee) -> Packed:
    """Pack arguments: return the bytes, the top-level refs as (place, ref), and the nested refs and handles.

    Top-level refs are replaced by their values where the task runs; nested ones stay refs. Large arguments are stored as
    one object.
    """
    if not kwargs:
        if not args:
            return NO_ARGUMENTS, [], []
        if values.is_plain(args):
            blob = pickle.dumps((args, kwargs), 5)
            if len(blob) <= values.INLINE_BYTES_MAX:
                return blob, [], []
    deps: list[tuple[Any, Any]] = []
    if ObjectRef in map(type, args):
        deps = [(place, arg) for place, arg in enumerate(args) if type(arg) is ObjectRef]
        args = tuple(None if type(arg) is ObjectRef else arg for arg in args)
    if kwargs and ObjectRef in map(type, kwargs.values()):
        deps += [(key, arg) for key, arg in kwargs.items() if type(arg) is ObjectRef]
        kwargs = {key: None if type(arg) is ObjectRef else arg for key, arg in kwargs.items()}
    try:
        packed = values.pack((args, kwargs))
    except Exception as error:  # whatever pickling raises, an argument is the cause
        raise unpicklable(error, args, kwargs, callee) from error
    if packed.size <= values.INLINE_BYTES_MAX:
        return packed.joined(), deps, packed.met
    with process.lock:
        whole: ObjectRef[Any] = ObjectRef(process.next_object_id(), process, PENDING)
        process.place(whole, large_values.write(process, whole._id, packed), packed.met)
    deps.append((WHOLE, whole))
    return NO_ARGUMENTS, deps, []


def unpicklable(error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any], callee: Callee) -> TypeError:
    """Build the error that names the argument that cannot be sent, and the path to its faulty part."""
    from skate.wire.culprit import explain  # only errors need it

    name = callee.name
    known = callee.parameters()
    labels = [
        f"argument {known[place]!r}" if place < len(known) else f"argument {place + 1}"
        for place in range(len(args))
    ]
    named = list(zip(labels, args, strict=True))
    named += [(f"argument {key!r}", value) for key, value in kwargs.items()]
    for label, value in named:
        try:
            values.pack(value)
        except Exception:  # any failure marks the culprit
            return TypeError(
                f"Could not serialize the argument: {label} of {name} cannot be sent to a worker: {explain(value, label)}\n"
                f"({type(error).__name__}: {error})"
            )
    return TypeError(
        f"Could not serialize the arguments of {name}, so they cannot be sent to a worker: {type(error).__name__}: {error}"
    )


def call_site(depth: int) -> Any:
    """Return the code and line of the user's call, which become text only when needed."""
    frame = sys._getframe(depth)
    return frame.f_code, frame.f_lineno


def submit(
    process: ClientCore, actor_id: bytes, key: bytes, returns: int, packed: Packed, site: Any
) -> list[ObjectRef[Any]]:
    """Submit a call and return the refs of its results. The lock is held.

    `actor_id` is empty for a task.
    """
    task_id = process.next_task_id()
    if returns == 1:
        ref: ObjectRef[Any] = ObjectRef(task_id + b"\x01\x00\x00\x00", process, PENDING)
        ref._site = site
        process.pending[ref._id] = ref
        refs = [ref]
    else:
        refs = process.new_pending(task_id, returns)
        for each in refs:
            each._site = site
    try:
        send(process, task_id, actor_id, key, packed)
    except BaseException:  # nothing was sent, so nothing may stay pending
        for each in refs:
            process.pending.pop(each._id, None)
        raise
    process.submitted()
    return refs


def send(process: ClientCore, task_id: bytes, actor_id: bytes, key: bytes, packed: Packed) -> None:
    """Send a task to the node. The lock is held."""
    blob, deps, met = packed
    if deps or met:
        dep_ids: tuple[Any, ...] = tuple((place, process.escape(ref)) for place, ref in deps)
        held: tuple[bytes, ...] = tuple(process.escape(inner) for inner in met)
    else:
        dep_ids = held = ()
    context = process.context
    parent = b"" if context is None else context.task_id()
    message: m.SubmitTuple | m.CallTuple
    if actor_id:
        message = (m.CALL, task_id, actor_id, key, blob, dep_ids, held, parent)
    else:
        message = (m.SUBMIT, task_id, key, blob, dep_ids, held, parent)
    process.send(message)


def create_actor(process: ClientCore, actor_id: bytes, key: bytes, packed: Packed, life: ActorFields) -> None:
    """Send the creation of an actor to the node. The lock is held."""
    blob, deps, met = packed
    dep_ids = tuple((place, process.escape(ref)) for place, ref in deps)
    held = tuple(process.escape(inner) for inner in met)
    context = process.context
    parent = b"" if context is None else context.task_id()
    process.send(m.CreateActor(m.CREATE_ACTOR, actor_id, key, blob, dep_ids, held, parent, life))


def request_actor(process: Process, actor_id: bytes, key: bytes, packed: Packed, life: ActorFields) -> None:
    """Send the creation of an actor to the node immediately."""
    with process.lock:
        create_actor(process, actor_id, key, packed, life)
        process.link.flush()
