"""A folder of files from which a run can resume, on any filesystem."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skate.train.storage import filesystem as files

_METADATA = ".metadata.json"


class Checkpoint:
    """A reference to a folder on a filesystem; creating one copies nothing.

    Args:
        path: a local folder, a URL, or a path within `filesystem`.
        filesystem: a pyarrow filesystem; derived from the path if omitted.
    """

    def __init__(self, path: str | os.PathLike[str], filesystem: Any = None) -> None:
        self.path = str(path)
        self._filesystem = filesystem
        if filesystem is None:
            if files.is_local(self.path):
                self.path = files.local_path(self.path)
            else:
                self._filesystem, self.path = files.resolve(self.path)

    @property
    def filesystem(self) -> Any:
        """The pyarrow filesystem that the folder is on."""
        if self._filesystem is None:
            self._filesystem = files.local_filesystem()
        return self._filesystem

    @property
    def _local(self) -> bool:
        return self._filesystem is None or files.is_local_filesystem(self._filesystem)

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Create a checkpoint from a local folder, which may be filled later.

        Raises:
            NotADirectoryError: the path is a file.
        """
        return cls(_folder(path))

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copy the files into a local folder, a new one if none is given, and return its path.

        Raises:
            FileNotFoundError: the checkpoint no longer exists.
        """
        target = str(path) if path is not None else tempfile.mkdtemp(prefix="checkpoint_tmp_")
        os.makedirs(target, exist_ok=True)
        if self._local:
            if not os.path.isdir(self.path):
                raise FileNotFoundError(
                    f"there is no checkpoint at {self.path}; it was deleted or never written"
                )
            shutil.copytree(self.path, target, dirs_exist_ok=True, copy_function=files.copy_file)
        else:
            files.download(self.filesystem, self.path, target)
        return target

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """Provide the files in a local folder within the block: the folder itself if local, else a copy that is
        removed afterwards.

        Raises:
            FileNotFoundError: the checkpoint no longer exists.
        """
        if self._local:
            if not os.path.isdir(self.path):
                raise FileNotFoundError(
                    f"there is no checkpoint at {self.path}; it was deleted or never written"
                )
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="checkpoint_tmp_") as folder:
            yield self.to_directory(folder)

    def get_metadata(self) -> dict[str, Any]:
        """Return the metadata that was set, or an empty dict."""
        found = files.read_bytes(self.filesystem, f"{self.path}/{_METADATA}")
        return {} if found is None else dict(json.loads(found))

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the metadata.

        Raises:
            TypeError: a value is not JSON-serializable; nothing is changed.
        """
        files.write_bytes(self.filesystem, f"{self.path}/{_METADATA}", json.dumps(metadata).encode())

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        """Add to the metadata; entries of the same name are replaced."""
        self.set_metadata({**self.get_metadata(), **metadata})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and self.path == other.path and self._local == other._local

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        where = "local" if self._filesystem is None else self._filesystem.type_name
        return f"Checkpoint(filesystem={where}, path={self.path})"

    def __fspath__(self) -> str:
        raise TypeError(
            "You cannot use `Checkpoint` objects directly as paths. Use `with checkpoint.as_directory() as folder:` or "
            "`checkpoint.to_directory()`"
        )


def _folder(path: str | os.PathLike[str]) -> str:
    found = Path(path).expanduser()
    if found.exists() and not found.is_dir():
        raise NotADirectoryError(
            f"a checkpoint must be a folder, but {os.fspath(path)!r} is a file; move it into a folder of its own"
        )
    return str(found.absolute())
