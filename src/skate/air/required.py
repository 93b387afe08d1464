"""Packages that only some programs need, imported when one does and asked for by name when they are missing."""

from __future__ import annotations

import importlib
from typing import Any


class MissingPackageError(ImportError, RuntimeError):
    """A package is not installed; also a RuntimeError, which is what Ray's integrations raise."""


def required(module: str, needed_by: str, package: str | None = None) -> Any:
    """Import a module.

    Args:
        module: its dotted name.
        needed_by: what cannot be done without it.
        package: what pip calls it; the first part of `module` if left out.

    Raises:
        MissingPackageError: it is not installed.
    """
    top = module.split(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != top:  # it is there, and lacks something itself
            raise
        raise MissingPackageError(
            f"{needed_by} needs {top}, which is not installed: pip install {package or top}", name=top
        ) from error
