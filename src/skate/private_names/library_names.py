"""Private names of Ray's libraries that data and training packages import."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from skate.installed import require


def check_import(obj: Any, *, module: str, package: str) -> None:
    """Raise ImportError saying what needs a package, unless it is installed."""
    require(module, type(obj).__name__, package)


def call_with_retry(
    f: Callable[[], Any],
    description: str,
    *,
    match: list[str] | None = None,
    max_attempts: int = 10,
    max_backoff_s: int = 32,
) -> Any:
    """Call a function until it does not raise, with pauses that double up to `max_backoff_s` seconds.

    Args:
        f: the function.
        description: what it does, for readers.
        match: texts of errors that are worth another try; all errors if None.
        max_attempts: how often it is called at most.
        max_backoff_s: the longest pause, in seconds.
    """
    for attempt in range(1, max_attempts + 1):
        try:
            return f()
        except Exception as error:  # whether it is worth another try is told by its text
            again = match is None or any(text in str(error) for text in match)
            if not again or attempt == max_attempts:
                raise
            time.sleep(min(2**attempt * random.random(), max_backoff_s))
    raise AssertionError("max_attempts must be >= 1")


def train_session() -> Any:
    """The context of the training function that runs here; None outside of one."""
    from skate import train  # with all that training brings along

    try:
        return train.get_context()
    except RuntimeError:
        return None
