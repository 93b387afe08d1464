"""Large values on their way into shared memory."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from skate.client import failures
from skate.protocol import messages as m
from skate.protocol.messages import ARENA, ERROR

if TYPE_CHECKING:
    from skate.client.object.object_ref import ObjectRef
    from skate.client.process import Process
    from skate.wire.values import Packed


def write(process: Process, oid: bytes, packed: Packed) -> tuple[int, int]:
    """Write a packed value into the arena; returns its place. The lock is held, but released while bytes are copied."""
    process.pump.interruption_point()
    try:
        offset = process.allocate(oid, packed.size)
        if offset is None:
            return (0, 0)
        with process.pump.aside():
            process.mapping.write(offset, packed.parts())
    except OSError as error:
        text = (
            f"a value of {packed.size} bytes cannot be stored: {error}; free space on the disk or in memory"
        )
        process.send(m.Publish(m.PUBLISH, oid, ERROR, ("OutOfDiskError", {"message": text}), (), False))
        raise failures.to_exception(("OutOfDiskError", {"message": text}), None, process) from error
    except BaseException:  # an interrupt, most of all: nobody will write what was set apart
        if not process.closed:
            process.send((m.FREE, oid, 0))
        raise
    return (offset, packed.size)


def adopt(process: Process, ref: ObjectRef[Any], place: tuple[int, int]) -> None:
    """Record that a ref's value is in the arena; the node is notified next, and may move it from then on. The lock
    is held.
    """
    ref._value = place
    ref._kind = ARENA
    ref._grants = 1
    process.known[ref._id] = weakref.ref(ref)
