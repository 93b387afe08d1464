"""Unpacking of the arguments of a call, with refs replaced by their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.client.object import views
from skate.client.task.submission import WHOLE
from skate.client.tensor import tensor_transports
from skate.protocol.messages import ARENA
from skate.wire import values

if TYPE_CHECKING:
    from skate.client.object.object_ref import ObjectRef
    from skate.client.process import Process

reading = tensor_transports.reading
Arguments = tuple[Any, dict[str, Any]]


def unpack_arguments(process: Process, blob: bytes, deps: tuple[Any, ...]) -> Arguments:
    """Return positional and keyword arguments of a call. `deps` are the refs among them, as (place, id, kind, payload)."""
    if not deps:
        return values.unpack(blob) if blob else ((), {})
    # Their grants came with the message, so take all of them over before anything can fail.
    with process.lock:
        refs = [_adopt(process, oid, payload) if kind == ARENA else None for _, oid, kind, payload in deps]
    try:
        reading.argument = True
        found = {
            place: _unpacked(payload) if ref is None else process.load(ref)
            for ref, (place, _, _, payload) in zip(refs, deps, strict=True)
        }
    finally:
        reading.argument = False
        for ref in refs:
            if ref is not None:
                views.let_go(ref)
    if WHOLE in found:
        given, named = found.pop(WHOLE)
    else:
        given, named = values.unpack(blob)
    if found:
        given = list(given)
        for place, value in found.items():
            if type(place) is int:
                given[place] = value
            else:
                named[place] = value
    return given, named


def _unpacked(payload: bytes) -> Any:
    try:
        return values.unpack(payload)
    except Exception as error:  # the user's code may raise anything
        from skate.client.failures import unreadable  # only failures need it

        raise unreadable(error) from error


def _adopt(process: Process, oid: bytes, payload: Any) -> ObjectRef[Any]:
    """Return the ref of an argument in shared memory, and keep the value in place until it is unpacked."""
    ref: ObjectRef[Any] = process.adopt_any(oid)
    views.keep(ref)
    ref._kind = ARENA
    ref._value = payload
    return ref
