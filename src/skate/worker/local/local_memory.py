"""A substitute for the shared-memory arena in a single process: bytes by offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from skate.core.memory.memory_plan import MemoryPlan


class LocalMemory(MemoryPlan):
    """Plan and memory in one: it counts like an arena, and keeps plain bytes."""

    def __init__(self, capacity: int, disks: Sequence[int] = ()) -> None:
        super().__init__(capacity, disks)
        self._stored: dict[int, memoryview] = {}

    def free(self, offset: int) -> tuple[int, int] | None:
        """Take a range back; views of what was in it stay good."""
        self._stored.pop(offset, None)
        return super().free(offset)

    def write(self, offset: int, parts: Sequence[Any]) -> None:
        """Keep these buffers, one behind the other, as the bytes at `offset`."""
        self._stored[offset] = memoryview(b"".join(bytes(part) for part in parts))

    def view(self, offset: int, size: int, on_release: Callable[[], object]) -> memoryview:
        """A read-only view of the bytes at `offset`."""
        on_release()  # which is for who moves values
        return self._stored[offset][:size]
