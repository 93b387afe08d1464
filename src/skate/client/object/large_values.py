"""Writing of large values into shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.client import failures

if TYPE_CHECKING:
    from skate.client.process import Process
    from skate.wire.values import Packed


def write(process: Process, oid: bytes, packed: Packed) -> tuple[int, int]:
    """Write a packed value into the arena; return its offset and size. The held lock is released while bytes are copied."""
    process.pump.interruption_point()
    try:
        offset = process.allocate(oid, packed.size)
        if offset is None:
            return (0, 0)
        with process.pump.unlocked():
            process.mapping.write(offset, packed.parts())
    except OSError as error:
        text = (
            f"a value of {packed.size} bytes cannot be stored: {error}; free space on the disk or in memory"
        )
        raise failures.to_exception(process.cannot_store(oid, text), None, process) from error
    except BaseException:  # above all KeyboardInterrupt: free the memory that will not be written
        process.withdraw(oid)
        raise
    return (offset, packed.size)
