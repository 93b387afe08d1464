"""Views of values in shared memory.

A process that has the location of a value may read it at any time, so the node sends RECALL before it moves a value. A ref
counts its views, and the callers about to take one, in a list. Finalizers, which run in any thread at any time, only pop
from the list; everything else happens under the engine lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.protocol.messages import ARENA, PENDING, UNKNOWN

if TYPE_CHECKING:
    from skate.client.object.object_ref import ObjectRef
    from skate.client.process import Process


def keep(ref: ObjectRef[Any]) -> None:
    """Keep the value where it is, or will arrive, because a view of it is about to be taken. The lock is held."""
    if ref._views is None:
        ref._views = []
    ref._views.append(None)


def let_go(ref: ObjectRef[Any]) -> None:
    """Undo one `keep`. Callable from a finalizer."""
    if ref._views:
        ref._views.pop()


def view(process: Process, ref: ObjectRef[Any]) -> memoryview | None:
    """Return a view of a ref's value, or None if it is no longer in memory."""
    with process.lock:
        if ref._kind != ARENA:
            return None
        keep(ref)
        offset, size = ref._value
        try:
            # The view's finalizer is a bound method, which keeps the ref alive.
            found: memoryview = process.mapping.view(offset, size, ref._released)
        except BaseException:  # includes KeyboardInterrupt: no view was taken
            let_go(ref)
            raise
        return found


def awaited_view(process: Process, ref: ObjectRef[Any]) -> memoryview | None:
    """Wait for a value that was moved, and return a view of it, or None if it is not in memory."""
    with process.lock:
        keep(ref)
        try:
            while not process.closed and (ref._kind == PENDING or ref._kind >= UNKNOWN):
                process.ask_for(ref)
                blocked = process.link.block()
                try:
                    process.link.flush()
                    process.pump.wait(ref._is_ready)
                finally:
                    if blocked:
                        process.link.unblock()
            return view(process, ref)
        finally:
            let_go(ref)
