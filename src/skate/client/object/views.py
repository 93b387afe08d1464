"""Views of values in shared memory, and the node's question whether there are any.

A process that was told where a value lies may look at it there at any time, so the node asks (RECALL) before it moves one. A ref
counts its views, and those who are about to take one, in a list: finalizers, which run in any thread at any moment, only pop
from it, and everything else happens under the engine lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.protocol import messages as m
from skate.protocol.messages import ARENA, PENDING, REMOTE, UNKNOWN

if TYPE_CHECKING:
    from skate.client.object.object_ref import ObjectRef
    from skate.client.process import Process


def recall(process: Process, message: m.Recall) -> None:
    """RECALL: forget where a value is, unless it is being looked at; the lock is held.

    The answer carries the grants counted here. If the node counts more, something that it sent is not yet looked at.
    """
    _, number, oid = message
    weak = process.known.get(oid)
    ref = weak() if weak is not None else None
    if ref is None:
        process.send(m.Recalled(m.RECALLED, number, oid, 0))
    elif ref._views:
        process.send(m.Recalled(m.RECALLED, number, oid, -1))
    else:
        if ref._kind == ARENA:
            # It is there, only not in memory: `wait` need not have it brought back.
            ref._kind = REMOTE
            ref._value = ref._value[1]
        process.send(m.Recalled(m.RECALLED, number, oid, ref._grants))


def keep(ref: ObjectRef[Any]) -> None:
    """A view of the value is about to be taken: it stays where it is, or will be; the lock is held."""
    if ref._views is None:
        ref._views = []
    ref._views.append(None)


def let_go(ref: ObjectRef[Any]) -> None:
    """Take back one `keep`; callable from a finalizer."""
    if ref._views:
        ref._views.pop()


def view(process: Process, ref: ObjectRef[Any]) -> memoryview | None:
    """A view of a ref's value; None if it is not in memory after all."""
    with process.lock:
        if ref._kind != ARENA:
            return None
        keep(ref)
        offset, size = ref._value
        try:
            # Being bound to the view is what keeps the ref alive.
            found: memoryview = process.mapping.view(offset, size, ref._released)
        except BaseException:  # Ctrl-C as well: nobody looks at the value then
            let_go(ref)
            raise
        return found


def awaited_view(process: Process, ref: ObjectRef[Any]) -> memoryview | None:
    """Wait for a view of a value that was moved while it was being read; None if it is no longer in memory."""
    with process.lock:
        keep(ref)
        try:
            while not process.closed and (ref._kind == PENDING or ref._kind >= UNKNOWN):
                process.ask_for(ref)
                told = process.link.block()
                try:
                    process.link.flush()
                    process.pump.wait(ref._is_ready)
                finally:
                    if told:
                        process.link.unblock()
            return view(process, ref)
        finally:
            let_go(ref)
