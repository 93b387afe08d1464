"""Places for large values: first the arena, then files on disk, all in one range of offsets.

Every process maps the first file, so a value can stay there and be read in place. The other files only take copies of values
that leave memory. Each file begins `DISK_STRIDE` after the one before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from skate.core.memory.arena import PAGE, Allocator

DISK_STRIDE = 1 << 44


class MemoryPlan:
    """Allocates offsets; those from `boundary` on are on disk."""

    def __init__(self, arena_bytes: int, disk_bytes: Sequence[int]) -> None:
        self.arena = Allocator(arena_bytes)
        self.boundary = arena_bytes
        self.disks = [Allocator(size) for size in disk_bytes if size >= PAGE]
        self._turn = 0

    def allocate(self, size: int) -> int | None:
        """Return an offset for `size` bytes in memory, or else on disk, or None if both are full."""
        offset = self.arena.allocate(size)
        return self.allocate_on_disk(size) if offset is None else offset

    def allocate_on_disk(self, size: int) -> int | None:
        """Return an offset on disk that can be read in place, or None if the disks are full."""
        offset = self.disks[0].allocate(size) if self.disks else None
        return None if offset is None else offset + self.boundary

    def allocate_copy(self, size: int, without: Collection[int] = ()) -> int | None:
        """Return an offset on one of the disks, except those in `without`; None if they are full."""
        for _ in self.disks:
            number = self._turn = (self._turn + 1) % len(self.disks)
            offset = None if number in without else self.disks[number].allocate(size)
            if offset is not None:
                return self.boundary + number * DISK_STRIDE + offset
        return None

    def disk_of(self, offset: int) -> int:
        """Return the number of the disk that has an offset; -1 for the arena."""
        return -1 if offset < self.boundary else (offset - self.boundary) // DISK_STRIDE

    def taken(self, offset: int) -> bool:
        """Return True if an allocated range begins there."""
        if offset < self.boundary:
            return self.arena.taken(offset)
        number, place = divmod(offset - self.boundary, DISK_STRIDE)
        return number < len(self.disks) and self.disks[number].taken(place)

    def free(self, offset: int) -> tuple[int, int] | None:
        """Free memory; for a disk, return the (offset from the boundary, size) of the blocks to free there."""
        if offset < self.boundary:
            self.arena.free(offset)
            return None
        offset -= self.boundary
        number, place = divmod(offset, DISK_STRIDE)
        return offset, self.disks[number].free(place)

    @property
    def capacity(self) -> int:
        """The total capacity in bytes."""
        return self.arena.capacity + sum(disk.capacity for disk in self.disks)

    @property
    def used(self) -> int:
        """The bytes in use."""
        return self.arena.used + sum(disk.used for disk in self.disks)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        self.arena.check()
        for disk in self.disks:
            disk.check()

    def __repr__(self) -> str:
        return f"<MemoryPlan {self.used} of {self.capacity} bytes used>"
