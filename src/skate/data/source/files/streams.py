"""Opening of files: decompression by file name, retries after transient errors."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from skate.installed import require

T = TypeVar("T")
_COMPRESSIONS = {
    ".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd", ".br": "brotli", ".lz4": "lz4",
    ".snappy": "snappy",
}  # fmt: skip
ATTEMPTS = 10
_WAIT_SECONDS_MAX = 32.0
#: The end of a line is searched in pieces of this many bytes.
_SEARCHED = 64 << 10


def compression_of(path: str) -> str | None:
    """Return the compression implied by a file's name, in Arrow's terms."""
    dot = path.rfind(".")
    return _COMPRESSIONS.get(path[dot:].lower()) if dot >= 0 else None


def open_stream(
    filesystem: pafs.FileSystem, path: str, options: dict[str, Any], buffer_size: int | None = None
) -> pa.NativeFile:
    """Open a file for sequential reading; `options` are those of `open_input_stream`."""
    given = dict(options)
    compression = given.pop("compression", "detect")
    if compression == "detect":
        compression = compression_of(path)
    given.setdefault("buffer_size", buffer_size)
    if compression == "snappy":  # Arrow has no streaming of it
        with filesystem.open_input_stream(path, compression=None, **given) as raw:
            return pa.BufferReader(_unsnap(raw.read()))
    return filesystem.open_input_stream(path, compression=compression, **given)


def _unsnap(data: bytes) -> bytes:
    snappy = require("snappy", "a file that ends in .snappy", "python-snappy")
    source, sink = io.BytesIO(data), io.BytesIO()
    snappy.stream_decompress(source, sink)
    return sink.getvalue()


def open_file(filesystem: pafs.FileSystem, path: str, options: dict[str, Any]) -> pa.NativeFile:
    """Open a file for random access."""
    given = {name: value for name, value in options.items() if name == "buffer_size"}
    return filesystem.open_input_file(path, **given)


def passes(error: BaseException, patterns: Sequence[str]) -> bool:
    """True if an error's text contains one of the patterns: such errors are transient and retried."""
    text = str(error)
    return any(pattern in text for pattern in patterns)


def retried(call: Callable[[], T], patterns: Sequence[str], attempts: int = ATTEMPTS) -> T:
    """Make a call and return its result; transient errors are retried, after waits that grow up to half a minute."""
    for attempt in range(1, attempts):
        try:
            return call()
        except Exception as error:  # filesystems raise any type of error; its text decides
            if not passes(error, patterns):
                raise
            _pause(attempt)
    return call()


def retried_each(
    make: Callable[[], Iterable[T]], patterns: Sequence[str], attempts: int = ATTEMPTS
) -> Iterator[T]:
    """Yield from an iterator; after a transient error it is created again, and the values already yielded are
    skipped.
    """
    given = 0
    for attempt in range(1, attempts + 1):
        at = 0
        try:
            for value in make():
                at += 1
                if at > given:
                    yield value
                    given = at
            return
        except Exception as error:  # filesystems and formats raise any type of error; its text decides
            if attempt == attempts or not passes(error, patterns):
                raise
            _pause(attempt)


def _pause(attempt: int) -> None:
    time.sleep(min(_WAIT_SECONDS_MAX, 2.0 ** (attempt - 3)) * (0.5 + random.random() / 2))


def chunks(file: Any, size: int) -> Iterator[bytes]:
    """Yield the bytes of a stream in pieces of about `size`."""
    while True:
        data = file.read(size)
        if not data:
            return
        yield data


def lines_at_once(file: Any, size: int) -> Iterator[bytes]:
    """Yield the bytes of a stream in pieces of about `size`, cut at the ends of lines."""
    kept = b""
    for data in chunks(file, size):
        # The remainder is joined with the piece before it, so that a small file is one piece.
        cut = kept.rfind(b"\n") + 1
        if cut:
            yield kept[:cut]
        kept = kept[cut:] + data
    if kept:
        yield kept


def line_from(file: Any, position: int) -> int:
    """Return where the first line begins at or after a position of a random-access file; its end if none does."""
    if not position:
        return 0
    at = position - 1  # a line that begins here follows the end of another
    file.seek(at)
    for data in chunks(file, _SEARCHED):
        cut: int = data.find(b"\n")
        if cut >= 0:
            return at + cut + 1
        at += len(data)
    return at


def lines_of_range(file: Any, start: int, end: int, size: int) -> Iterator[bytes]:
    """Yield the lines that begin in a range of bytes of a random-access file, in pieces of about `size` bytes."""
    if start:  # a line that begins here follows the end of another
        file.seek(start - 1)
    return lines_at_once(_Range(file, start, end), size)


class _Range:
    """A stream of the lines that begin in a range of bytes."""

    def __init__(self, file: Any, start: int, end: int) -> None:
        self._file = file
        self._at = max(0, start - 1)
        self._end = end
        self._skip = bool(start)
        self._over = start >= end

    def read(self, size: int) -> bytes:
        while not self._over:
            data: bytes = self._file.read(size)
            if not data:
                self._over = True
                break
            begin = 0
            if self._skip:
                begin = data.find(b"\n") + 1
                if not begin:
                    self._at += len(data)
                    self._over = self._at >= self._end
                    continue
                self._skip = False
                if self._at + begin >= self._end:
                    self._over = True
                    break
            after = self._at + len(data)
            if after >= self._end:
                # The line with the last byte of the range is the last one.
                cut = data.find(b"\n", self._end - 1 - self._at if self._end - 1 >= self._at else 0) + 1
                if cut:
                    self._over = True
                    data = data[:cut]
            self._at = after
            if data[begin:]:
                return data[begin:]
        return b""


class Joined(io.RawIOBase):
    """A stream of pieces of bytes. It returns as many bytes as requested until it ends, because Arrow takes a
    short read for the end."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        found: list[memoryview] = []
        wanted = size
        while wanted:
            if not self._left:
                self._left = memoryview(next(self._pieces, b""))
                if not self._left:
                    break
            part = self._left if wanted < 0 else self._left[:wanted]
            self._left = self._left[len(part) :]
            wanted -= len(part) if wanted > 0 else 0
            found.append(part)
        return found[0].tobytes() if len(found) == 1 else b"".join(found)
