"""Checks of received messages against records of their fields: each record becomes one generated function.

Plain Python types are compared exactly (`True` is not an integer here). `tuple[X, ...]` is a tuple of any
length. A record inside a message is a dict with these entries; an optional entry may be missing. A check is
one expression of comparisons and costs about 0.2 us for a message without nested fields.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Annotated, Any

from skate.protocol import values as m
from skate.protocol.record import is_field_dict

Check = Callable[[Any], bool]


class Length:
    """The allowed lengths of bytes."""

    def __init__(self, *lengths: int) -> None:
        self.lengths = lengths


class Range:
    """The least and greatest value of an integer; msgpack supports up to 64 bits."""

    def __init__(self, least: int, most: int = (1 << 64) - 1) -> None:
        self.least = least
        self.most = most


class Value:
    """Mark the kind of a value; its payload follows in the next field."""


class Passes:
    """A check by a function."""

    def __init__(self, check: Check) -> None:
        self.check = check


class Entries:
    """The entries of a dict that are checked, among those of its type."""

    def __init__(self, checked: type) -> None:
        self.checked = checked


def is_value(kind: Any, payload: Any) -> bool:
    """True if this is a value from a client: bytes, a place in the arena, or an error."""
    if kind == m.INLINE:
        return type(payload) is bytes
    if kind == m.ARENA:
        return (
            type(payload) is tuple
            and len(payload) == 2
            and all(type(each) is int and each >= 0 for each in payload)
        )
    return bool(kind == m.ERROR) and is_error(payload)


def is_error(payload: Any) -> bool:
    """True if this is an error on the wire: class name and fields, of which the node itself reads two."""
    if type(payload) is not tuple or len(payload) != 2:
        return False
    name, fields = payload
    if type(name) is not str or type(fields) is not dict or not all(type(key) is str for key in fields):
        return False
    held, through = fields.get("held", ()), fields.get("through", ())
    return (
        type(held) is tuple
        and all(type(each) is bytes and len(each) in (16, 28) for each in held)
        and type(through) is tuple
        and all(type(each) is str for each in through)
    )


def is_condition(value: Any) -> bool:
    """True if this is a condition on the labels of a node: (key, operator, values or alternatives)."""
    if (
        type(value) is not tuple
        or len(value) != 3
        or type(value[0]) is not str
        or type(value[2]) is not tuple
    ):
        return False
    if value[1] == "any":
        return all(type(each) is tuple and all(map(is_condition, each)) for each in value[2])
    return value[1] in ("in", "not_in", "exists", "absent") and all(type(each) is str for each in value[2])


def is_strategy(value: Any) -> bool:
    """True if this is a scheduling strategy or None."""
    if value is None:
        return True
    if type(value) is not tuple or not value:
        return False
    kinds = tuple(type(each) for each in value[1:])
    if value[0] == "bundle":
        return kinds == (bytes, int, bool)
    if value[0] == "node":
        return kinds == (bytes, bool, str) and value[3] in ("wait", "spill", "fail")
    if value[0] == "labels":
        return kinds == (tuple, tuple) and all(is_condition(each) for part in value[1:] for each in part)
    return value == ("spread",)


class _Source:
    """The Python source of the checks of one record, and the names that it uses."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"is_value": is_value}

    def name(self, value: Any) -> str:
        name = f"_{len(self.names)}"
        self.names[name] = value
        return name

    def of(self, kind: Any, x: str) -> str:
        """Return an expression that is true if `x` is of a type."""
        if kind is Any:
            return ""
        origin = typing.get_origin(kind)
        if origin is Annotated:
            return self._annotated(kind, x)
        if origin in (types.UnionType, typing.Union):
            parts = [self.of(each, x) for each in typing.get_args(kind)]
            return "(" + " or ".join(part or "True" for part in parts) + ")"
        if kind is type(None):
            return f"{x} is None"
        if origin is tuple:
            return self._tuple(typing.get_args(kind), x)
        if origin is dict:
            key, value = (each for each in typing.get_args(kind))
            inner = [part for part in (self.of(key, "k"), self.of(value, "v")) if part]
            each = f" and all({' and '.join(inner)} for k, v in {x}.items())" if inner else ""
            return f"(type({x}) is dict{each})"
        if is_field_dict(kind):
            return f"{self.name(entries_check(kind))}({x})"
        return f"type({x}) is {self.name(kind)}"

    def _annotated(self, kind: Any, x: str) -> str:
        base, *marks = typing.get_args(kind)
        checked = next((mark.checked for mark in marks if isinstance(mark, Entries)), base)
        parts = [self.of(checked, x)]
        for mark in marks:
            if isinstance(mark, Length):
                lengths = mark.lengths
                parts.append(f"len({x}) == {lengths[0]}" if len(lengths) == 1 else f"len({x}) in {lengths}")
            elif isinstance(mark, Range):
                parts.append(f"{mark.least} <= {x} <= {mark.most}")
            elif isinstance(mark, Passes):
                parts.append(f"{self.name(mark.check)}({x})")
        return "(" + " and ".join(part for part in parts if part) + ")"

    def _tuple(self, kinds: tuple[Any, ...], x: str) -> str:
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            inner = self.of(kinds[0], "e")
            if not inner:
                return f"type({x}) is tuple"
            # Most tuples are empty, for which a generator is not worth starting.
            return f"(type({x}) is tuple and (not {x} or {self.name(_each(inner, self.names))}({x})))"
        parts = [f"type({x}) is tuple", f"len({x}) == {len(kinds)}"]
        parts += [part for index, kind in enumerate(kinds) if (part := self.of(kind, f"{x}[{index}]"))]
        return "(" + " and ".join(parts) + ")"


