"""Nodes inside values: in lists, tuples, sets, dicts, and attributes of objects."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

_CONTAINERS = (list, tuple, set, frozenset)
#: Modules whose classes' instances contain no nodes.
_LEAVES = frozenset({"builtins", "numpy", "pandas", "pyarrow", "skate", "torch", "types"})


def attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an instance of a program's own class; empty for others."""
    kind = type(value)
    if kind.__module__.partition(".")[0] in _LEAVES or isinstance(value, type):
        return {}
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if isinstance(held, dict) else {}


def found_in(value: Any, kind: type, seen: set[int] | None = None) -> Iterator[Any]:
    """Yield every object of a kind in a value, in order and with repetitions."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from found_in(key, kind, seen)
            yield from found_in(each, kind, seen)
    elif isinstance(value, _CONTAINERS):
        for each in value:
            yield from found_in(each, kind, seen)
    else:
        held = attributes(value)
        seen = set() if seen is None else seen
        if held and id(value) not in seen:
            seen.add(id(value))
            for each in held.values():
                yield from found_in(each, kind, seen)


def replaced_in(
    value: Any, kind: type, result: Callable[[Any], Any], made: dict[int, Any] | None = None
) -> Any:
    """Return a copy of a value with objects of a kind replaced by results; a value without them is returned
    unchanged.
    """
    made = {} if made is None else made
    if isinstance(value, kind):
        return result(value)
    if id(value) in made:
        return made[id(value)]
    if next(found_in(value, kind), None) is None:
        return value
    if isinstance(value, dict):
        return {
            replaced_in(key, kind, result, made): replaced_in(each, kind, result, made)
            for key, each in value.items()
        }
    if not isinstance(value, _CONTAINERS):
        other = made[id(value)] = copy.copy(value)
        for name, each in attributes(value).items():
            object.__setattr__(other, name, replaced_in(each, kind, result, made))
        return other
    parts = [replaced_in(each, kind, result, made) for each in value]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*parts)
    return parts if isinstance(value, list) else type(value)(parts)
