"""Journals on disk, read as they grow: each reading takes up the lines since the last one."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator

#: The most bytes of one reading; the next one continues from there. And the longest line that is read.
READ_BYTES_MAX = 8 << 20
LINE_BYTES_MAX = 1 << 20


class JournalTail:
    """A file of JSON lines that another process appends to.

    Args: path: the file; it may not exist yet.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        #: True if there is more than one reading takes.
        self.has_more = False
        self._at = 0
        self._inode = 0
        self._skips = False

    def entries(self) -> Iterator[dict[str, object]]:
        """Yield the objects of the complete lines since the last call; anything else is passed over."""
        self.has_more = False
        try:
            # A path is a text that another process has sent. Opening a pipe must not wait.
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        with open(handle, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return
            if status.st_ino != self._inode or status.st_size < self._at:
                self._inode, self._at, self._skips = status.st_ino, 0, False
            file.seek(self._at)
            contents = file.read(READ_BYTES_MAX)
        end = contents.rfind(b"\n") + 1
        if not end and len(contents) >= LINE_BYTES_MAX:
            self._at += len(contents)
            self._skips = True
            return
        self._at += end
        self.has_more = len(contents) == READ_BYTES_MAX
        lines = contents[:end].split(b"\n")
        if self._skips and end:
            lines, self._skips = lines[1:], False
        for line in lines:
            found = _object(line)
            if found is not None:
                yield found


def _object(line: bytes) -> dict[str, object] | None:
    if not line or len(line) > LINE_BYTES_MAX:
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):  # cut off by a crash, or not a journal
        return None
    return found if isinstance(found, dict) else None
