"""Errors raised by datasets themselves rather than by user functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from skate.exceptions import UserCodeException as UserCodeException


class RayDataUserCodeException(UserCodeException):
    """A user's function raised, in Ray's debug mode; kept for programs that catch it."""


def as_user_code(error: BaseException) -> BaseException:
    """Return the error of a task. An error raised by a user's function is a UserCodeException as well as its
    own type."""
    if isinstance(error, UserCodeException) or not getattr(
        getattr(error, "cause", None), "of_users_code", False
    ):
        return error
    kind = type(error)
    with contextlib.suppress(TypeError):  # types that cannot be combined
        error.__class__ = type(kind.__name__, (kind, UserCodeException), {"__module__": kind.__module__})
    return error


class SystemException(Exception):
    """An error of the engine itself; kept for programs that catch it."""


class ArrowConversionError(Exception):
    """Values that Arrow has no type for.

    Args:
        data_str: the values as text; the message includes the first 200 characters.
        column_name: their column.
        pa_type: the type to convert them to.
    """

    MAX_DATA_STR_LEN = 200

    def __init__(self, data_str: str, column_name: str | None = None, pa_type: Any = None) -> None:
        if len(data_str) > self.MAX_DATA_STR_LEN:
            data_str = data_str[: self.MAX_DATA_STR_LEN] + "..."
        what = "data" if column_name is None else f"column '{column_name}'"
        kind = "" if pa_type is None else f" (target type: {pa_type})"
        super().__init__(f"Error converting {what}{kind} to Arrow: {data_str}")


class ExecutionTimeoutError(Exception):
    """No operator of a run made progress within `DataContext.execution_no_progress_timeout_s`."""


def omit_traceback_stdout(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function unchanged: tracebacks here are short anyway."""
    return fn
