"""Callbacks that an environment variable names."""

from __future__ import annotations

import importlib
import os
from typing import Any


def named_callbacks(variable: str, kind: type, kind_name: str) -> list[Any]:
    """Create the callbacks that a variable names: import paths of classes, separated by commas.

    Raises:
        ValueError: a class cannot be imported, or is no subclass of `kind`.
    """
    paths = [path.strip() for path in os.environ.get(variable, "").split(",")]
    return [_imported(path, variable, kind, kind_name) for path in paths if path]


def _imported(path: str, variable: str, kind: type, kind_name: str) -> Any:
    try:
        module, name = path.rsplit(".", 1)
        found = getattr(importlib.import_module(module), name)
        if not (isinstance(found, type) and issubclass(found, kind)):
            raise TypeError(f"{path} is no subclass of {kind_name}, but {found!r:.80}")
        return found()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ValueError(
            f"Failed to import callback from '{path}', which {variable} names: {error}"
        ) from error
