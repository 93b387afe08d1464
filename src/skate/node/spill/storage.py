"""Access to files by URL through fsspec or pyarrow, as far as spilling needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Storage(Protocol):
    """A storage in which files are written, partially read and deleted."""

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents."""

    def write(self, path: str, parts: Sequence[Any]) -> None:
        """Write a file that consists of these buffers, concatenated."""

    def read(self, path: str, at: int, size: int) -> bytes:
        """Read bytes of a file; return fewer if it ends before."""

    def delete(self, path: str) -> None:
        """Delete a file."""

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all its contents."""


def storage_of(uri: str) -> tuple[Storage, str]:
    """Return the storage for a URL, and the path in it.

    Raise ImportError if no package for it is installed, and ValueError for an invalid URL.
    """
    try:
        import fsspec  # type: ignore[import-not-found,import-untyped,unused-ignore]  # optional, and only for such a place

        files, path = fsspec.core.url_to_fs(uri)
        return _Fsspec(files), path
    except ImportError as error:
        try:
            from pyarrow import fs  # imported only if used

            found, path = fs.FileSystem.from_uri(uri)
            return _Arrow(found), path
        except ImportError:
            raise ImportError(
                f"values are to be spilled to {uri!r}, which needs the package fsspec (and what that needs for the place) or "
                f"pyarrow: {error}; install one (pip install fsspec), or name a local folder with "
                "init(object_spilling_directory=...)"
            ) from None
        except (OSError, ValueError) as unknown:
            raise ValueError(f"values cannot be spilled to {uri!r}: {unknown} ({error})") from None


class _Fsspec:
    def __init__(self, files: Any) -> None:
        self._files = files

    def make_folder(self, path: str) -> None:
        self._files.makedirs(path, exist_ok=True)

    def write(self, path: str, parts: Sequence[Any]) -> None:
        with self._files.open(path, "wb") as file:
            for part in parts:
                file.write(part)

    def read(self, path: str, at: int, size: int) -> bytes:
        data: bytes = self._files.cat_file(path, start=at, end=at + size)
        return data

    def delete(self, path: str) -> None:
        self._files.rm(path)

    def delete_folder(self, path: str) -> None:
        self._files.rm(path, recursive=True)


class _Arrow:
    def __init__(self, files: Any) -> None:
        self._files = files

    def make_folder(self, path: str) -> None:
        self._files.create_dir(path, recursive=True)

    def write(self, path: str, parts: Sequence[Any]) -> None:
        with self._files.open_output_stream(path) as file:
            for part in parts:
                file.write(part)

    def read(self, path: str, at: int, size: int) -> bytes:
        with self._files.open_input_file(path) as file:
            data: bytes = file.read_at(size, at)
        return data

    def delete(self, path: str) -> None:
        self._files.delete_file(path)

    def delete_folder(self, path: str) -> None:
        self._files.delete_dir(path)
