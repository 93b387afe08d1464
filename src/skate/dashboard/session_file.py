"""Files of kept sessions: answers of the page's routes with their times, appended one after the other.

A file begins with `MAGIC`. Each entry is a head (length of the rest, CRC-32 of the rest, length of the key, seconds since
1970), the key, and the answer as JSON, compressed. The key is the path with its query. An entry is written at once, so a file
that ends in the middle of one, because its writer was killed or the disk was full, is good up to there.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from typing import NamedTuple

MAGIC = b"skate session 1\n"
_HEAD = struct.Struct("<IIHd")
#: The largest answer, and the largest entry.
ANSWER_BYTES_MAX = 32 << 20
KEY_BYTES_MAX = 4 << 10
ENTRY_BYTES_MAX = ANSWER_BYTES_MAX + KEY_BYTES_MAX


def entry(key: str, at: float, answer: bytes) -> bytes:
    """Return an entry. Raises ValueError if the answer or the key is too large."""
    name = key.encode()
    if len(answer) > ANSWER_BYTES_MAX or len(name) > KEY_BYTES_MAX:
        raise ValueError(f"the answer to {key[:200]} has {len(answer)} bytes, more than a session file keeps")
    body = zlib.compress(answer, 6)
    rest = name + body
    return _HEAD.pack(len(rest), zlib.crc32(rest), len(name), at) + rest


class SessionWriter:
    """A file to which entries are appended.

    Args:
        path: a new file.
        bytes_max: the file never becomes larger.

    Raises:
        FileExistsError: there is such a file.
        OSError: it cannot be made.
    """

    def __init__(self, path: str, bytes_max: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            self._handle = os.open(path, flags, 0o600)
        except FileExistsError:
            raise FileExistsError(f"{path} exists already; a session is kept in a new file") from None
        self._bytes_max = bytes_max
        self.path = path
        self.bytes = os.write(self._handle, MAGIC)

    def add(self, key: str, at: float, answer: bytes) -> bool:
        """Append an answer; return False if there is no room for it."""
        try:
            made = entry(key, at, answer)
        except ValueError:
            return False
        if self.bytes + len(made) > self._bytes_max:
            return False
        written = os.write(self._handle, made)
        if written < len(made):  # the disk is full: remove what nobody can read
            os.ftruncate(self._handle, self.bytes)
            return False
        self.bytes += written
        return True

    @property
    def share(self) -> float:
        """The used share of the room."""
        return self.bytes / self._bytes_max

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


class Place(NamedTuple):
    """The place of an answer in a file: its time, where its compressed bytes begin, and their number."""

    at: float
    offset: int
    size: int


class SessionFile:
    """A kept session.

    Args: path: the file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no kept session.
    """

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - open as long as it is served
        #: The places of the answers by key, the oldest first.
        self.places: dict[str, list[Place]] = {}
        if self._file.read(len(MAGIC)) != MAGIC:
            self._file.close()
            raise ValueError(
                f"{path} is no session that `skate dashboard --record` or the button Save has kept"
            )
        self._index()

    def _index(self) -> None:
        """Find all complete entries."""
        while True:
            head = self._file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return
            size, checksum, key_size, at = _HEAD.unpack(head)
            if size > ENTRY_BYTES_MAX or key_size > size:
                return
            rest = self._file.read(size)
            if len(rest) < size or zlib.crc32(rest) != checksum:
                return
            key = rest[:key_size].decode("utf-8", "replace")
            begin = self._file.tell() - size + key_size
            self.places.setdefault(key, []).append(Place(at, begin, size - key_size))

    @property
    def began(self) -> float:
        """The time of the first answer, in seconds since 1970; 0 without any."""
        return min((places[0].at for places in self.places.values()), default=0.0)

    @property
    def ended(self) -> float:
        """The time of the last answer."""
        return max((places[-1].at for places in self.places.values()), default=0.0)

    def answer(self, place: Place) -> object:
        """Return an answer. Raises ValueError if it cannot be read."""
        compressed = os.pread(self._file.fileno(), place.size, place.offset)
        unpacked = zlib.decompressobj()
        try:
            text = unpacked.decompress(compressed, ANSWER_BYTES_MAX)
            found: object = json.loads(text)
        except (zlib.error, RecursionError) as error:
            raise ValueError(f"an answer of the session cannot be read: {error}") from None
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()
