"""Private names of Ray's libraries that other packages import."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from skate.installed import require

if TYPE_CHECKING:
    import torch

Result = TypeVar("Result")


def _check_import(obj: object, *, module: str, package: str) -> None:
    """Raise ImportError, naming the class of `obj`, unless a package is installed."""
    require(module, type(obj).__name__, package)


def get_devices() -> list[torch.device]:
    """Return the GPUs of the task or actor that calls, or the CPU; without torch it raises ImportError."""
    from skate.train.torch.prepare import devices_of_process  # torch is optional

    return devices_of_process()


def call_with_retry(
    f: Callable[..., Result],
    description: str,
    match: Sequence[str] | None = None,
    max_attempts: int = 10,
    max_backoff_s: float = 32,
    *args: Any,
    **kwargs: Any,
) -> Result:
    """Call a function, and retry while it raises an error whose text contains one of `match` (None: any error).

    Args:
        f: the function; `args` and `kwargs` are passed to it.
        description: the purpose of the call, for error messages.
        match: substrings of the messages of transient errors.
        max_attempts: the most calls.
        max_backoff_s: the longest wait between two calls in seconds; waits double from 1 s on.
    """
    if max_attempts < 1:
        raise ValueError(f"max_attempts must be >= 1, got {max_attempts}")
    for attempt in range(max_attempts):
        try:
            return f(*args, **kwargs)
        except Exception as error:  # any error unless `match` is given
            passing = match is None or any(word in str(error) for word in match)
            if not passing or attempt + 1 == max_attempts:
                raise
        time.sleep(min(max_backoff_s, random.random() * 2.0**attempt))
    raise AssertionError(description)
