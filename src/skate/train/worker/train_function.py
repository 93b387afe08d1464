"""Calls of the training function with the arguments it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def takes_config(function: Callable[..., Any]) -> bool:
    """True if a training function takes the config.

    Raises:
        TypeError: it is not a function.
        ValueError: it takes more than one argument.
    """
    if not callable(function):
        raise TypeError(
            "train_loop_per_worker must be a training function, which every worker calls, not "
            f"{type(function).__name__}"
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin reports wrong arguments itself
        return True
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = [each for each in signature.parameters.values() if each.kind in kinds]
    needed = [each for each in given if each.default is inspect.Parameter.empty]
    if len(needed) > 1:
        raise ValueError(
            "train_loop_per_worker should take in 0 or 1 required arguments, the config: "
            f"{_name(function)}{signature} needs {len(needed)}: pass the values in "
            "train_loop_config={...}"
        )
    named = [
        each.name
        for each in signature.parameters.values()
        if each.kind is each.KEYWORD_ONLY and each.default is each.empty
    ]
    if named:
        raise ValueError(
            "train_loop_per_worker should take in 0 or 1 required arguments, the config: "
            f"{_name(function)}{signature} needs the keyword {named[0]!r}, which is not passed; pass "
            "the value in train_loop_config={...}"
        )
    return bool(given) or any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values())


def call(function: Callable[..., Any], config: Any) -> Any:
    """Call a training function, with the config if it takes it."""
    return function({} if config is None else config) if takes_config(function) else function()


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", repr(function))
