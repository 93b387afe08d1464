"""The error of an invalid record; also pydantic's ValidationError, if the program uses pydantic."""

from __future__ import annotations

import functools
import json
import sys
from typing import Any


class WrongField(ValueError):
    """A record is invalid; `where` is the path to the field, by names and list indices.

    Programs written for Ray catch pydantic's ValidationError, which requires importing pydantic, so only then
    is this one.
    """

    where: tuple[str | int, ...]

    def __new__(cls, text: str, where: tuple[str | int, ...] = ()) -> WrongField:
        """One that can be caught as ValidationError, if there is such a class to catch it by."""
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
        """Rebuild the error on arrival, where pydantic may be missing."""
        return WrongField, (str(self), self.where)

    def inside(self, *outer: str | int) -> WrongField:
        """Prefix the path with that of an enclosing record."""
        self.where = (*outer, *self.where)
        return self


@functools.cache
def _of_pydantic(base: Any) -> type[WrongField] | None:
    """WrongField and ValidationError in one; None with a pydantic whose class has no heirs."""

    def errors(self: Any, **_: Any) -> list[dict[str, Any]]:
        """The single error, in pydantic's format."""
        return [{"type": "value_error", "loc": self.where, "msg": str(self), "input": None}]

    named = {
        "__module__": __name__,
        "__qualname__": "WrongField",
        "__str__": lambda self: self.args[0],
        "__repr__": lambda self: f"WrongField({self.args[0]!r})",
        "errors": errors,
        "json": lambda self, **_: json.dumps(errors(self)),
        "error_count": lambda self: 1,
    }
    try:
        kind = type("WrongField", (WrongField, base), named)
        base.__new__(kind, "settings", [], "python", False)
    except TypeError:
        return None
    return kind
