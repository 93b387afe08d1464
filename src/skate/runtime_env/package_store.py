"""The packages of a session, uploaded by clients and named by the hash of their contents: `gcs://<name>`.

A package appears under its name only when it is complete, and never changes afterwards, so any process of the user may read
the folder while another one writes.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from skate.runtime_env.package import LIMIT_BYTES, mib

SCHEME = "gcs://"
#: The folder of the store inside the folder of a session.
FOLDER = "packages"
#: All packages of a session together.
STORE_LIMIT_BYTES = 8 * 1024**3
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}\.(zip|whl|jar|tar\.gz|tgz)")
_UNFINISHED = ".uploading-"


class PackageRefused(ValueError):
    """Raised for a package with an invalid name, or a too large one."""


class PackageStore:
    """The packages in the folder of a session. The folder is created with the first package.

    Args:
        session_folder: the folder of the session, which only its user can enter.
        limit_bytes: the largest package.
        total_bytes: the size limit of all packages together.
    """

    def __init__(
        self, session_folder: str, limit_bytes: int = LIMIT_BYTES, total_bytes: int = STORE_LIMIT_BYTES
    ) -> None:
        self.folder = Path(session_folder) / FOLDER
        self.limit_bytes = limit_bytes
        self.total_bytes = total_bytes

    def path(self, name: str) -> Path:
        """Return the path of a package, existing or not. Raises PackageRefused for an invalid name."""
        if not _NAME.fullmatch(name):
            raise PackageRefused(
                f"{name!r} cannot be the name of a package: it must consist of letters, digits and _ . + -, and end with .zip, "
                ".whl, .jar, .tar.gz or .tgz"
            )
        return self.folder / name

    def exists(self, name: str) -> bool:
        """Return True if a package is complete."""
        return self.path(name).is_file()

    def put(self, name: str, chunks: Iterable[bytes]) -> Path:
        """Store a package and return its path; one that exists already stays as it is.

        Raises:
            PackageRefused: the name is invalid, or the package or the store would be too large. OSError: it cannot be written.
        """
        upload = self.upload(name)
        try:
            for chunk in chunks:
                upload.write(chunk)
            return upload.finish()
        finally:
            upload.close()

    def upload(self, name: str) -> Upload:
        """Begin to store a package that arrives in pieces."""
        path = self.path(name)
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        return Upload(path, self.limit_bytes, self.total_bytes - self.size_bytes())

    def size_bytes(self) -> int:
        """Return the size of all packages, with those being uploaded."""
        try:
            with os.scandir(self.folder) as entries:
                return sum(entry.stat().st_size for entry in entries)
        except FileNotFoundError:  # no package yet, or an upload that has just ended
            return 0


class Upload:
    """A package that is being written. It appears in the store with `finish`, and is discarded by `close` before that."""

    def __init__(self, path: Path, limit_bytes: int, room_bytes: int) -> None:
        self._path = path
        self._limit = limit_bytes
        self._room = room_bytes
        self._size = 0
        self._part = path.with_name(f"{_UNFINISHED}{secrets.token_hex(8)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.fdopen(os.open(self._part, flags, 0o600), "wb")

    def write(self, data: bytes) -> None:
        """Append to the package. Raises PackageRefused if it becomes too large."""
        self._size += len(data)
        if self._size > self._limit:
            raise PackageRefused(
                f"{self._path.name} is larger than a package may be, {mib(self._limit)}; leave files out with "
                "runtime_env={'excludes': [...]}"
            )
        if self._size > self._room:
            raise PackageRefused(
                f"{self._path.name} does not fit: the packages of this session would be larger than their limit"
            )
        self._file.write(data)

    def finish(self) -> Path:
        """Put the complete package into the store and return its path."""
        self._file.flush()
        try:
            os.link(self._part, self._path)
        except FileExistsError:
            # Another client has uploaded the same contents. The first stays, because it may be in use.
            pass
        return self._path

    def close(self) -> None:
        """Remove the unfinished file."""
        self._file.close()
        self._part.unlink(missing_ok=True)


def name_of(uri: str) -> str | None:
    """Return the name of the package in a gcs:// URI, or None for another URI or a path."""
    return uri[len(SCHEME) :] if uri.startswith(SCHEME) else None
