"""The folder of one run: `<storage_path>/<name>` on a filesystem, with checkpoints that are complete or absent.

A checkpoint is written in two phases. Every worker writes its files to a staging folder that no reader uses.
When all have done so, the controller writes the manifest and renames the folder, which is atomic on a disk.
An object store cannot rename: there the files get their final names immediately, and the manifest, written
last, completes the checkpoint. A folder without a manifest is not a checkpoint, and is removed when the run
restarts; one with a manifest is a checkpoint, even if the crash occurred before the rename or the line in the
journal.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
import uuid
from collections.abc import Collection
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.storage import filesystem as files

MANIFEST = ".manifest.json"
#: Marks a folder of an object store whose files are being written or deleted.
UNFINISHED = ".unfinished"
_STAGING = ".uploading-"
_GONE = ".uploading-.gone-"
#: The file in a local folder that identifies the call of `fit` that owns the run.
_OWNER = ".owner"


class RunFolder:
    """The paths of a run. Pickled and sent to every worker.

    Args:
        storage_path: a local folder or a URL.
        name: the name of the run, a folder in `storage_path`.
        filesystem: a pyarrow filesystem in which `storage_path` is a path, or None.

    Raises:
        ValueError: the filesystem of the URL is unknown.
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
        self._token = ""

    @property
    def local(self) -> bool:
        """True if the folder is on a disk with atomic renames."""
        return self.filesystem is None or files.is_local_filesystem(self.filesystem)

    # The names of Ray's context of the storage, which `get_context().get_storage()` returns.

    @property
    def storage_filesystem(self) -> Any:
        """The pyarrow filesystem."""
        return files.local_filesystem() if self.filesystem is None else self.filesystem

    @property
    def storage_fs_path(self) -> str:
        """The path of the storage on its filesystem."""
        return self.root

    @property
    def experiment_dir_name(self) -> str:
        """The name of the run."""
        return self.name

    @property
    def experiment_fs_path(self) -> str:
        """The path of the run on the filesystem of the storage."""
        return self.path

    def build_checkpoint_path_from_name(self, checkpoint_name: str) -> str:
        """Return the path of a checkpoint on the filesystem of the storage."""
        return self.at(checkpoint_name)

    def create(self) -> None:
        """Create the folder if necessary, and take over the run.

        Raises:
            OSError: the folder cannot be created; the message names the path.
        """
        if not self.local:
            self.filesystem.create_dir(self.path, recursive=True)
            return
        os.makedirs(self.path, exist_ok=True)
        self._token = uuid.uuid4().hex
        with open(self.at(_OWNER), "w") as file:
            file.write(self._token)

    def check_shared(self) -> None:
        """Check that a local folder is the same one here as in the process that called `fit`.

        Raises:
            OSError: it is a different one, or another program has taken over the run.
        """
        if not self.local or not self._token:
            return
        found = files.read_bytes(None, self.at(_OWNER))
        if found is None:
            raise OSError(
                f"the run's folder {self.path} does not exist on {socket.gethostname()}, where this worker "
                "is: a local "
                "storage_path is another folder on each machine; use one that all machines share (a network disk), or a URL "
                "such as s3://bucket/folder"
            )
        if found.decode() != self._token:
            raise OSError(
                f"the run in {self.path} was taken over: another program has called fit() with the same name and storage_path"
            )

    def at(self, name: str) -> str:
        """Return a path in the folder."""
        return f"{self.path}/{name}"

    def checkpoint(self, name: str) -> Checkpoint:
        """Return the checkpoint with the given name."""
        return Checkpoint(self.at(name), self.filesystem)

    # -- first phase, in the workers

    def upload(self, source: Checkpoint, name: str) -> None:
        """Copy one worker's files to the staging folder of the named checkpoint.

        Raises:
            FileNotFoundError: `source` does not exist.
            OSError: the folder is not shared by the machines of the run.
        """
        self.check_shared()
        target = self._gathering(name)
        with source.as_directory() as folder:
            if self.local:
                os.makedirs(target, exist_ok=True)
                shutil.copytree(folder, target, dirs_exist_ok=True, copy_function=files.copy_file)
            else:
                self.filesystem.create_dir(target, recursive=True)
                files.write_bytes(self.filesystem, f"{target}/{UNFINISHED}", b"")
                files.upload(folder, self.filesystem, target)

    def free_name(self, name: str, other: str) -> str:
        """Return a name for the staging folder: on an object store, one that no existing checkpoint has."""
        return f"{name}_{other}" if not self.local and self.is_complete(name) else name

    def _gathering(self, name: str) -> str:
        return self.at(_STAGING + name) if self.local else self.at(name)

    # -- second phase, in the controller

    def commit(self, name: str, manifest: dict[str, Any]) -> Checkpoint:
        """Turn the staging folder into a checkpoint."""
        gathered = self._gathering(name)
        if self.local:
            os.makedirs(gathered, exist_ok=True)  # no rank had a file
        text = json.dumps({"version": 1, "time": time.time(), **manifest}).encode()
        files.write_bytes(self.filesystem, f"{gathered}/{MANIFEST}", text)
        if self.local:
            self._put_in_place(name)
        else:
            self.filesystem.delete_file(f"{gathered}/{UNFINISHED}")
        return self.checkpoint(name)

    def _put_in_place(self, name: str) -> None:
        target = self.at(name)
        if os.path.isdir(target):  # a resumed run has already written a checkpoint of this name
            self._discard(target)
        os.rename(self._gathering(name), target)
        _sync_folder(self.path)

    def delete(self, name: str) -> None:
        """Remove a checkpoint; it stops being one before its first file is deleted."""
        if self.local:
            self._discard(self.at(name))
            return
        path = self.at(name)
        try:
            files.write_bytes(self.filesystem, f"{path}/{UNFINISHED}", b"")
            self.filesystem.delete_file(f"{path}/{MANIFEST}")
            self.filesystem.delete_dir(path)
        except FileNotFoundError:
            return

    def _discard(self, path: str) -> None:
        gone = self.at(f"{_GONE}{uuid.uuid4().hex}")
        try:
            os.rename(path, gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)

    def is_complete(self, name: str) -> bool:
        """True if there is a complete checkpoint of that name."""
        return files.read_bytes(self.filesystem, f"{self.at(name)}/{MANIFEST}") is not None

    # -- after a crash

    def recover(self) -> dict[str, dict[str, Any]]:
        """Finish the incomplete checkpoints of an earlier run: those with a manifest become checkpoints, the
        rest is removed.

        Returns:
            The manifests of all existing checkpoints, by name.
        """
        return self._recover_local() if self.local else self._recover_remote(())

    def sweep(self, known: Collection[str] = ()) -> None:
        """Remove incomplete checkpoints, for callers that do not adopt checkpoints missing in their journal."""
        if not self.local:
            self._recover_remote(known)
            return
        for entry in os.listdir(self.path):
            if entry.startswith(_STAGING):
                shutil.rmtree(self.at(entry), ignore_errors=True)

    def _recover_local(self) -> dict[str, dict[str, Any]]:
        for entry in sorted(os.listdir(self.path)):
            if not entry.startswith(_STAGING):
                continue
            if not entry.startswith(_GONE) and self._manifest(self.at(entry)) is not None:
                self._put_in_place(entry[len(_STAGING) :])
            else:
                shutil.rmtree(self.at(entry), ignore_errors=True)
        found = {entry: self._manifest(self.at(entry)) for entry in sorted(os.listdir(self.path))}
        return {name: manifest for name, manifest in found.items() if manifest is not None}

    def _recover_remote(self, known: Collection[str]) -> dict[str, dict[str, Any]]:
        from pyarrow import fs  # runs on local disks never need it

        found = {}
        for info in self.filesystem.get_file_info(fs.FileSelector(self.path, allow_not_found=True)):
            if info.type != fs.FileType.Directory or info.base_name in known:
                continue
            manifest = self._manifest(info.path)
            unfinished = files.read_bytes(self.filesystem, f"{info.path}/{UNFINISHED}") is not None
            if manifest is not None:
                found[info.base_name] = manifest
                if unfinished:
                    self.filesystem.delete_file(f"{info.path}/{UNFINISHED}")
            elif unfinished:
                self.filesystem.delete_dir(info.path)
        return found

    def _manifest(self, path: str) -> dict[str, Any] | None:
        contents = files.read_bytes(self.filesystem, f"{path}/{MANIFEST}")
        try:
            return None if contents is None else dict(json.loads(contents))
        except ValueError:  # truncated by a crash of the machine
            return None

    def __repr__(self) -> str:
        return f"RunFolder({self.path})"


def _sync_folder(path: str) -> None:
    """Flush a folder: a rename is durable only then."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
