"""The arguments of a call, unpacked where it runs: refs among them are replaced by their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.client.submission import WHOLE
from skate.core.messages import ARENA
from skate.wire import values

if TYPE_CHECKING:
    from skate.client.process import Process

Arguments = tuple[Any, dict[str, Any]]


def unpack_arguments(process: Process, blob: bytes, deps: tuple[Any, ...]) -> Arguments:
    """Positional and keyword arguments of a call; `deps` are the refs among them as (place, id, kind, payload)."""
    if not deps:
        return values.unpack(blob) if blob else ((), {})
    found = {place: _value(process, oid, kind, payload) for place, oid, kind, payload in deps}
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


def _value(process: Process, oid: bytes, kind: int, payload: Any) -> Any:
    if kind != ARENA:
        return values.unpack(payload)
    with process.lock:
        ref = process.adopt_any(oid)  # its grant came with the message
        ref._kind = ARENA
        ref._value = payload
    return process.load(ref)
