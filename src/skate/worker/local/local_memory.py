"""A substitute for the shared-memory arena in a single process: bytes by offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from skate.core.memory.memory_plan import MemoryPlan


class LocalMemory(MemoryPlan):
    """Both the plan and the memory: counts space like an arena, and stores plain bytes."""

    def __init__(self, capacity: int, disks: Sequence[int] = ()) -> None:
        super().__init__(capacity, disks)
        self._stored: dict[int, memoryview] = {}

    def free(self, offset: int) -> tuple[int, int] | None:
        """Free a range; existing views of it stay valid."""
        self._stored.pop(offset, None)
        return super().free(offset)

    def write(self, offset: int, parts: Sequence[Any]) -> None:
        """Store these buffers, concatenated, as the bytes at `offset`."""
        self._stored[offset] = memoryview(b"".join(bytes(part) for part in parts))

    def view(self, offset: int, size: int, on_release: Callable[[], object]) -> memoryview:
        """Return a read-only view of the bytes at `offset`."""
        on_release()  # values never move here, so no view need be counted
        return self._stored[offset][:size]
