"""Makes a replica import from the paths of the program that deployed it, even if another program hosts the node."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class ImportRoots:
    """The import path and directory of a program, and those of the program that started Serve."""

    path: tuple[str, ...]
    directory: str
    own_path: tuple[str, ...]
    own_directory: str

    def take_over(self) -> None:
        """Adopt the import path and directory of the deploying program. Entries of a runtime environment stay first."""
        front = [each for each in sys.path if each not in self.own_path]
        sys.path[:] = dict.fromkeys([*front, *self.path, *sys.path])
        if self.directory and _directory() == self.own_directory and os.path.isdir(self.directory):
            os.chdir(self.directory)


def of(path: list[str], directory: str, own_path: tuple[str, ...]) -> ImportRoots | None:
    """Return the paths that a replica must adopt, or None if processes started here have them already."""
    here = _directory()
    if directory in ("", here) and set(path) <= set(own_path):
        return None
    return ImportRoots(tuple(path), directory, own_path, here)


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # the directory was removed
        return ""
