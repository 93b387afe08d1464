"""Files on disk for values that do not fit into memory. They have no name, so they disappear with the processes that use them."""

from __future__ import annotations

import errno
import os

from skate.core.resource.resources import human_bytes
from skate.node.memory.arena_file import _punch_function, file_bytes_max
from skate.node.spill.spill_target import SpillPlace

CAPACITY_MAX = 1 << 42
PIECE_BYTES = 1 << 26


def overflow_files(place: SpillPlace) -> list[OverflowFile]:
    """Create a file in each folder, or else in the folder for temporary files; return the one with the most room first.

    Raise ValueError for a folder that cannot be written to. If not even temporary files can be written, the only file has no
    capacity, so that a full memory is an error.
    """
    full_at = place.full_at
    if not place.folders:
        try:
            return [
                OverflowFile(os.environ.get("TMPDIR") or "/tmp", full_at)
                if place.enabled
                else OverflowFile("")
            ]
        except OSError:
            return [OverflowFile("")]
    files = []
    for folder in place.folders:
        try:
            os.makedirs(folder, exist_ok=True)
            files.append(OverflowFile(folder, full_at))
        except OSError as error:
            for file in files:
                file.close()
            raise ValueError(
                f"values cannot be spilled to {folder!r}: {error.strerror}; use a writable folder on a local disk"
            ) from error
    return sorted(files, key=lambda file: file.left(), reverse=True)


class OverflowFile:
    """A sparse, unnamed file with more address space than its disk has room.

    No more is written when the fraction `full_at` of the disk is in use, by whatever program.
    """

    def __init__(self, folder: str, full_at: float = 1.0) -> None:
        self.fd = -1
        self.capacity = 0
        self.folder = folder
        self._full_at = full_at
        self._punch = _punch_function()
        if not folder:
            return
        self.fd = _nameless(folder)
        try:
            disk = os.statvfs(folder)
            self.capacity = min(CAPACITY_MAX, 2 * disk.f_blocks * disk.f_frsize, file_bytes_max()) & ~4095
            os.ftruncate(self.fd, self.capacity)
        except OSError:
            self.close()
            raise

    def left(self) -> int:
        """Return the bytes that may still be written to the disk; negative if it is fuller than allowed."""
        disk = os.statvfs(self.folder)
        kept = int(disk.f_blocks * disk.f_frsize * (1 - self._full_at))
        return int(disk.f_bavail * disk.f_frsize - kept)

    def reserve(self, offset: int, size: int) -> str:
        """Allocate disk blocks, so that a later store cannot fail; return the problem as text, or "".

        A store into a hole on a full disk would raise SIGBUS instead of an error.
        """
        try:
            left = self.left()
            if size <= left:
                os.posix_fallocate(self.fd, offset, size)
                return ""
            free = f"{human_bytes(max(left, 0))} free"
            if self._full_at < 1:
                free += f" before it is {self._full_at:.0%} full (local_fs_capacity_threshold)"
            return f"the disk of {self.folder} has {free}, but {human_bytes(size)} are needed"
        except OSError as error:
            self.release(offset, size)
            return f"the disk of {self.folder} could not allocate {human_bytes(size)}: {error.strerror}"

    def store(self, offset: int, source: int, at: int, size: int) -> str:
        """Copy bytes from the file `source`; return the problem as text, or "". Only one thread may call it."""
        try:
            os.lseek(self.fd, offset, os.SEEK_SET)
            while size:
                try:
                    copied = os.sendfile(self.fd, source, at, min(size, PIECE_BYTES))
                except OSError as error:
                    if error.errno not in (errno.EINVAL, errno.ENOSYS):
                        raise
                    copied = os.write(self.fd, os.pread(source, min(size, 1 << 20), at))
                at += copied
                size -= copied
        except OSError as error:
            return f"the disk of {self.folder} cannot be written to: {error.strerror}"
        return ""

    def release(self, offset: int, size: int) -> None:
        """Release the disk blocks of a range."""
        if self._punch is not None and self.fd >= 0:
            self._punch(self.fd, offset, size)

    def close(self) -> None:
        """Close the file, which deletes it."""
        self.capacity = 0
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _nameless(folder: str) -> int:
    without_name = getattr(os, "O_TMPFILE", 0)  # Linux has it
    try:
        if without_name:
            return os.open(folder, without_name | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
    import tempfile  # only if the file system cannot create unnamed files

    fd, path = tempfile.mkstemp(prefix="skate-spilled-", dir=folder)
    os.unlink(path)
    return fd
