"""`remote`: the decorator for remote functions and actor classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.client.actor.actor_class import ActorClass
from skate.client.task import options
from skate.client.task.remote_function import RemoteFunction

_BUILTIN_KINDS = ("builtin_function_or_method", "method_descriptor")


def remote(*args: Any, **kwargs: Any) -> Any:
    """Turn a function into a remote function, or a class into an actor class; with or without options.

    Raises AssertionError for anything but a function or class, ValueError and TypeError for bad options.
    """
    if len(args) == 1 and not kwargs and _is_definition(args[0]):
        return _make(args[0], {})
    if len(args) == 1 and kwargs and _is_definition(args[0]):
        return _make(args[0], kwargs)
    if args or not kwargs:
        shown = f"; got {args[0]!r:.60}" if args else ""
        raise (TypeError if args and callable(args[0]) else AssertionError)(options.remote_usage() + shown)

    def decorate(definition: Any) -> Any:
        if not _is_definition(definition):
            raise TypeError(f"{options.remote_usage()}, got {definition!r:.60}")
        return _make(definition, kwargs)

    return decorate


def _is_definition(value: Any) -> bool:
    if isinstance(value, (RemoteFunction, ActorClass)):
        return False
    if isinstance(value, type):
        return True
    return callable(value) and (
        hasattr(value, "__code__") or hasattr(value, "__wrapped__") or type(value).__name__ in _BUILTIN_KINDS
    )


def _make(definition: Any, given: dict[str, Any]) -> Any:
    if isinstance(definition, type):
        return ActorClass(definition, given)
    function: Callable[..., Any] = definition
    return RemoteFunction(function, given)
