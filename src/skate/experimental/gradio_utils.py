"""Names of types in the interface of a graph."""

from __future__ import annotations

import typing
from typing import Any


def type_to_string(_type: type) -> str:
    """Return the name of a type: "int", "typing.List[int]"."""
    if isinstance(_type, type) and not typing.get_args(_type):
        return _type.__name__
    found: Any = str(_type)
    return str(found)
