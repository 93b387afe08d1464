"""Random changes of valid configs and requests that keep most of the structure, as in hostile or careless input."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

#: Values that replace others.
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 3, 10**30, -(2**63), 0.5, -0.0, 1e308, float("nan"), float("inf"), float("-inf"),
    "", " ", "x", "auto", "NaN", "1", "-1", "\x00", "\U0001f600" * 3, "a" * 5000, "/", "{}", "a:b:c", "..",
    [], [[]], [None], {}, {"": None}, {"a": {"a": {"a": 1}}}, {1: 2}, [1, "a", None, {}], b"bytes",
]  # fmt: skip
#: The same values, without those that JSON cannot represent.
ODD_JSON: list[Any] = [each for each in ODD if not isinstance(each, bytes) and each != {1: 2}]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values inside a value, starting with the empty path."""
    found = [path]
    if isinstance(value, dict):
        for key, each in value.items():
            found += places(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            found += places(each, (*path, at))
    return found


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def changed(draw: Callable[..., Any], valid: Any, odd: list[Any], most: int = 3) -> Any:
    """Return a copy with one to `most` changes: a value replaced, removed, moved, wrapped or repeated, or a key misspelt."""
    value = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, most))):
        ways = places(value)[1:]
        if not ways:
            break
        path = draw(st.sampled_from(ways))
        inside, last = _at(value, path[:-1]), path[-1]
        kind = draw(st.sampled_from(["odd", "odd", "odd", "gone", "moved", "wrapped", "again", "misspelt"]))
        if kind == "odd":
            inside[last] = copy.deepcopy(draw(st.sampled_from(odd)))
        elif kind == "gone":
            del inside[last]
        elif kind == "moved":
            inside[last] = copy.deepcopy(_at(value, draw(st.sampled_from(ways))))
        elif kind == "wrapped":
            inside[last] = draw(st.sampled_from([[inside[last]], {"a": inside[last]}]))
        elif isinstance(inside, list):
            inside.append(copy.deepcopy(inside[last]))
        elif isinstance(inside, dict):
            key = draw(
                st.sampled_from([f"{last}s", str(last)[:-1], str(last).upper(), "__class__", "self", ""])
            )
            inside[key] = inside[last] if kind == "again" else inside.pop(last)
    return value
