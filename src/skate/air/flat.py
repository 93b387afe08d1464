"""Nested metrics and settings as one level, as tables and trackers want them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flat(values: Mapping[Any, Any], between: str = "/") -> dict[str, Any]:
    """A mapping of one level: `{"eval": {"loss": 1}}` becomes `{"eval/loss": 1}`; empty mappings are left out."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found.update({f"{name}{between}{inner}": each for inner, each in flat(value, between).items()})
        else:
            found[str(name)] = value
    return found


def numbers(values: Mapping[Any, Any]) -> dict[str, float]:
    """The numbers among nested values, those of numpy and of tensors with one element too."""
    found = {}
    for name, value in flat(values).items():
        if isinstance(value, str | bytes):
            continue
        try:
            found[name] = float(value)
        except (TypeError, ValueError, RuntimeError):  # a tensor of several elements raises the last
            continue
    return found


def plain(value: Any) -> Any:
    """What JSON can hold in place of a value: the numbers of an array, else its `repr`."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)
