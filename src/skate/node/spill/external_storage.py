"""Spilled values in a storage outside of this machine, or wherever fsspec or pyarrow reach: several in one object.

An object is deleted with the last value in it, and what is left when the session ends.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

from skate.node.spill.storage import storage_of


class ExternalStorage:
    """A place like "s3://bucket/prefix".

    Raises ImportError where neither fsspec nor pyarrow is installed (or what they need for that place), ValueError for a place
    that they do not know.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._files, path = storage_of(uri)
        self.folder = f"{path.rstrip('/')}/skate-spilled-{os.urandom(8).hex()}"
        self._made = False
        self._count = 0
        #: Where each value is: its object, the first byte, the bytes, their checksum.
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
        except Exception as error:  # whatever a storage raises: the values stay in memory
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
            return b"", "its copy was given up"
        name, at, size, checksum = place
        try:
            data = self._files.read(name, at, size)
        except Exception as error:  # as in store: the value is lost, which the core deals with
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
        except Exception:  # as in store: what cannot be deleted is not worth more than being left there
            return

    def close(self) -> None:
        """Delete all remaining objects."""
        self._places.clear()
        self._alive.clear()
        if self._made:
            self._delete(self._files.delete_folder, self.folder)
