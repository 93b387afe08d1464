"""A file that loggers append to, each write as one system call.

A search has several such files for each trial, and a trial may write each only once. `open` of a buffered file costs four
system calls and three objects.
"""

from __future__ import annotations

import os
import warnings


class AppendFile:
    """The end of a file, which is created if necessary."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def write(self, data: bytes) -> None:
        """Append bytes. Raises OSError if they do not fit on the disk."""
        written = os.write(self._fd, data)
        while written < len(data):
            written += os.write(self._fd, data[written:])

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            warnings.warn(f"unclosed file {self._path!r}", ResourceWarning, stacklevel=2)
            self.close()


def write_file(path: str, data: bytes) -> None:
    """Write a whole file. Raises OSError if it does not fit on the disk."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, data[written:])
    finally:
        os.close(fd)
