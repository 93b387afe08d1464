"""Import of objects by `module:attribute`."""

from __future__ import annotations

import importlib
import os
from typing import Any


def load(path: str) -> Any:
    """Import the object named by `module:attribute` or `module.attribute`; names under `ray.` resolve to Skate's.

    Raises ValueError for a path of another form, ImportError or AttributeError if the object does not exist.
    """
    module, colon, attribute = path.partition(":")
    if not colon:
        module, _, attribute = path.rpartition(".")
    if not module or not attribute:
        raise ValueError(
            f"{path!r} is not an import path; write it as 'module:name', such as 'my_program:app'"
        )
    if module == "ray" or module.startswith("ray."):
        module = "skate" + module[len("ray") :]
    found = _module(module, path)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise AttributeError(_lacks(found, part, path)) from None
    return found


def _module(name: str, path: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(missing + "."):
            raise ModuleNotFoundError(
                f"{path}: there is no module {missing!r} in {os.getcwd()} or among installed packages; add a "
                "folder with --app-dir or PYTHONPATH",
                name=missing,
            ) from None
        raise  # another module, imported by this one, is missing; the message names it


def _lacks(found: Any, part: str, path: str) -> str:
    from skate.serve.config.checked import nearest  # imported only for errors
    from skate.serve.deployment import Application

    where = getattr(found, "__name__", type(found).__name__)
    lacks = f"{path}: module {where!r} has no attribute {part!r}"
    known = [name for name, each in vars(found).items() if isinstance(each, Application)]
    if known:
        return f"{lacks}; applications there: {', '.join(known)}"
    names = [name for name in vars(found) if not name.startswith("_")]
    return f"{lacks}{nearest(part, names)} It has no application, which is what .bind() returns"
