"""Paths of datasources, under the names in Ray."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from skate.data.source.files.filesystems import resolve


def _resolve_paths_and_filesystem(paths: Any, filesystem: Any = None) -> tuple[list[str], Any]:
    """Return the paths in the form of their filesystem, and that filesystem. Raises ValueError for an empty list."""
    if isinstance(paths, (list, tuple)) and not paths:
        raise ValueError("Must provide at least one path.")
    return resolve(paths, filesystem)


def _has_file_extension(path: str, extensions: Sequence[str] | None) -> bool:
    """True if the path ends with one of the extensions, regardless of case; also if `extensions` is None."""
    if extensions is None:
        return True
    return any(path.lower().endswith("." + each.lower().lstrip(".")) for each in extensions)


def _unwrap_protocol(path: str | os.PathLike[str]) -> str:
    """Return a path without its protocol."""
    text = os.fspath(path)
    return text.split("://", 1)[1] if "://" in text else text
