"""Where large values go: the arena first, and what does not fit there the overflow file, behind it in one row of offsets."""

from __future__ import annotations

from skate.core.arena import PAGE, Allocator


class MemoryPlan:
    """Hands out offsets; those from `boundary` on are in the overflow file."""

    def __init__(self, arena_bytes: int, overflow_bytes: int) -> None:
        self.arena = Allocator(arena_bytes)
        self.boundary = arena_bytes
        self.overflow = Allocator(overflow_bytes) if overflow_bytes >= PAGE else None

    def allocate(self, size: int) -> int | None:
        """An offset for `size` bytes, or None if there is no room in either."""
        offset = self.arena.allocate(size)
        return self.allocate_on_disk(size) if offset is None else offset

    def allocate_on_disk(self, size: int) -> int | None:
        """An offset in the overflow file, or None if there is no room in it."""
        offset = None if self.overflow is None else self.overflow.allocate(size)
        return None if offset is None else offset + self.boundary

    def taken(self, offset: int) -> bool:
        """Whether something was allocated there."""
        if offset < self.boundary:
            return self.arena.taken(offset)
        return self.overflow is not None and self.overflow.taken(offset - self.boundary)

    def free(self, offset: int) -> tuple[int, int] | None:
        """Give memory back; for the overflow file the (offset, size) in it that should be given back to the disk."""
        if offset < self.boundary:
            self.arena.free(offset)
            return None
        assert self.overflow is not None
        offset -= self.boundary
        return offset, self.overflow.free(offset)

    @property
    def capacity(self) -> int:
        """Bytes in all."""
        return self.arena.capacity + (self.overflow.capacity if self.overflow is not None else 0)

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self.arena.used + (self.overflow.used if self.overflow is not None else 0)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        self.arena.check()
        if self.overflow is not None:
            self.overflow.check()

    def __repr__(self) -> str:
        return f"<MemoryPlan {self.used} of {self.capacity} bytes used>"
