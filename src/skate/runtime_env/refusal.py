"""Error messages for invalid runtime environments: the place, the field, the value and the expectation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def kind(value: object) -> str:
    """Return the name of a value's type, with its module if that helps."""
    cls = type(value)
    if value is None:
        return "None"
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


class Place:
    """The location of a value for error messages: the call, then the path into the dict."""

    __slots__ = ("keys", "where")

    def __init__(self, where: str, *keys: object) -> None:
        self.where = where
        self.keys = keys

    def __truediv__(self, key: object) -> Place:
        return Place(self.where, *self.keys, key)

    def __str__(self) -> str:
        path = "runtime_env" + "".join(f"[{key!r}]" for key in self.keys)
        return f"{self.where}: {path}" if self.where else path

    __repr__ = __str__

    def wrong_type(self, wanted: str, given: object, advice: str = "") -> TypeError:
        """Return the error for a value of the wrong type; the value is not shown, because it may be a secret."""
        return TypeError(f"{self} must be {wanted}, but got {kind(given)}{_tail(advice)}")

    def refused(self, problem: str, advice: str = "") -> ValueError:
        """Return the error for a value of the right type that cannot be used."""
        return ValueError(f"{self} {problem}{_tail(advice)}")


def _tail(advice: str) -> str:
    return f"; {advice}" if advice else ""


def nearest(name: object, valid: Iterable[str]) -> str:
    """Return advice with the valid key closest to `name`, or with all valid keys if none is close."""
    # difflib costs 5 ms to import and only an error needs it.
    import difflib

    choices = sorted(key for key in valid if not key.startswith("_"))
    folded = {key.replace("_", ""): key for key in choices}
    wanted = str(name).lower().replace("_", "").replace("-", "")
    close = difflib.get_close_matches(wanted, folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean {folded[close[0]]!r}?"
    return f"the fields are {', '.join(choices)}"


def of_strings(value: Any) -> bool:
    """True if the value is a list of strings."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
