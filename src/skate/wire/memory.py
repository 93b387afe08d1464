"""The memory for large values as seen by one process: the arena, and a file on disk for values that do not fit.

Offsets below the arena's capacity are in the arena, those above in the overflow file. That file has no name,
so nothing is left behind; it is read in place like the arena, and the kernel writes it to disk when memory
runs short.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from skate.wire.memory_map import Mapping


class Memory:
    """Writes values and provides views of them, by offset."""

    def __init__(self, arena_fd: int, arena_bytes: int, overflow_fd: int, overflow_bytes: int) -> None:
        self._arena = Mapping(arena_fd, arena_bytes)
        self._boundary = arena_bytes
        self._overflow_fd = os.dup(overflow_fd) if overflow_fd >= 0 else -1
        self._overflow_bytes = overflow_bytes
        self._overflow: Mapping | None = None

    def write(self, offset: int, parts: Sequence[Any]) -> None:
        """Write buffers one after another. Raises OSError when the disk is full."""
        if offset < self._boundary:
            self._arena.write(offset, parts)
            return
        at = offset - self._boundary
        total = sum(memoryview(part).nbytes for part in parts)
        # Blocks are allocated first: writing to a hole on a full disk would cause SIGBUS instead of an error.
        os.posix_fallocate(self._overflow_fd, at, total)
        for part in parts:
            view = memoryview(part).cast("B") if memoryview(part).nbytes else memoryview(b"")
            while view:
                written = os.pwrite(self._overflow_fd, view, at)
                at += written
                view = view[written:]

    def view(self, offset: int, size: int, on_release: Callable[[], object]) -> memoryview:
        """Return a read-only view; `on_release` is called once, when no object derived from it is left."""
        if offset < self._boundary:
            return self._arena.view(offset, size, on_release)
        if self._overflow is None:
            self._overflow = Mapping(self._overflow_fd, self._overflow_bytes, writable=False)
        return self._overflow.view(offset - self._boundary, size, on_release)

    def fill(self, offset: int, fd: int, at: int, size: int) -> None:
        """Read bytes of a file into the arena. Raises OSError if they cannot be read."""
        self._arena.fill(offset, fd, at, size)

    def space(self, offset: int, size: int) -> memoryview | None:
        """Return writable memory of the arena; None beyond it, where a full disk would end the process that writes."""
        return self._arena.space(offset, size) if offset < self._boundary else None

    def peek(self, offset: int, size: int) -> memoryview:
        """Return bytes of the arena; the caller must ensure that they do not change meanwhile."""
        return self._arena.peek(offset, size)

    def forget(self, offset: int, size: int) -> None:
        """Record that memory of the arena was returned to the system."""
        self._arena.forget(offset, size)

    def close(self) -> None:
        """Release the memory; views in use stay valid."""
        self._arena.close()
        if self._overflow is not None:
            self._overflow.close()
        if self._overflow_fd >= 0:
            os.close(self._overflow_fd)
            self._overflow_fd = -1
