"""The log files of a node: one folder with one budget of bytes, and one writer.

Each stream of a worker, and each job's driver, has a file. A stream that reaches an eighth of the budget continues in a new file;
the full one becomes `NAME.1`. When the folder is full, the files of ended streams are removed, oldest first, then full parts.
Readers need no writer: `entries` and `read` look at the folder itself, in any process.

A disk that is full holds up nobody: lines that it does not take are counted, and a line in the file says how many bytes are lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

BUDGET_BYTES = 1 << 30
#: A stream may fill this share of the budget before it continues in a new file.
SHARE_OF_A_STREAM = 8
ROTATED = ".1"


class LogEntry(NamedTuple):
    """One file of a log folder."""

    name: str  # below the folder, with slashes
    size_bytes: int
    changed_at: float


class LogPart(NamedTuple):
    """One file of a stream, open for reading; from `LogFolder.part`."""

    file: BinaryIO
    turn: int
    is_open: bool  # more will be in this file, or in the next one


class LogStream:
    """One open file of a folder; from `LogFolder.open`."""

    __slots__ = ("_folder", "name", "size_bytes", "lost_bytes", "why")

    def __init__(self, folder: LogFolder, name: str, size_bytes: int) -> None:
        self._folder = folder
        self.name = name
        self.size_bytes = size_bytes
        #: What the disk has not taken since the last line about that, and the reason.
        self.lost_bytes = 0
        self.why = ""

    def write(self, lines: bytes) -> None:
        """Append whole lines. Lines that the disk cannot take are counted in a later line."""
        self._folder.append(self, lines)

    def close(self) -> None:
        """End the stream: its file may be removed when room is needed. Safe to call more than once."""
        self._folder.end(self)

    def __repr__(self) -> str:
        return f"<LogStream {self.name}>"


class LogFolder:
    """The writer of a folder; there is one at a time. Thread-safe.

    Args:
        path: the folder, created with mode 0700 if it does not exist.
        budget_bytes: the most that its files take together.

    Raises ValueError if another process writes there.
    """

    def __init__(self, path: str, budget_bytes: int = BUDGET_BYTES) -> None:
        self.path = os.path.abspath(path)
        self.budget_bytes = budget_bytes
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        self._folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._folder)
            raise ValueError(
                f"another node writes its logs to {self.path}; give each node a folder of its own"
            ) from None
        self._closed = False
        self._lock = threading.Lock()
        self._open: dict[str, LogStream] = {}
        #: How often each stream was continued in a new file.
        self._turns: dict[str, int] = {}
        #: Sizes of the files without a stream, oldest first; those of earlier nodes are the oldest.
        self._ended = {
            each.name: each.size_bytes for each in sorted(entries(self.path), key=lambda e: e.changed_at)
        }
        self._total = sum(self._ended.values())

    def open(self, name: str) -> LogStream:
        """Begin a stream; an existing file of this name is continued. Raises ValueError for a name outside of the folder."""
        path = path_in(self.path, name)
        with self._lock:
            stream = self._open.get(name)
            if stream is None:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                stream = self._open[name] = LogStream(self, name, self._ended.pop(name, 0))
            return stream

    def part(self, name: str, turn: int) -> LogPart:
        """Open a file for reading, as it was after so many rotations; -1 for the present one. The caller closes it.

        Without that file any more, the present one is returned. Raises OSError and ValueError as `opened` does.
        """
        with self._lock:
            now = self._turns.get(name, 0)
            is_open = name in self._open
            if turn == now - 1:
                with contextlib.suppress(OSError):
                    return LogPart(opened(self.path, name + ROTATED), turn, True)
            return LogPart(opened(self.path, name), now, is_open)

    def append(self, stream: LogStream, lines: bytes) -> None:
        """Write to a stream; see `LogStream.write`."""
        with self._lock:
            if self._open.get(stream.name) is not stream:
                return
            if stream.size_bytes and stream.size_bytes + len(lines) > self.budget_bytes // SHARE_OF_A_STREAM:
                self._rotate(stream)
            self._put(stream, lines[-self.budget_bytes :])
            if self._total > self.budget_bytes:
                self._make_room()

    def _put(self, stream: LogStream, lines: bytes) -> None:
        """Write a line about what was lost before, if anything was, and then the lines."""
        note = b""
        if stream.lost_bytes:
            note = f"[skate: {stream.lost_bytes} bytes of this log are lost: {stream.why}]\n".encode()
        written, error = _append(path_in(self.path, stream.name), note + lines)
        if written >= len(note):
            stream.lost_bytes = len(note)
        stream.lost_bytes += len(lines) - written
        stream.why = error or stream.why
        stream.size_bytes += written
        self._total += written

    def end(self, stream: LogStream) -> None:
        """End a stream; see `LogStream.close`."""
        with self._lock:
            if self._open.get(stream.name) is stream:
                if stream.lost_bytes:
                    self._put(stream, b"")
                del self._open[stream.name]
                self._ended[stream.name] = stream.size_bytes

    def close(self) -> None:
        """End all streams; the files stay. Safe to call more than once."""
        for stream in list(self._open.values()):
            self.end(stream)
        if not self._closed:
            self._closed = True
            os.close(self._folder)

    def _rotate(self, stream: LogStream) -> None:
        """Let a stream continue in a new file."""
        older = stream.name + ROTATED
        path = path_in(self.path, stream.name)
        try:
            os.replace(path, path + ROTATED)
        except OSError:
            return
        self._turns[stream.name] = self._turns.get(stream.name, 0) + 1
        self._total -= self._ended.pop(older, 0)
        self._ended[older] = stream.size_bytes
        stream.size_bytes = 0

    def _make_room(self) -> None:
        # The full parts of open streams are removed last: a reader of a living worker looks for them.
        parts = [name for name in self._ended if name.removesuffix(ROTATED) in self._open]
        others = [name for name in self._ended if name not in parts]
        for name in [*others, *parts]:
            if self._total <= self.budget_bytes:
                return
            self._remove(name)
        if self._total > self.budget_bytes and self._open:
            largest = max(self._open.values(), key=lambda each: each.size_bytes)
            self._rotate(largest)
            self._remove(largest.name + ROTATED)

    def _remove(self, name: str) -> None:
        self._total -= self._ended.pop(name, 0)
        try:
            os.unlink(path_in(self.path, name))
        except OSError:
            # A user has removed it, or the folder.
            return

    def __repr__(self) -> str:
        return f"<LogFolder {self.path}, {len(self._open)} open>"


def path_in(folder: str, name: str) -> str:
    """Return the path of a file of a log folder. Raises ValueError for a name that leads out of it."""
    parts = name.split("/")
    if not name or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{name!r} is not the name of a log file")
    return os.path.join(folder, *parts)


def entries(folder: str) -> list[LogEntry]:
    """Return the files of a log folder, sorted by name; none if there is no such folder."""
    return sorted(_entries(folder))


def _entries(folder: str) -> Iterator[LogEntry]:
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            try:
                status = os.lstat(path)
            except FileNotFoundError:  # removed meanwhile
                continue
            yield LogEntry(os.path.relpath(path, folder), status.st_size, status.st_mtime)


def read(folder: str, name: str, start: int, size_bytes: int) -> bytes:
    """Return bytes of a log file from `start`; a negative start counts from its end.

    Returns b"" behind the end. Raises FileNotFoundError if there is no such file, ValueError for a name outside of the folder.
    """
    with opened(folder, name) as file:
        if start < 0:
            start = max(0, os.fstat(file.fileno()).st_size + start)
        return os.pread(file.fileno(), size_bytes, start)


def opened(folder: str, name: str) -> BinaryIO:
    """Open a log file for reading. Raises OSError if there is none, ValueError if the name or a link leads out of the folder."""
    path = path_in(folder, name)
    root = os.path.realpath(folder)
    if os.path.commonpath([root, os.path.realpath(path)]) != root:
        raise ValueError(f"{name!r} leads out of the log folder")
    # A pipe would wait for a writer.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileNotFoundError(f"{name!r} is no log file")
    return cast(BinaryIO, os.fdopen(fd, "rb", buffering=0))


def _append(path: str, data: bytes) -> tuple[int, str]:
    """Append whole lines, as many as the disk takes; return their bytes, and the error if that is not all of them."""
    written, error = 0, ""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as refused:
        return 0, refused.strerror or str(refused)
    try:
        while written < len(data):
            written += os.write(fd, memoryview(data)[written:])
    except OSError as refused:
        error = refused.strerror or str(refused)
        whole = data.rfind(b"\n", 0, written) + 1
        with contextlib.suppress(OSError):
            os.ftruncate(fd, os.fstat(fd).st_size - (written - whole))
            written = whole
    finally:
        os.close(fd)
    return written, error
