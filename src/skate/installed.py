"""Packages that only some parts need: imported when they are used, and named with how to install them when missing."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


def library(module: str, what: str, package: str | None = None) -> Any:
    """A module. Raises ImportError saying what needs it and how it is installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        top = module.split(".", 1)[0]
        if error.name is not None and error.name.split(".", 1)[0] != top:
            raise  # it is there, and lacks something of its own
        raise ImportError(
            f"{what} needs {package or top}; install it with `pip install {package or top}`", name=module
        ) from None


def there(package: str) -> bool:
    """True if a package is installed; does not import it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # a module that was put into sys.modules by hand has no spec
        return True
