"""The output of a job in a file of limited size: the latest lines and the lines before them, never more than the limit."""

from __future__ import annotations

import codecs
import os

LIMIT_BYTES = 128 * 1024**2
#: Characters and lines of the output in the message of a failed job.
LAST_CHARACTERS, LAST_LINES = 20_000, 10
_PIECE_BYTES = 1 << 18


class JobLogWriter:
    """Appends to the log of a job. At half of the limit, the file moves to `<path>.1`, in the place of an older one.

    A line in the new file says how many bytes were given up by that, or because the disk was full.
    """

    def __init__(self, path: str, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = path
        self._half = max(limit_bytes // 2, 1 << 12)
        self._older_bytes = 0
        self._lost = 0
        self._why = ""
        self._fd = -1
        self._size = 0
        self._open()

    def write(self, data: bytes) -> None:
        """Append output. Never raises: what the disk does not take is counted."""
        if self._size + len(data) > self._half and self._size:
            self._rotate()
        if self._lost:
            note = f"[skate: {self._lost} bytes of this log are lost: {self._why}]\n".encode()
            if not self._put(note):
                self._lost += len(data)
                return
            self._lost = 0
        if not self._put(data):
            self._lost += len(data)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size

    def _rotate(self) -> None:
        if self._older_bytes:
            self._lost += self._older_bytes
            self._why = "the log had reached its limit"
        self._older_bytes = self._size
        os.close(self._fd)
        os.replace(self._path, f"{self._path}.1")
        self._open()

    def _put(self, data: bytes) -> bool:
        left = memoryview(data)
        try:
            while left:
                written = os.write(self._fd, left)
                self._size += written
                left = left[written:]
        except OSError as error:
            self._why = error.strerror or str(error)
            return False
        return True


class JobLogReader:
    """Reads the log of a job from its beginning, while it grows."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self) -> str:
        """Return the next piece, empty if there is none yet."""
        if self._fd < 0 and not self._open_first():
            return ""
        while not (data := os.read(self._fd, _PIECE_BYTES)):
            following = self._following()
            if following < 0:
                break
            rest = os.read(self._fd, _PIECE_BYTES)  # written before the file was moved
            if rest:
                os.close(following)
                data = rest
                break
            os.close(self._fd)
            self._fd = following
        return self._decoder.decode(data)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open_first(self) -> bool:
        for path in (f"{self._path}.1", self._path):
            try:
                self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                return True
            except FileNotFoundError:
                continue
        return False

    def _following(self) -> int:
        """Open the file that follows the one at its end; return -1 if there is none."""
        here = os.fstat(self._fd).st_ino
        older, latest = _inode(f"{self._path}.1"), _inode(self._path)
        path = self._path if here == older else f"{self._path}.1"
        if here == latest or not latest:
            return -1
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return -1


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


def read_all(path: str) -> str:
    """Return the whole log of a job, empty if there is none."""
    reader = JobLogReader(path)
    pieces = []
    while piece := reader.read():
        pieces.append(piece)
    reader.close()
    return "".join(pieces)


def last_words(path: str) -> str:
    """Return the last lines of a log, for the message of a failed job."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4 * LAST_CHARACTERS))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "".join(text.splitlines(keepends=True)[-LAST_LINES:])[-LAST_CHARACTERS:]
