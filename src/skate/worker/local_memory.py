"""What stands for the shared-memory arena where everything happens in one process: bytes by their offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from skate.core.arena import Allocator


class LocalMemory(Allocator):
    """Allocator and mapping in one: it counts like an arena, and keeps plain bytes."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._stored: dict[int, memoryview] = {}

    def free(self, offset: int) -> int:
        """Take a range back and return its bytes; views of what was in it stay good."""
        self._stored.pop(offset, None)
        return super().free(offset)

    def write(self, offset: int, parts: Sequence[Any]) -> int:
        """Keep these buffers, one behind the other, as the bytes at `offset`."""
        whole = b"".join(bytes(part) for part in parts)
        self._stored[offset] = memoryview(whole)
        return len(whole)

    def view(self, offset: int, size: int, on_release: Callable[[], object]) -> memoryview:
        """A read-only view of the bytes at `offset`."""
        return self._stored[offset][:size]
