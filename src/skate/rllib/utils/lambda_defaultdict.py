"""LambdaDefaultDict: a dict whose missing values are made from their keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any


class LambdaDefaultDict(defaultdict[Any, Any]):
    """Makes a missing value by a function of its key, and keeps it.

    Args:
        default_factory: Takes the key.
        *args: What the dict begins with, as of ``dict``.
        **kwargs: Likewise.

    Raises:
        TypeError: the function cannot be called.
    """

    def __init__(self, default_factory: Callable[[Any], Any], *args: Any, **kwargs: Any) -> None:
        if not callable(default_factory):
            raise TypeError(f"the first argument has to be a function of the key, not {default_factory!r}")
        super().__init__(None, *args, **kwargs)
        self.of_key = default_factory

    def __missing__(self, key: Any) -> Any:
        value = self[key] = self.of_key(key)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.of_key, dict(self))
