"""File operations of a run, on a local disk or elsewhere. Local files need no filesystem library."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any


def is_local(path: str) -> bool:
    """True if a path is on a disk of this machine."""
    return "://" not in path or path.startswith(("file://", "local://"))


def local_path(path: str) -> str:
    """Return the absolute path of a user's path."""
    for prefix in ("file://", "local://"):
        if path.startswith(prefix):
            path = path[len(prefix) :]
    return os.path.abspath(os.path.expanduser(path))


def local_filesystem() -> Any:
    """Return pyarrow's filesystem of this machine."""
    from pyarrow import fs  # takes 60 ms, and runs on local disks never need it

    return fs.LocalFileSystem()


def is_local_filesystem(filesystem: Any) -> bool:
    """True if a pyarrow filesystem is the local one."""
    return getattr(filesystem, "type_name", "") == "local"


def resolve(url: str) -> tuple[Any, str]:
    """Return the pyarrow filesystem of a URL, and the path in it; fsspec handles schemes that pyarrow does not know.

    Raises:
        ValueError: the scheme is unknown.
    """
    from pyarrow import fs  # imported only if used

    try:
        filesystem, path = fs.FileSystem.from_uri(url)
        return filesystem, path.rstrip("/")
    except ValueError as problem:  # pa.ArrowInvalid is a ValueError
        try:
            import fsspec  # only for schemes that Arrow lacks

            found, path = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as second:
            raise ValueError(
                f"no filesystem is known for {url!r} ({problem}; fsspec: {second}); "
                "install the fsspec package of that storage, or pass storage_filesystem="
            ) from second
        return fs.PyFileSystem(fs.FSSpecHandler(found)), path.rstrip("/")


def copy_file(source: str, target: str) -> None:
    """Copy a local file with its mode; the kernel does it, sharing blocks where the disk can."""
    shutil.copyfile(source, target)
    shutil.copymode(source, target)


def exists(filesystem: Any, path: str) -> bool:
    """True if there is a file or a folder at a path; None stands for the disks of this machine."""
    if filesystem is None or is_local_filesystem(filesystem):
        return os.path.exists(path)
    from pyarrow import fs  # imported only if used

    return bool(filesystem.get_file_info(path).type != fs.FileType.NotFound)


def download(filesystem: Any, path: str, target: str) -> None:
    """Copy a folder to a local one.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    from pyarrow import fs  # imported only if used

    if not exists(filesystem, path):
        raise FileNotFoundError(
            f"there is no {path} on {filesystem.type_name}; it was deleted or never written"
        )
    fs.copy_files(path, target, source_filesystem=filesystem, destination_filesystem=fs.LocalFileSystem())


def upload(source: str, filesystem: Any, path: str) -> None:
    """Copy a local folder to one elsewhere; files of the same name are replaced."""
    from pyarrow import fs  # imported only if used

    filesystem.create_dir(path, recursive=True)
    fs.copy_files(source, path, source_filesystem=fs.LocalFileSystem(), destination_filesystem=filesystem)


def read_bytes(filesystem: Any, path: str) -> bytes | None:
    """Return the contents of a file, None if it does not exist."""
    if filesystem is None or is_local_filesystem(filesystem):
        try:
            with open(path, "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
    try:
        with filesystem.open_input_stream(path) as stream:
            found: bytes = stream.read()
            return found
    except FileNotFoundError:
        return None


def write_bytes(filesystem: Any, path: str, contents: bytes) -> None:
    """Write a file atomically."""
    if filesystem is None or is_local_filesystem(filesystem):
        folder = os.path.dirname(path)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".writing-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(contents)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:  # Ctrl-C as well: remove the incomplete file
            os.unlink(name)
            raise
        return
    with filesystem.open_output_stream(path) as stream:  # an object store publishes it when it is closed
        stream.write(contents)
