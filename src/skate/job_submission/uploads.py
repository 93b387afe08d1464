"""Local folders of a runtime environment, packed and uploaded: the environment then names packages of the session."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from skate.runtime_env.fields import protocol_of
from skate.runtime_env.package import Member, content_hash, members, module_members, pack
from skate.runtime_env.package_store import SCHEME

_PIECE_BYTES = 1 << 20


class Packages(Protocol):
    """Where packages go: the store of a node on this machine, or a server."""

    def exists(self, name: str) -> bool:
        """Return True if a package is there."""

    def put(self, name: str, file: Path) -> None:
        """Store a package."""


def with_uploads(runtime_env: dict[str, Any], packages: Packages) -> dict[str, Any]:
    """Return a runtime environment whose local folders and files are uploaded, and replaced by gcs:// URIs."""
    done = dict(runtime_env)
    excludes = done.pop("excludes", None) or ()
    working_dir = done.get("working_dir")
    if working_dir:
        done["working_dir"] = _uploaded(os.fspath(working_dir), "working_dir", excludes, packages)
    if done.get("py_modules"):
        done["py_modules"] = [
            _uploaded(
                os.fspath(item) if not isinstance(item, type(os)) else _place(item),
                "py_modules",
                excludes,
                packages,
            )
            for item in done["py_modules"]
        ]
    return done


def _uploaded(text: str, field: str, excludes: Sequence[str], packages: Packages) -> str:
    if protocol_of(text):
        return text
    path = os.path.abspath(os.path.expanduser(text))
    if not os.path.exists(path):
        raise ValueError(
            f"runtime_env[{field!r}] names {text!r}, but there is no such file or folder ({path})"
        )
    if os.path.isdir(path) or (field == "py_modules" and path.endswith(".py")):
        listed = members(path, excludes) if field == "working_dir" else module_members(path, excludes)
        return SCHEME + _upload_members(listed, f"runtime_env[{field!r}] = {text!r}", packages)
    if not path.endswith((".zip", ".whl")):
        raise ValueError(
            f"runtime_env[{field!r}] names the file {text!r}, which is neither a .zip file nor a wheel"
        )
    # The name of a wheel says what it is for.
    name = os.path.basename(path) if path.endswith(".whl") else f"_ray_pkg_{_file_hash(path)}.zip"
    if not packages.exists(name):
        packages.put(name, Path(path))
    return SCHEME + name


def _upload_members(listed: list[Member], what: str, packages: Packages) -> str:
    name = _name(content_hash(listed))
    if packages.exists(name):
        return name
    with tempfile.TemporaryDirectory(prefix="skate-package-") as folder:
        file = Path(folder, "package.zip")
        name = _name(pack(listed, file, what))
        packages.put(name, file)
    return name


def pieces(file: Path) -> Iterator[bytes]:
    """Yield the contents of a file."""
    with open(file, "rb") as opened:
        while data := opened.read(_PIECE_BYTES):
            yield data


def _place(module: Any) -> str:
    return os.path.dirname(module.__file__) if hasattr(module, "__path__") else str(module.__file__)


def _name(key: str) -> str:
    return f"_ray_pkg_{key}.zip"


def _file_hash(path: str) -> str:
    total = hashlib.sha256()
    for data in pieces(Path(path)):
        total.update(data)
    return total.hexdigest()[:32]
