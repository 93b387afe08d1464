"""Views of values in shared memory.

A process that was told where a value lies may look at it there at any time, so the node asks (RECALL) before it moves one. A ref
counts its views, and those who are about to take one, in a list: finalizers, which run in any thread at any moment, only pop
from it, and everything else happens under the engine lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.protocol.messages import ARENA, PENDING, UNKNOWN

if TYPE_CHECKING:
    from skate.client.object.object_ref import ObjectRef
    from skate.client.process import Process


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
