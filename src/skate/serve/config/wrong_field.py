"""The error of an invalid record. It is also pydantic's ValidationError if the program uses pydantic."""

from __future__ import annotations

import functools
import sys
from typing import Any


class WrongField(ValueError):
    """A record is invalid. `where` is the path to the field, as names and list indices.

    Programs written for Ray catch pydantic's ValidationError, which they must import from pydantic. The error is
    therefore a ValidationError only if pydantic has been imported.
    """

    where: tuple[str | int, ...]

    def __new__(cls, text: str, where: tuple[str | int, ...] = ()) -> WrongField:
        """Create the error as a subclass of ValidationError, if pydantic has been imported."""
        base: Any = getattr(sys.modules.get("pydantic_core"), "ValidationError", None)
        kind = None if base is None else _of_pydantic(base)
        made: WrongField
        if kind is None:
            made = super().__new__(cls)
        else:
            made = base.__new__(kind, "settings", [], "python", False)
        return made

    def __init__(self, text: str, where: tuple[str | int, ...] = ()) -> None:
        self.args = (text,)
        self.where = where

    def __reduce__(self) -> Any:
        """Rebuild the error when it is unpickled, because that process may not have imported pydantic."""
        return WrongField, (str(self), self.where)

    def inside(self, *outer: str | int) -> WrongField:
        """Prefix the path with the path of an enclosing record."""
        self.where = (*outer, *self.where)
        return self


@functools.cache
def _of_pydantic(base: Any) -> type[WrongField] | None:
    """Return a subclass of WrongField and ValidationError; None if pydantic's class cannot be subclassed."""

    def errors(self: Any, **_: Any) -> list[dict[str, Any]]:
        """Return the single error, in pydantic's format."""
        return [{"type": "value_error", "loc": self.where, "msg": str(self), "input": None}]

    def as_json(self: WrongField, **_: object) -> str:
        import json  # rarely needed

        return json.dumps(errors(self))

    named = {
        "__module__": __name__,
        "__qualname__": "WrongField",
        "__str__": lambda self: self.args[0],
        "__repr__": lambda self: f"WrongField({self.args[0]!r})",
        "errors": errors,
        "json": as_json,
        "error_count": lambda self: 1,
    }
    try:
        kind = type("WrongField", (WrongField, base), named)
        base.__new__(kind, "settings", [], "python", False)
    except TypeError:
        return None
    return kind
