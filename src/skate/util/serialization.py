"""Custom serializers for classes that pickle does not support."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.wire import values


def register_serializer(
    cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
) -> None:
    """Send instances of `cls` in the form that `serializer` returns.

    It applies to values sent by this process; the receiver rebuilds them.

    Args:
        cls: the class; its subclasses are not included.
        serializer: takes an instance and returns a value that can be sent.
        deserializer: takes that value and returns an instance; it is sent along and must be picklable.

    Raises:
        TypeError: `cls` is not a class, or one of the functions is not callable.
    """
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a class, not {cls!r}")
    for name, function in (("serializer", serializer), ("deserializer", deserializer)):
        if not callable(function):
            raise TypeError(f"{name} must be a function of one argument, not {function!r}")
    values.register_serializer(cls, serializer, deserializer)


def deregister_serializer(cls: type) -> None:
    """Send instances of `cls` by pickle again; no-op if it has no serializer."""
    values.deregister_serializer(cls)
