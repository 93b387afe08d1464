"""Folders of LoRA adapters, one subfolder for each adapter, on this machine or in a bucket."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import threading
import weakref
from typing import Any

from skate.installed import require
from skate.llm.errors import Overloaded, UnknownModel

_CONFIG = "adapter_config.json"


class AdapterFolder:
    """The adapters of one model.

    Args:
        root: a folder, an fsspec URI such as s3://bucket/adapters, or None if each name is the path of a folder.
        tries: the number of download attempts.
    """

    def __init__(self, root: str | None, tries: int = 3) -> None:
        self._root = root.rstrip("/") if root is not None and "://" in root else root
        self._remote = root is not None and "://" in root
        self._tries = max(1, tries)
        self._fetched: dict[str, str] = {}
        self._lock = threading.Lock()
        self._kept: str | None = None
        self._drop: Any = None

    def names(self) -> list[str]:
        """Return the names of the adapters directly in the folder, sorted; none without a folder."""
        if self._root is None:
            return []
        files = (
            require("fsspec", f"adapters in {self._root}").core.url_to_fs(self._root)
            if self._remote
            else None
        )
        try:
            if files is not None:
                found = files[0].glob(f"{files[1]}/*/{_CONFIG}")
            else:
                found = glob.glob(os.path.join(glob.escape(self._root), "*", _CONFIG))
        except OSError:
            return []
        return sorted(os.path.basename(os.path.dirname(each)) for each in found)

    def has(self, name: str) -> bool:
        """Return True if there is an adapter with that name."""
        try:
            if self._remote:
                self._looked_up(name)
            else:
                self.path(name)
        except UnknownModel:
            return False
        return True

    def path(self, name: str) -> str:
        """Return the adapter's folder on this machine, downloading it if necessary.

        Raises UnknownModel if there is no such adapter or the name points outside the folder, and Overloaded if
        the download fails.
        """
        if self._remote:
            with self._lock:
                if name not in self._fetched:
                    self._fetched[name] = self._fetch(name)
                return self._fetched[name]
        path = name
        if self._root is not None:
            root = os.path.realpath(self._root)
            path = os.path.realpath(os.path.join(root, name))
            if os.path.commonpath([root, path]) != root or path == root:
                raise UnknownModel(name)
        if not os.path.isfile(os.path.join(path, _CONFIG)):
            raise UnknownModel(name)
        return path

    def close(self) -> None:
        """Remove the downloaded adapters."""
        if self._drop is not None:
            self._drop()
        self._fetched.clear()
        self._kept = self._drop = None

    def _looked_up(self, name: str) -> tuple[Any, str]:
        parts = name.split("/")
        if not name or any(part in ("", ".", "..") for part in parts):
            raise UnknownModel(name)
        files = require("fsspec", f"adapters in {self._root}").core.url_to_fs(f"{self._root}/{name}")
        if not files[0].exists(f"{files[1]}/{_CONFIG}"):
            raise UnknownModel(name)
        return files[0], files[1]

    def _fetch(self, name: str) -> str:
        files, path = self._looked_up(name)
        if self._kept is None:
            self._kept = tempfile.mkdtemp(prefix="skate-adapters-")
            self._drop = weakref.finalize(self, shutil.rmtree, self._kept, ignore_errors=True)
        target = os.path.join(self._kept, name.encode().hex())
        for left in reversed(range(self._tries)):
            try:
                files.get(path, target, recursive=True)
                return target
            except Exception as error:  # each kind of bucket raises its own errors
                if not left:
                    raise Overloaded(
                        f"cannot download the adapter {name} from {self._root}: {error}"
                    ) from error
        raise AssertionError("unreachable: every attempt returns or raises")
