"""Errors raised by datasets themselves rather than by user functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from skate.exceptions import UserCodeException as UserCodeException


class RayDataUserCodeException(UserCodeException):
    """A function given to a dataset raised, in Ray's debug mode; kept to be caught by."""


def as_user_code(error: BaseException) -> BaseException:
    """The error of a task; one that a function of the user's raised is a UserCodeException, too, beside its own type."""
    if isinstance(error, UserCodeException) or not getattr(
        getattr(error, "cause", None), "of_users_code", False
    ):
        return error
    kind = type(error)
    with contextlib.suppress(TypeError):  # types that cannot be put together
        error.__class__ = type(kind.__name__, (kind, UserCodeException), {"__module__": kind.__module__})
    return error


class SystemException(Exception):
    """An error of the engine itself; kept to be caught by."""


class ArrowConversionError(Exception):
    """Values that Arrow has no type for.

    Args:
        data_str: the values as text, of which the message keeps the first 200 characters.
        column_name: the column that they were for.
        pa_type: the type that they were to have.
    """

    MAX_DATA_STR_LEN = 200

    def __init__(self, data_str: str, column_name: str | None = None, pa_type: Any = None) -> None:
        if len(data_str) > self.MAX_DATA_STR_LEN:
            data_str = data_str[: self.MAX_DATA_STR_LEN] + "..."
        what = "data" if column_name is None else f"column '{column_name}'"
        kind = "" if pa_type is None else f" (target type: {pa_type})"
        super().__init__(f"Error converting {what}{kind} to Arrow: {data_str}")


class ExecutionTimeoutError(Exception):
    """No operator of a run gave or took anything for as long as `DataContext.execution_no_progress_timeout_s` allows."""


def omit_traceback_stdout(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself: tracebacks here are short anyway."""
    return fn
