"""From `module:attribute` to the object."""

from __future__ import annotations

import importlib
from typing import Any


def load(path: str) -> Any:
    """The object that `module:attribute` or `module.attribute` names; names under `ray.` are ours.

    Raises ValueError for a path of another shape, ImportError or AttributeError for what is not there.
    """
    module, colon, attribute = path.partition(":")
    if not colon:
        module, _, attribute = path.rpartition(".")
    if not module or not attribute:
        raise ValueError(f"{path!r} names no object; write it as 'module:name', such as 'my_program:app'")
    if module == "ray" or module.startswith("ray."):
        module = "skate" + module[len("ray") :]
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found
