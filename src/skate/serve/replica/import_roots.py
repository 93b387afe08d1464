"""Has a replica import from where the program that deployed it does, though its node belongs to another program."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class ImportRoots:
    """Where a program imports from and runs, and where the program that started Serve does."""

    path: tuple[str, ...]
    directory: str
    own_path: tuple[str, ...]
    own_directory: str

    def take_over(self) -> None:
        """Adopt the import path and directory of the deploying program; entries of a runtime environment stay first."""
        front = [each for each in sys.path if each not in self.own_path]
        sys.path[:] = dict.fromkeys([*front, *self.path, *sys.path])
        if self.directory and _directory() == self.own_directory and os.path.isdir(self.directory):
            os.chdir(self.directory)


def of(path: list[str], directory: str, own_path: tuple[str, ...]) -> ImportRoots | None:
    """The surroundings that a replica must adopt; None if it has them already, as in processes started from here."""
    here = _directory()
    if directory in ("", here) and set(path) <= set(own_path):
        return None
    return ImportRoots(tuple(path), directory, own_path, here)


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""
