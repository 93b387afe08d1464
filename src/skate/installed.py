"""Optional packages: imported on use; the error for a missing one says how to install it."""

from __future__ import annotations

import importlib
from typing import Any


class MissingPackageError(ModuleNotFoundError, RuntimeError):
    """A package is not installed; also a RuntimeError, as in Ray's integrations."""


def require(module: str, needed_by: str, package: str | None = None) -> Any:
    """Import a module.

    Args:
        module: its dotted name.
        needed_by: the feature that requires it.
        package: its name for pip; by default the first part of `module`.

    Raises:
        MissingPackageError: it is not installed.
    """
    top = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != top:
            raise  # it is installed, but one of its own dependencies is not
        raise missing(top, needed_by, package) from error


def missing(library: str, needed_by: str, package: str | None = None) -> MissingPackageError:
    """Return the error for a library that is not installed; `package` is its name for pip."""
    return MissingPackageError(
        f"{needed_by} needs {library}, which is not installed: pip install {package or library}",
        name=library,
    )


def is_installed(package: str) -> bool:
    """Return True if a package is installed, without importing it."""
    from importlib.util import find_spec  # only here

    try:
        return find_spec(package) is not None
    except ValueError:  # a module that was added to sys.modules by hand has no spec
        return True
