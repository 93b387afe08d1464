"""Encoding of a task's output: results, items of a stream, errors."""

from __future__ import annotations

import os
import pickle
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from skate.client.object import large_values
from skate.protocol.messages import ARENA, INLINE
from skate.wire import values

if TYPE_CHECKING:
    from skate.client.process import Process
    from skate.worker.worker_core import Running

_SMALL = frozenset({int, float, bool, type(None)})

Value = tuple[int, Any, tuple[bytes, ...]]


class Partial(Exception):
    """A generator failed after it had yielded some results; the cause is its exception."""

    def __init__(self, error: BaseException, made: tuple[Value, ...]) -> None:
        self.error = error
        self.made = made


def pack_value(process: Process, running: Running, oid: bytes, value: Any) -> Value:
    """Pack one result, inline or into the arena; return it with the ids of the refs inside it.

    The refs are kept until the result is sent. Otherwise the last hold on their objects might be released before it.
    """
    if type(value) in _SMALL:
        return INLINE, pickle.dumps(value, 5), ()
    name = running.template.name
    if running.template.transport:
        from skate.client.tensor import tensors  # imports torch; only methods with a transport need it

        value = tensors.seal(process, oid, running.template.transport, value)
    try:
        packed = values.pack(value)
    except Exception as error:  # whatever pickling raises, the task's result is the cause
        from skate.wire.culprit import explain

        raise TypeError(
            f"the return value of {name} cannot be sent: {explain(value, 'return value')}\n({type(error).__name__}: {error})"
        ) from error
    if packed.size <= values.INLINE_BYTES_MAX:
        if not packed.met:
            return INLINE, packed.joined(), ()
        running.kept += packed.met
        with process.lock:
            held = tuple(process.escape(inner) for inner in packed.met)
        return INLINE, packed.joined(), held
    running.kept += packed.met
    with process.lock:
        place = large_values.write(process, oid, packed)
        held = tuple(process.escape(inner) for inner in packed.met)
    return ARENA, place, held


def pack_returns(process: Process, running: Running, value: Any) -> tuple[Value, ...]:
    """Pack all results of a task."""
    template = running.template
    count = template.returns
    task_id = running.task_id
    if type(value) is GeneratorType and count:
        return _pack_generated(process, running, value)
    if count == 1:
        return (pack_value(process, running, task_id + b"\x01\0\0\0", value),)
    if count == 0:
        return ()
    return tuple(
        pack_value(process, running, task_id + index.to_bytes(4, "little"), each)
        for index, each in enumerate(split(value, count, template.name), 1)
    )


def _pack_generated(process: Process, running: Running, generator: Any) -> tuple[Value, ...]:
    """Pack the requested number of results, each before the next is computed; further values are ignored."""
    count = running.template.returns
    made: list[Value] = []
    try:
        for value in generator:
            if len(made) == count:
                generator.close()
                break
            oid = running.task_id + (len(made) + 1).to_bytes(4, "little")
            made.append(pack_value(process, running, oid, value))
            value = None
    except BaseException as error:  # user code may raise anything; the caller gets it
        if isinstance(error, SystemExit):  # ends the process
            raise
        raise Partial(error, tuple(made)) from None
    if len(made) < count:
        few = ValueError(
            f"Task returned {len(made)} objects, but num_returns={count}. {running.template.name} must yield that many"
        )
        raise Partial(few, tuple(made))
    return tuple(made)


def interrupted(running: Running, error: BaseException) -> BaseException:
    """Return the TaskCancelledError for a task that KeyboardInterrupt or asyncio's CancelledError ended."""
    from skate.exceptions import TaskCancelledError  # only errors need the tree

    if running.cancelled:
        message = f"{running.template.name} was cancelled while it ran"
    else:
        message = f"{running.template.name} raised {type(error).__name__}({', '.join(map(repr, error.args))})"
    return TaskCancelledError(running.task_id.hex(), message).with_traceback(error.__traceback__)


def split(value: Any, count: int, name: str) -> list[Any]:
    """Split a value into several results."""
    try:
        parts = list(value)
    except TypeError:
        raise TypeError(
            f"{name} has num_returns={count} but returned one {type(value).__name__}, which has no parts; "
            f"return {count} values"
        ) from None
    if len(parts) != count:
        raise ValueError(
            f"Task returned {len(parts)} objects, but num_returns={count}. {name} has to return as many"
        )
    return parts


def pack_failure(
    process: Process, running: Running, error: BaseException, actor: Any, actor_id: bytes
) -> tuple[str, dict[str, Any]]:
    """Pack an exception of user code as an error payload, with its traceback as text and the ids of the refs inside it."""
    from skate.wire.failures import format_remote_traceback, pack_exception  # only failures need them

    template = running.template
    text = format_remote_traceback(error)
    with values.collecting() as met:
        packed = pack_exception(error, text)
    fields = {
        "function": template.name,
        "traceback": text,
        "cause": packed,
        "pid": os.getpid(),
        "ip": process.node_ip_address,
    }
    in_constructor = len(running.task_id) == len(actor_id)
    if in_constructor:
        fields["function"] = f"{template.name}.__init__"
    if met and in_constructor:
        for each in met:  # a constructor's error is not an object, so it cannot hold refs
            process.keep_forever(each)
    elif met:
        running.kept += met
        with process.lock:
            fields["held"] = tuple(dict.fromkeys(process.escape(each) for each in met))
    if actor_id:
        fields["actor"] = actor_id.hex()
    if actor is not None:
        try:
            fields["actor_repr"] = repr(actor)
        except Exception:  # a __repr__ of the user's
            fields["actor_repr"] = f"<{type(actor).__name__}>"
    return ("RayTaskError", fields)
