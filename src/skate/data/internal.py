"""Internal names of Ray that other libraries import (`ray.data._internal.*`)."""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from skate.data.context import ExecutionOptions as ExecutionOptions
from skate.data.context import ExecutionResources as ExecutionResources
from skate.data.context import NodeIdStr as NodeIdStr
from skate.data.execution.bundle import RefBundle as RefBundle
from skate.data.source.datasink import TaskContext as TaskContext

Result = TypeVar("Result")


def _check_import(obj: Any, *, module: str, package: str) -> None:
    """Raise ImportError naming the package if a module that an object needs cannot be imported."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{type(obj).__name__!r} depends on {package!r}, which cannot be imported; install it with `pip install {package}`"
        ) from error


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


def __getattr__(name: str) -> Any:
    if name == "webdataset_datasource":
        from skate.data.source.formats import webdataset  # only what reads tar files needs it

        return webdataset
    raise AttributeError(f"module 'skate.data.internal' has no attribute {name!r}")
