"""Private names of Ray Data and Ray Train that other packages import."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from skate.installed import require


def check_import(obj: Any, *, module: str, package: str) -> None:
    """Raise ImportError, naming the class of `obj`, unless a package is installed."""
    require(module, type(obj).__name__, package)


def call_with_retry(
    f: Callable[[], Any],
    description: str,
    *,
    match: list[str] | None = None,
    max_attempts: int = 10,
    max_backoff_s: int = 32,
) -> Any:
    """Call a function until it succeeds, with random pauses that double up to `max_backoff_s` seconds.

    Args:
        f: the function.
        description: a description of the function; unused.
        match: parts of the messages of errors to retry; None to retry all errors.
        max_attempts: the most calls.
        max_backoff_s: the longest pause, in seconds.
    """
    for attempt in range(1, max_attempts + 1):
        try:
            return f()
        except Exception as error:  # `match` selects errors by message, not by type
            again = match is None or any(text in str(error) for text in match)
            if not again or attempt == max_attempts:
                raise
            time.sleep(min(2**attempt * random.random(), max_backoff_s))
    raise AssertionError("max_attempts must be >= 1")


def train_session() -> Any:
    """Return the context of the running training function; None outside of one."""
    from skate import train  # imported here because it loads all of the training library

    try:
        return train.get_context()
    except RuntimeError:
        return None
