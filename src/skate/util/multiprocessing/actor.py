"""The actor of a pool: it runs chunks of calls and keeps each call's own result or error."""

from __future__ import annotations

import functools
import pickle
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from multiprocessing.pool import MaybeEncodingError, RemoteTraceback  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import skate
import skate.actor

# Functions of recent map calls kept per actor; each may hold large captured values.
_FUNCTIONS_KEPT = 8

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Failure(NamedTuple):
    """A call that raised: the exception, and its remote traceback if it was raised in the actor."""

    error: BaseException
    remote_traceback: str | None = None

    def exception(self) -> BaseException:
        """The exception to raise, with the remote traceback as its cause."""
        if self.remote_traceback is not None:
            self.error.__cause__ = RemoteTraceback(f"\n{self.remote_traceback}")
        return self.error


class Report(NamedTuple):
    """The result of one chunk: an outcome (value or Failure) per call, and the duration."""

    outcomes: list[Any]
    duration_s: float


class PoolActor:
    """Runs chunks of calls, after an initializer."""

    def __init__(self, initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
        self._functions: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._set_by_initializer: dict[str, dict[str, Any]] = {}
        if initializer is not None:
            self._initialize(initializer, initargs)

    def ping(self) -> None:
        """Return, which proves that the initializer ran."""

    def exit(self) -> None:
        """End this process normally."""
        skate.actor.exit_actor()

    def run(self, function: Callable[..., Any], calls: list[Call]) -> Report:
        """Run one chunk that includes its function."""
        self._share_globals(function)
        return _run(function, calls)

    def run_shared(self, key: int, function_ref: list[Any], calls: list[Call]) -> Report:
        """Run one chunk of many that have the same function; it is fetched once and kept."""
        function = self._functions.get(key)
        if function is None:
            function = skate.get(function_ref[0])
            self._share_globals(function)
            self._functions[key] = function
            if len(self._functions) > _FUNCTIONS_KEPT:
                self._functions.popitem(last=False)
        return _run(function, calls)

    def _initialize(self, initializer: Callable[..., None], initargs: tuple[Any, ...]) -> None:
        names = getattr(initializer, "__globals__", None)
        before = dict(names) if names is not None else {}
        initializer(*initargs)
        if names is None:
            return
        # A function sent by value has a globals dictionary of its own, so what an initializer sets with
        # `global` must be carried over to the functions of the same module that come later.
        changed = {
            name: value for name, value in names.items() if name not in before or before[name] is not value
        }
        changed.pop("__builtins__", None)
        self._set_by_initializer[initializer.__module__] = changed

    def _share_globals(self, function: Callable[..., Any]) -> None:
        for target in _functions_in(function):
            changed = self._set_by_initializer.get(target.__module__)
            if changed:
                target.__globals__.update(changed)


def _functions_in(function: Any) -> list[Any]:
    """Return the plain functions of a callable: itself, or that of a partial, a bound method, or an instance."""
    if isinstance(function, functools.partial):
        return _functions_in(function.func)
    inner = getattr(function, "__func__", function)
    if not hasattr(inner, "__globals__"):
        inner = type(inner).__call__
    return [inner] if hasattr(inner, "__globals__") else []


def _run(function: Callable[..., Any], calls: list[Call]) -> Report:
    start_s = time.perf_counter()
    outcomes: list[Any] = []
    for args, kwargs in calls:
        try:
            outcomes.append(function(*args, **kwargs))
        except Exception as error:  # the user's error: it belongs to this call, and the chunk continues
            outcomes.append(Failure(_portable(error), traceback.format_exc()))
    return Report(outcomes, time.perf_counter() - start_s)


def _portable(error: Exception) -> Exception:
    # Only needed for failures, which are rare.
    import cloudpickle

    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception as reason:  # pickling the user's exception may raise anything
        replacement: Exception = MaybeEncodingError(reason, error)
        return replacement
    return error
