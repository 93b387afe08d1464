"""Spilled values in a storage outside of this machine, or wherever fsspec reaches: several in one object.

An object is deleted with the last value in it, and what is left when the session ends.
"""

from __future__ import annotations

import os
from typing import Any


class Outside:
    """A place like "s3://bucket/prefix", by fsspec.

    Raises ImportError where fsspec (or what it needs for that place) is not installed, ValueError for a place it does not know.
    """

    def __init__(self, uri: str) -> None:
        try:
            import fsspec  # type: ignore[import-not-found,unused-ignore]  # optional, and only for such a place
        except ImportError:
            raise ImportError(
                f"values are to be spilled to {uri!r}, which needs the package fsspec; install it (pip install fsspec), or name "
                "a local folder with init(object_spilling_directory=...)"
            ) from None
        self.uri = uri
        self._files: Any
        self._files, path = fsspec.core.url_to_fs(uri)
        self._folder = f"{path.rstrip('/')}/skate-spilled-{os.urandom(8).hex()}"
        self._made = False
        self._count = 0
        #: Where each value is: its object, the first byte, the bytes.
        self._places: dict[int, tuple[str, int, int]] = {}
        self._alive: dict[str, int] = {}

    def store(self, parts: list[tuple[int, Any]]) -> str:
        """Write values, as (number, bytes), into one object; returns the problem in words, or ""."""
        self._count += 1
        name = f"{self._folder}/{self._count:08}"
        try:
            if not self._made:
                self._files.makedirs(self._folder, exist_ok=True)
                self._made = True
            with self._files.open(name, "wb") as file:
                for _, data in parts:
                    file.write(data)
        except Exception as error:  # whatever a storage raises: the values stay in memory
            return f"{self.uri} cannot be written to: {type(error).__name__}: {error}"
        at = 0
        for number, data in parts:
            self._places[number] = (name, at, len(data))
            at += len(data)
        self._alive[name] = len(parts)
        return ""

    def load(self, number: int) -> bytes | None:
        """The bytes of a value, or None if they are not to be had."""
        place = self._places.get(number)
        if place is None:
            return None
        name, at, size = place
        try:
            data: bytes = self._files.cat_file(name, start=at, end=at + size)
        except Exception:  # as in store: the value is lost, which the core deals with
            return None
        return data

    def drop(self, number: int) -> None:
        """A value is gone."""
        place = self._places.pop(number, None)
        if place is None:
            return
        name = place[0]
        self._alive[name] -= 1
        if not self._alive[name]:
            del self._alive[name]
            self._delete(name)

    def _delete(self, path: str) -> None:
        try:
            self._files.rm(path, recursive=path == self._folder)
        except Exception:  # as in store: what cannot be deleted is not worth more than being left there
            return

    def close(self) -> None:
        """Delete what is left."""
        self._places.clear()
        self._alive.clear()
        if self._made:
            self._delete(self._folder)
