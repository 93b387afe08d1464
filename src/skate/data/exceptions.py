"""Errors raised by datasets themselves rather than by user functions."""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from skate.data.context import DataContext
from skate.exceptions import RayTaskError
from skate.exceptions import UserCodeException as UserCodeException

Given = ParamSpec("Given")
Found = TypeVar("Found")


class RayDataUserCodeException(UserCodeException):
    """A user's function raised, in Ray's debug mode; kept for programs that catch it."""


def as_user_code(error: BaseException, operator: str) -> BaseException:
    """Return the error of a task as the program sees it: it names the operator, and has no trace of Skate's own code.

    An error raised by a user's function is a UserCodeException as well as its own type.
    """
    if isinstance(error, UserCodeException) or not isinstance(error, RayTaskError):
        return error
    origin = getattr(error, "_origin", error)
    origin.proctitle = f"ray::{operator}"
    origin.submit_site = None  # a place in Skate
    cause = origin.cause
    if getattr(cause, "of_users_result", False):
        origin.traceback_str = "".join(traceback.format_exception_only(cause))
    if not getattr(cause, "of_users_code", False):
        return error
    kind = type(error)
    with contextlib.suppress(TypeError):  # types that cannot be combined
        error.__class__ = type(kind.__name__, (kind, UserCodeException), {"__module__": kind.__module__})
    return error


def without_frames(error: BaseException) -> BaseException:
    """Return an error without the frames that it has passed so far, unless the settings ask for Skate's frames."""
    return error if DataContext.get_current().log_internal_stack_trace else error.with_traceback(None)


class SystemException(Exception):
    """An error of the engine itself; kept for programs that catch it."""


class ExecutionTimeoutError(Exception):
    """No operator of a run made progress within `DataContext.execution_no_progress_timeout_s`."""


#: Errors whose text says all: the traceback of the task, or the limit that was exceeded.
EXPLAINED = (RayTaskError, UserCodeException, ExecutionTimeoutError)


def omit_traceback_stdout(fn: Callable[Given, Found]) -> Callable[Given, Found]:
    """Wrap a function so that errors of tasks leave it without Skate's frames: the text of such an error has the user's."""

    @functools.wraps(fn)
    def handle_trace(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        try:
            return fn(*args, **kwargs)
        except EXPLAINED as error:
            raise without_frames(error) from error.__cause__

    return handle_trace
