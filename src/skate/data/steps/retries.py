"""Retries of a user's function: which errors, and how often, from the settings of a dataset."""

from __future__ import annotations

import re
from typing import Any

#: The number of retries of a call in an actor pool if only `actor_task_retry_on_errors` is set.
ACTOR_RETRIES = 3


class Retries:
    """The retries of a failed call.

    Args:
        times: the most retries.
        errors: True for all errors; patterns for errors whose message contains one, as text or as a regular
            expression; or types of errors.
    """

    def __init__(self, times: int, errors: Any) -> None:
        self.times = times
        self.errors = errors if isinstance(errors, bool) else tuple(errors)

    def again(self, error: BaseException, tried: int) -> bool:
        """True if a call that was retried `tried` times is retried once more."""
        if tried >= self.times:
            return False
        if isinstance(self.errors, bool):
            return self.errors
        return any(_is_meant(each, error) for each in self.errors)


def _is_meant(pattern: Any, error: BaseException) -> bool:
    if isinstance(pattern, type):
        return isinstance(error, pattern)
    text = f"{type(error).__name__}: {error}"
    if pattern in text:
        return True
    try:
        return re.search(pattern, text) is not None
    except re.error:  # a text that is not a regular expression
        return False


def retries_of(context: Any, in_actors: bool) -> Retries | None:
    """Return the configured retries of functions in tasks, or in actors; None without retries."""
    if context.max_map_retries > 0 and context.retried_map_errors:
        return Retries(context.max_map_retries, context.retried_map_errors)
    if in_actors and context.actor_task_retry_on_errors:
        return Retries(ACTOR_RETRIES, context.actor_task_retry_on_errors)
    return None


def retries_of_constructors(context: Any) -> Retries | None:
    """Return the configured retries of constructors in actors; None without retries."""
    if not context.actor_init_retry_on_errors or not context.actor_init_max_retries:
        return None
    most = context.actor_init_max_retries
    return Retries(most if most > 0 else 1 << 30, context.actor_init_retry_on_errors)
