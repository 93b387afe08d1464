"""Errors of datasets that are no function's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.exceptions import UserCodeException as UserCodeException


class RayDataUserCodeException(UserCodeException):
    """A function given to a dataset raised. Kept to be caught by: here a function's error keeps its own type."""


class SystemException(Exception):
    """An error of the engine itself; kept to be caught by."""


class ExecutionTimeoutError(Exception):
    """No operator of a run gave or took anything for as long as `DataContext.execution_no_progress_timeout_s` allows."""


def omit_traceback_stdout(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself: tracebacks here are short anyway."""
    return fn
