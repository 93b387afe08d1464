"""The folder of one run: `<storage_path>/<name>` on a filesystem, and checkpoints in it that are whole or not there.

A checkpoint is written in two phases. Every worker puts its files into a place of the checkpoint's that no reader looks at;
when all have, the controller writes the manifest and gives the place its name, which on a disk is one rename. An object store
has no rename: there the files go under the name at once, and the manifest, written last, makes them a checkpoint. What has no
manifest is none, and goes when the run starts again.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.storage import filesystem as files

MANIFEST = ".manifest.json"
_STAGING = ".uploading-"


class RunFolder:
    """Paths of a run. Pickled into every worker.

    Args:
        storage_path: a local folder or a URL.
        name: of the run, a folder in it.
        filesystem: a pyarrow filesystem in which `storage_path` is a path, or None.

    Raises:
        ValueError: the filesystem of the URL is not known.
    """

    def __init__(self, storage_path: str, name: str, filesystem: Any = None) -> None:
        self.name = name
        self.filesystem = filesystem
        if filesystem is not None:
            self.root = storage_path.rstrip("/")
        elif files.is_local(storage_path):
            self.root = files.local_path(storage_path)
        else:
            self.filesystem, self.root = files.resolve(storage_path)
        self.path = f"{self.root}/{name}"

    @property
    def local(self) -> bool:
        """Whether the folder is on a disk that files can be renamed on."""
        return self.filesystem is None or files.is_local_filesystem(self.filesystem)

    def create(self) -> None:
        """Make the folder, if it is not there.

        Raises:
            OSError: it cannot be made; the path is named.
        """
        if self.local:
            os.makedirs(self.path, exist_ok=True)
        else:
            self.filesystem.create_dir(self.path, recursive=True)

    def at(self, name: str) -> str:
        """The path of something in the folder."""
        return f"{self.path}/{name}"

    def checkpoint(self, name: str) -> Checkpoint:
        """The checkpoint of a name."""
        return Checkpoint(self.at(name), self.filesystem)

    # -- first phase, in the workers

    def upload(self, source: Checkpoint, name: str) -> list[str]:
        """Put the files of one worker's checkpoint where those of the named one are gathered; returns their names.

        Raises:
            FileNotFoundError: `source` is not there.
        """
        target = self._gathering(name)
        with source.as_directory() as folder:
            found = _names_in(folder)
            if self.local:
                os.makedirs(target, exist_ok=True)
                shutil.copytree(folder, target, dirs_exist_ok=True, copy_function=files.copy_file)
            else:
                files.upload(folder, self.filesystem, target)
        return found

    def _gathering(self, name: str) -> str:
        return self.at(_STAGING + name) if self.local else self.at(name)

    # -- second phase, in the controller

    def commit(self, name: str, manifest: dict[str, Any]) -> Checkpoint:
        """Make what was gathered a checkpoint."""
        gathered = self._gathering(name)
        if self.local:
            os.makedirs(gathered, exist_ok=True)  # nobody had a file
        text = json.dumps({"version": 1, "time": time.time(), **manifest}).encode()
        files.write_bytes(self.filesystem, f"{gathered}/{MANIFEST}", text)
        if self.local:
            target = self.at(name)
            if os.path.isdir(target):  # a run that goes on has written a checkpoint of this name before
                self._discard(target)
            os.rename(gathered, target)
            _sync_folder(self.path)
        return self.checkpoint(name)

    def delete(self, name: str) -> None:
        """Remove a checkpoint; it stops being one before the first of its files goes."""
        if self.local:
            self._discard(self.at(name))
            return
        path = self.at(name)
        try:
            self.filesystem.delete_file(f"{path}/{MANIFEST}")
            self.filesystem.delete_dir(path)
        except FileNotFoundError:
            return

    def _discard(self, path: str) -> None:
        gone = self.at(f"{_STAGING}gone-{time.monotonic_ns():x}")
        try:
            os.rename(path, gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)

    def is_whole(self, name: str) -> bool:
        """Whether there is a checkpoint of that name, with all its files."""
        return files.read_bytes(self.filesystem, f"{self.at(name)}/{MANIFEST}") is not None

    def sweep(self, known: set[str]) -> None:
        """Remove what an earlier run has left unfinished; `known` are the checkpoints of its journal."""
        if self.local:
            for entry in os.listdir(self.path):
                if entry.startswith(_STAGING):
                    shutil.rmtree(self.at(entry), ignore_errors=True)
            return
        from pyarrow import fs  # runs on local disks never pay for it

        for info in self.filesystem.get_file_info(fs.FileSelector(self.path, allow_not_found=True)):
            started = info.type == fs.FileType.Directory and info.base_name.startswith("checkpoint_")
            if started and info.base_name not in known and not self.is_whole(info.base_name):
                self.filesystem.delete_dir(info.path)

    def __repr__(self) -> str:
        return f"RunFolder({self.path})"


def _names_in(folder: str) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names
    )


def _sync_folder(path: str) -> None:
    """A rename is on the disk once its folder is."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
