"""The overflow file: disk for values that the arena has no room for."""

from __future__ import annotations

import os

from skate.node.arena import _punch_function

CAPACITY_MAX = 1 << 42


class OverflowFile:
    """A sparse file without a name, in the folder for temporary files; empty if there is no such folder to write to."""

    def __init__(self) -> None:
        folder = os.environ.get("TMPDIR") or "/tmp"
        self.fd = -1
        self.capacity = 0
        try:
            self.fd = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
            disk = os.statvfs(folder)
            self.capacity = min(CAPACITY_MAX, disk.f_bavail * disk.f_frsize) & ~4095
            os.ftruncate(self.fd, self.capacity)
        except OSError:
            # No disk to overflow to: the arena is all there is, and a full one is an error.
            self.close()
        self._punch = _punch_function()

    def release(self, offset: int, size: int) -> None:
        """Give the blocks of a range back to the disk."""
        if self._punch is not None and self.fd >= 0:
            self._punch(self.fd, offset, size)

    def close(self) -> None:
        """Close the file, which deletes it."""
        self.capacity = 0
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
