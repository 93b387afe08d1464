"""Flattening of nested metrics and settings for tables and trackers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flat(values: Mapping[Any, Any], between: str = "/") -> dict[str, Any]:
    """Flatten nested dicts: `{"eval": {"loss": 1}}` becomes `{"eval/loss": 1}`; flat entries first, empty dicts
    dropped.
    """
    found: dict[str, Any] = {}
    levels: list[tuple[str, Mapping[Any, Any]]] = [("", values)]
    for above, level in levels:  # grows during the loop
        for name, value in level.items():
            if isinstance(value, dict):
                levels.append((f"{above}{name}{between}", value))
            else:
                found[f"{above}{name}"] = value
    return found


def numbers(values: Mapping[Any, Any]) -> dict[str, float]:
    """Return the numbers among nested values, including those of numpy and of tensors with one element."""
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
    """Return a JSON-serializable substitute for a value: the numbers of an array, a list for a set, else its `repr`."""
    if hasattr(value, "detach"):  # a tensor, which may need gradients or be on a GPU
        value = value.detach().cpu()
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return list(value)
    return repr(value)


def is_plain(value: Any) -> bool:
    """True if a value consists of built-in types that any pickle can restore: strings, numbers, lists and dicts."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return True
    if kind is dict:
        return all(type(name) is str and is_plain(each) for name, each in value.items())
    return kind is list and all(map(is_plain, value))