def _each(inner: str, names: dict[str, Any]) -> Check:
    # the text is generated here, only from types
    made: Check = eval(f"lambda x: all({inner} for e in x)", names)
    return made


def _hints(record: Any) -> dict[str, Any]:
    return typing.get_type_hints(record, include_extras=True)


class Checks(dict[Any, Check]):
    """Checks by key, each generated when it is first needed: most processes need few of them."""

    def __init__(self, generate: Callable[[Any], Check]) -> None:
        """`generate` returns the check for a key, or raises KeyError."""
        super().__init__()
        self._generate = generate

    def __missing__(self, key: Any) -> Check:
        check = self[key] = self._generate(key)
        return check


def message_check(record: type) -> Check:
    """Return a function that is true for a message with the fields of a record, of which the first is its number."""
    kinds = list(_hints(record).values())[1:]
    source = _Source()
    parts = [f"len(x) == {len(kinds) + 1}", *_fields(source, kinds, 1)]
    made: Check = eval("lambda x: " + " and ".join(parts), source.names)  # generated only from types
    return made


def fields_check(record: type) -> Check:
    """Return a function that is true for a plain tuple of the fields of a record."""
    kinds = list(_hints(record).values())
    source = _Source()
    parts = ["type(x) is tuple", f"len(x) == {len(kinds)}", *_fields(source, kinds, 0)]
    made: Check = eval("lambda x: " + " and ".join(parts), source.names)  # generated only from types
    return made


def _fields(source: _Source, kinds: list[Any], first: int) -> list[str]:
    parts = []
    for index, kind in enumerate(kinds, first):
        if typing.get_origin(kind) is Annotated and any(
            isinstance(mark, Value) for mark in typing.get_args(kind)
        ):
            parts.append(f"is_value(x[{index}], x[{index + 1}])")
        elif part := source.of(kind, f"x[{index}]"):
            parts.append(part)
    return parts


def entries_check(record: type) -> Check:
    """Return a function that is true for a dict with the entries of a record; further entries are allowed."""
    source = _Source()
    parts = ["type(x) is dict", "all(type(k) is str for k in x)"]
    parts += [part for name, kind in _hints(record).items() if (part := source.of(kind, f"x.get({name!r})"))]
    made: Check = eval("lambda x: " + " and ".join(parts), source.names)  # generated only from types
    return made


def arguments_check(function: Callable[..., Any], skipped: int) -> Check:
    """Return a function that is true for a tuple of arguments that matches a function's annotations after the
    first `skipped`."""
    hints = _hints(function)
    hints.pop("return", None)
    kinds = list(hints.values())[skipped:]
    source = _Source()
    parts = [f"len(x) == {len(kinds)}", *_fields(source, kinds, 0)]
    made: Check = eval("lambda x: " + " and ".join(parts), source.names)  # generated only from types
    return made
