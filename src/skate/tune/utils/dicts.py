"""Nested dicts: flattening, lookup by flat names, and merging."""

from __future__ import annotations

import copy
import numbers
import time
from collections.abc import Mapping, Sequence
from typing import Any

from skate.air.flat import flat


def flatten_dict(
    dt: dict[Any, Any], delimiter: str = "/", prevent_delimiter: bool = False, flatten_list: bool = False
) -> dict[str, Any]:
    """Flatten nested dicts: `{"a": {"b": 1}}` becomes `{"a/b": 1}`.

    Args:
        dt: the dict; it is not changed.
        delimiter: the separator of names.
        prevent_delimiter: True to raise if a name contains the delimiter already.
        flatten_list: True to flatten lists too, with positions as names.

    Raises:
        ValueError: a name contains the delimiter, and `prevent_delimiter` is set.
    """
    if prevent_delimiter:
        _refuse(dt, delimiter)
    return flat(_opened(dt) if flatten_list else dt, delimiter)


def _refuse(values: Mapping[Any, Any], delimiter: str) -> None:
    for name, value in values.items():
        if isinstance(name, str) and delimiter in name:
            raise ValueError(f"the name {name!r} contains the delimiter {delimiter!r}")
        if isinstance(value, dict):
            _refuse(value, delimiter)


def _opened(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _opened(each) for name, each in value.items()}
    if isinstance(value, list):
        return {str(place): _opened(each) for place, each in enumerate(value)}
    return value


def unflatten_dict(dt: dict[str, Any], delimiter: str = "/") -> dict[str, Any]:
    """Convert a flat dict to nested dicts of the same type: `{"a/b": 1}` becomes `{"a": {"b": 1}}`."""
    kind = type(dt)
    found = kind()
    for name, value in dt.items():
        *way, last = name.split(delimiter)
        inner = found
        for part in way:
            inner = inner.setdefault(part, kind())
        inner[last] = value
    return found


def unflatten_list_dict(dt: dict[str, Any], delimiter: str = "/") -> Any:
    """Convert a flat dict to nested dicts and lists: positions become lists again, `{"a/0": 1}` becomes
    `{"a": [1]}`."""
    return _listed(unflatten_dict(dt, delimiter))


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    found = {name: _listed(each) for name, each in value.items()}
    places = [str(place) for place in range(len(found))]
    return [found[place] for place in places] if found and set(found) == set(places) else found


def is_nan(value: Any) -> bool:
    """Return True if a value is NaN."""
    return isinstance(value, numbers.Real) and value != value


def is_nan_or_inf(value: Any) -> bool:
    """Return True if a value is NaN or infinite."""
    return is_nan(value) or (isinstance(value, numbers.Real) and abs(value) == float("inf"))


def unflattened_lookup(
    flat_key: str, lookup: Mapping[Any, Any] | Sequence[Any], delimiter: str = "/", **kwargs: Any
) -> Any:
    """Look up a flat name in nested dicts and lists.

    Args:
        flat_key: such as "layers/0/size".
        lookup: the container to search.
        delimiter: the separator of names.
        default: the value to return if there is none.

    Raises:
        KeyError, IndexError: there is none, and no default was given.
    """
    found: Any = lookup
    try:
        if flat_key in lookup:
            return lookup[flat_key]  # type: ignore[call-overload]
        for name in flat_key.split(delimiter):
            found = found[int(name) if isinstance(found, Sequence) else name]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        if "default" in kwargs:
            return kwargs["default"]
        kind = IndexError if isinstance(error, IndexError) else KeyError
        raise kind(f"no value under {flat_key!r}") from error
    return found


def merge_dicts(d1: dict[Any, Any], d2: dict[Any, Any]) -> dict[Any, Any]:
    """Return a deep copy of the first dict, updated recursively with the second."""
    return deep_update(copy.deepcopy(d1), d2, True)


def deep_update(
    original: dict[Any, Any],
    new_dict: dict[Any, Any],
    new_keys_allowed: bool = False,
    allow_new_subkey_list: Sequence[str] | None = None,
    override_all_if_type_changes: Sequence[str] | None = None,
    override_all_key_list: Sequence[str] | None = None,
) -> dict[Any, Any]:
    """Update a dict recursively with another, and return it.

    Args:
        original: the dict to change.
        new_dict: the new values.
        new_keys_allowed: True if names may be missing in `original`.
        allow_new_subkey_list: names of dicts in which new names are allowed anyway.
        override_all_if_type_changes: names of dicts that are replaced as a whole if their "type" changes.
        override_all_key_list: names of dicts that are always replaced as a whole.

    Raises:
        KeyError: a name is new and not allowed.
    """
    whole = override_all_key_list or ()
    for name, value in new_dict.items():
        if name not in original and not new_keys_allowed:
            known = ", ".join(sorted(map(str, original)))
            raise KeyError(f"{name!r} is not a known setting; the settings are: {known}")
        before: Any = original.get(name)
        inner = isinstance(before, dict) and isinstance(value, dict) and name not in whole
        if inner and name in (override_all_if_type_changes or ()) and "type" in value and "type" in before:
            inner = value["type"] == before["type"]
        if inner:
            allowed = new_keys_allowed or name in (allow_new_subkey_list or ())
            deep_update(before, value, allowed, override_all_key_list=whole)
        else:
            original[name] = value
    return original


def date_str() -> str:
    """Return the current time in the form used in folder names."""
    return time.strftime("%Y-%m-%d_%H-%M-%S")
