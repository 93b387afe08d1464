"""Ends trials by a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from skate.tune.stopper.stopper import Stopper


class FunctionStopper(Stopper):
    """Ends a trial when a function of its id and result returns a true value.

    Raises:
        ValueError: it is not a function of two arguments.
    """

    def __init__(self, function: Callable[[str, dict[str, Any]], bool]) -> None:
        if not self.is_valid_function(function):
            raise ValueError(f"a stopping function must take a trial's id and a result, got {function!r:.80}")
        self._function = function

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return bool(self._function(trial_id, result))

    def stop_all(self) -> bool:
        """False: the function decides about single trials."""
        return False

    @classmethod
    def is_valid_function(cls, fn: Any) -> bool:
        """True if a value can be called with an id and a result."""
        if not callable(fn) or isinstance(fn, (type, Stopper)):
            return False
        try:
            inspect.signature(fn).bind("", {})
        except TypeError:
            return False
        except ValueError:  # a builtin without a signature
            return True
        return True
