"""The user's function: loaded where it runs, called with its arguments, its errors annotated with the input."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from skate import cloudpickle
from skate.data.block import tensors
from skate.data.steps.retries import Retries

#: Instances of callable classes in this process, by the class's pickled form: one for each actor.
_instances: dict[bytes, Any] = {}


#: Held while an instance is constructed, so that tasks that begin at the same time share it.
_constructing = threading.RLock()


class Udf:
    """A function or a callable class with its arguments; pickled once, however many tasks it goes to."""

    def __init__(
        self,
        fn: Callable[..., Any] | type,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        constructor_args: tuple[Any, ...] = (),
        constructor_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.is_class = isinstance(fn, type)
        self.name = _name_of(fn)
        self.is_async = _is_async(fn)
        self._given = (fn, args, kwargs or {}, constructor_args, constructor_kwargs or {})
        #: True if all calls in a process come from one thread, although several tasks run there at once.
        self.alone = False
        #: The number of retries of a class's constructor.
        self.retries: Retries | None = None
        self._blob: bytes | None = None
        self._call: Callable[[Any], Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {
            "is_class": self.is_class,
            "name": self.name,
            "is_async": self.is_async,
            "alone": self.alone,
            "retries": self.retries,
            "_blob": self.pickled(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._call = None

    def pickled(self) -> bytes:
        """Pickle the function with its arguments. Raises TypeError naming the value that cannot be pickled."""
        if self._blob is None:
            try:
                self._blob = cloudpickle.dumps(self._given, protocol=5)
            except Exception as error:  # a user's __reduce__ may raise anything
                raise TypeError(f"the function {self.name} cannot be sent to a worker: {error}") from error
        return self._blob

    def load(self) -> Callable[[Any], Any]:
        """Return a function of one argument for a task to call. A callable class is constructed once per process."""
        if self._call is None:
            # Unpickled even in the process that made it, so that the function gets its own copy of its
            # closure, as in a worker.
            fn, args, kwargs, constructor_args, constructor_kwargs = cloudpickle.loads(self.pickled())
            if self.is_class:
                key = self.pickled()
                with _constructing:
                    if key not in _instances:
                        made = self._constructed(fn, constructor_args, constructor_kwargs)
                        _instances[key] = _in_one_thread(made) if self.alone else made
                fn = _instances[key]
            self._call = _bind(fn, args, kwargs)
        return self._call

    def _constructed(self, kind: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tried = 0
        while True:
            try:
                return kind(*args, **kwargs)
            except Exception as error:  # the settings decide about retries
                if self.retries is None or not self.retries.again(error, tried):
                    raise
                tried += 1

    @property
    def kind(self) -> Any:
        """Unpickle the function or the class."""
        return cloudpickle.loads(self.pickled())[0]

    def __repr__(self) -> str:
        return f"<Udf {self.name}>"


def _in_one_thread(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose calls, from any thread, all happen in one thread of their own."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="function")
    return lambda *args, **kwargs: thread.submit(fn, *args, **kwargs).result()


def _bind(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[Any], Any]:
    if not args and not kwargs:
        return fn
    return lambda value: fn(value, *args, **kwargs)


def _name_of(fn: Any) -> str:
    while hasattr(fn, "func"):  # functools.partial
        fn = fn.func
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return "<lambda>" if name == "<lambda>" else str(name)


def _is_async(fn: Any) -> bool:
    call = fn.__call__ if isinstance(fn, type) or not inspect.isroutine(fn) else fn
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


def of_users(error: BaseException) -> BaseException:
    """Return the error, marked as raised by user code."""
    with contextlib.suppress(AttributeError):
        error.of_users_code = True  # type: ignore[attr-defined]
    return error


def wrong_result(text: str) -> ValueError:
    """Return the error of a function that returned a wrong value; its text says all, so it needs no traceback."""
    error = ValueError(text)
    error.of_users_result = True  # type: ignore[attr-defined]
    return error


def explain(error: BaseException, what: str, schema: pa.Schema | None) -> None:
    """Add the function's input to an error as a note; tracebacks print it from Python 3.11 on."""
    of_users(error)
    if not hasattr(error, "add_note"):
        return
    text = what
    if schema is not None:
        text += "; columns: " + ", ".join(
            f"{field.name}: {tensors.type_name(field.type)}" for field in schema
        )
    error.add_note(text)
