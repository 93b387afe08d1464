"""Files on disk for values that memory has no room for; they have no name, so nothing outlives the processes that use them."""

from __future__ import annotations

import errno
import os

from skate.core.resource.resources import human_bytes
from skate.node.memory.arena_file import _punch_function, file_bytes_max
from skate.node.spill.spill_target import SpillPlace

CAPACITY_MAX = 1 << 42
PIECE_BYTES = 1 << 26


def overflow_files(place: SpillPlace) -> list[OverflowFile]:
    """A file in each folder, the one with most room first; in the folder for temporary files if there are none.

    Raises ValueError for a folder that cannot be written to. Where not even temporary files can be written the only one is
    empty: then memory is all there is, and a full one is an error.
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
    """A sparse file without a name, in which there are more places than its disk has room.

    Of the disk at most the part `full_at` is used, by all together.
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
        """Bytes that may still be written to the disk; below 0 if it is fuller than it should be."""
        disk = os.statvfs(self.folder)
        kept = int(disk.f_blocks * disk.f_frsize * (1 - self._full_at))
        return int(disk.f_bavail * disk.f_frsize - kept)

    def reserve(self, offset: int, size: int) -> str:
        """Allocate disk blocks, so that no later store into them can fail; return the problem as text, or "".

        A store into a hole of a full disk would end in SIGBUS instead of an error.
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
        """Copy bytes of the file `source` here; return the problem as text, or "". For one thread only."""
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
        """Give the blocks of a range back to the disk."""
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
    import tempfile  # only where the file system cannot make a file without a name

    fd, path = tempfile.mkstemp(prefix="skate-spilled-", dir=folder)
    os.unlink(path)
    return fd
