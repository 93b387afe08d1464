"""Spilled values in external storage, through fsspec or pyarrow, with several values in one object.

An object is deleted with its last value, and all remaining objects when the session ends.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

from skate.node.spill.storage import storage_of


class ExternalStorage:
    """A storage location such as "s3://bucket/prefix".

    Raise ImportError if neither fsspec nor pyarrow (or a package they need for the location) is installed, and ValueError for a
    location that they do not know.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._files, path = storage_of(uri)
        self.folder = f"{path.rstrip('/')}/skate-spilled-{os.urandom(8).hex()}"
        self._made = False
        self._count = 0
        #: The location of each value: object, first byte, number of bytes, checksum.
        self._places: dict[int, tuple[str, int, int, int]] = {}
        self._alive: dict[str, int] = {}

    def store(self, parts: list[tuple[int, Any]]) -> str:
        """Write values, as (number, bytes), into one object; return the problem as text, or ""."""
        self._count += 1
        name = f"{self.folder}/{self._count:08}"
        try:
            if not self._made:
                self._files.make_folder(self.folder)
                self._made = True
            self._files.write(name, [data for _, data in parts])
        except Exception as error:  # a storage may raise anything; the values stay in memory
            return f"{self.uri} cannot be written to: {type(error).__name__}: {error}"
        at = 0
        for number, data in parts:
            self._places[number] = (name, at, len(data), zlib.crc32(data))
            at += len(data)
        self._alive[name] = len(parts)
        return ""

    def load(self, number: int) -> tuple[bytes, str]:
        """Return the bytes of a value and "", or the problem as text."""
        place = self._places.get(number)
        if place is None:
            return b"", "its copy was discarded"
        name, at, size, checksum = place
        try:
            data = self._files.read(name, at, size)
        except Exception as error:  # as in store; the core handles the lost value
            return b"", f"its copy in {name} cannot be read: {type(error).__name__}: {error}"
        if len(data) != size:
            return b"", f"its copy in {name} is cut off: {len(data)} of {size} bytes from {at} on are there"
        if zlib.crc32(data) != checksum:
            return (
                b"",
                f"its copy in {name} is damaged: the checksum of {size} bytes from {at} on does not match",
            )
        return data, ""

    def drop(self, number: int) -> None:
        """Forget a value, and delete its object after the last one."""
        place = self._places.pop(number, None)
        if place is None:
            return
        name = place[0]
        self._alive[name] -= 1
        if not self._alive[name]:
            del self._alive[name]
            self._delete(self._files.delete, name)

    @staticmethod
    def _delete(delete: Any, path: str) -> None:
        try:
            delete(path)
        except Exception:  # as in store; an object that cannot be deleted stays there
            return

    def close(self) -> None:
        """Delete all remaining objects."""
        self._places.clear()
        self._alive.clear()
        if self._made:
            self._delete(self._files.delete_folder, self.folder)
