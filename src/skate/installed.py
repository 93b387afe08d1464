"""Packages that only some parts need: imported when they are used, and named with how to install them when missing."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


class MissingPackageError(ModuleNotFoundError, RuntimeError):
    """A package is not installed; also a RuntimeError, which is what Ray's integrations raise."""


def require(module: str, needed_by: str, package: str | None = None) -> Any:
    """Import a module.

    Args:
        module: its dotted name.
        needed_by: what cannot be done without it.
        package: what pip calls it; the first part of `module` if left out.

    Raises:
        MissingPackageError: it is not installed.
    """
    top = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != top:
            raise  # it is there, and lacks something of its own
        raise missing(top, needed_by, package) from error


def missing(library: str, needed_by: str, package: str | None = None) -> MissingPackageError:
    """Return the error for a library that is not installed; `package` is what pip calls it."""
    return MissingPackageError(
        f"{needed_by} needs {library}, which is not installed: pip install {package or library}", name=library
    )


def there(package: str) -> bool:
    """True if a package is installed; does not import it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # a module that was put into sys.modules by hand has no spec
        return True
