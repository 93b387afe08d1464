"""Say how values of a class are sent, where pickle cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.wire import values


def register_serializer(
    cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
) -> None:
    """Send instances of `cls` as what `serializer` makes of them.

    It holds for values that this process sends; a value is rebuilt wherever it arrives.

    Args:
        cls: the class; its subclasses are not included.
        serializer: takes an instance and returns a value that can be sent.
        deserializer: takes that value and returns an instance; it is sent along and must be picklable.

    Raises:
        TypeError: `cls` is not a class, or one of the functions cannot be called.
    """
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a class, not {cls!r}")
    for name, function in (("serializer", serializer), ("deserializer", deserializer)):
        if not callable(function):
            raise TypeError(f"{name} must be a function of one argument, not {function!r}")
    values.register_serializer(cls, serializer, deserializer)


def deregister_serializer(cls: type) -> None:
    """Send instances of `cls` by pickle again; nothing happens if it has no serializer."""
    values.deregister_serializer(cls)
