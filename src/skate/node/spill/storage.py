"""Files by URL, through fsspec or else pyarrow: the few things that spilling does with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Storage(Protocol):
    """Where files are written, read in part, and deleted."""

    def make_folder(self, path: str) -> None:
        """Make a folder, with those above it."""

    def write(self, path: str, parts: Sequence[Any]) -> None:
        """Write a file, of buffers one behind the other."""

    def read(self, path: str, at: int, size: int) -> bytes:
        """Bytes of a file; fewer where it ends before."""

    def delete(self, path: str) -> None:
        """Delete a file."""

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all that is in it."""


def storage_of(uri: str) -> tuple[Storage, str]:
    """The storage of a URL, and the path in it.

    Raises ImportError where no package is installed for it, ValueError for what is none.
    """
    try:
        import fsspec  # type: ignore[import-not-found,import-untyped,unused-ignore]  # optional, and only for such a place

        files, path = fsspec.core.url_to_fs(uri)
        return _Fsspec(files), path
    except ImportError as error:
        try:
            from pyarrow import fs  # as above

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
