"""`@serve.batch`: calls that come close together are worked off as one."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from skate.serve import context
from skate.serve.exceptions import RayServeException


class _Waiting:
    """One call that waits to be part of a batch."""

    __slots__ = ("value", "future", "queue", "around", "size")

    def __init__(self, value: Any, streams: bool, loop: Any, size: int) -> None:
        self.value = value
        self.future: asyncio.Future[Any] = loop.create_future()
        self.queue: asyncio.Queue[Any] | None = asyncio.Queue() if streams else None
        self.around = context.request.get()
        self.size = size


_END = None  # not an object of its own: functions that are sent by value bring copies of what they name


def plan(sizes: list[int], limit: int) -> int:
    """How many of the waiting calls, in order, fit into one batch of `limit`; at least one."""
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if total > limit:
            return max(1, count)
    return len(sizes)


class _Batcher:
    """The batches of one function, or of one method of one object, in one event loop."""

    def __init__(self, function: Any, owner: Any, settings: _Settings, loop: Any) -> None:
        self.function = function
        self.owner = None if owner is None else weakref.ref(owner)
        self.settings = settings
        self.loop = loop
        self.waiting: deque[_Waiting] = deque()
        self.active = 0
        self.streams = inspect.isasyncgenfunction(function)
        self._timer: Any = None
        self._tasks: set[Any] = set()

    def add(self, value: Any) -> _Waiting:
        """A call comes in."""
        measure = self.settings.size_of
        size = 1 if measure is None else measure([value])
        one = _Waiting(value, self.streams, self.loop, size)
        self.waiting.append(one)
        self.look()
        return one

    def look(self) -> None:
        """Begin a batch if it is full or its time has come."""
        settings = self.settings
        while self.waiting and self.active < settings.concurrent:
            sizes = [each.size for each in self.waiting]
            if sum(sizes) < settings.largest:
                if self._timer is None:
                    self._timer = self.loop.call_later(settings.wait_s, self._due)
                return
            self._begin(plan(sizes, settings.largest))

    def _due(self) -> None:
        self._timer = None
        while self.waiting and self.waiting[0].future.cancelled():
            self.waiting.popleft()
        if self.waiting and self.active < self.settings.concurrent:
            self._begin(plan([each.size for each in self.waiting], self.settings.largest))
            self.look()

    def _begin(self, count: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = [self.waiting.popleft() for _ in range(count)]
        batch = [each for each in batch if not each.future.cancelled()]
        if not batch:
            return
        self.active += 1
        around = contextvars.copy_context()
        task = around.run(self.loop.create_task, self._run(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, batch: list[_Waiting]) -> None:
        context.request.set(batch[0].around)
        arguments: tuple[Any, ...] = ([each.value for each in batch],)
        if self.owner is not None:
            arguments = (self.owner(), *arguments)
        try:
            if self.streams:
                await self._stream(batch, self.function(*arguments))
            else:
                results = await self.function(*arguments)
                _check_length(results, len(batch), self.function)
                for each, result in zip(batch, results, strict=True):
                    if not each.future.done():
                        if isinstance(result, BaseException):
                            each.future.set_exception(result)
                        else:
                            each.future.set_result(result)
        except BaseException as error:  # whatever a batch ends in, each of its callers gets it
            for each in batch:
                if each.queue is not None:
                    each.queue.put_nowait(error)
                elif not each.future.done():
                    each.future.set_exception(error)
        finally:
            self.active -= 1
            self.look()

    async def _stream(self, batch: list[_Waiting], generator: Any) -> None:
        """Each value of the generator is a list with one entry for each call; StopIteration in it ends that call's stream."""
        ended: set[int] = set()
        async for values in generator:
            _check_length(values, len(batch), self.function)
            for at, (each, value) in enumerate(zip(batch, values, strict=True)):
                if at in ended:
                    continue
                assert each.queue is not None
                if value is StopIteration or value is StopAsyncIteration:
                    ended.add(at)
                    each.queue.put_nowait(_END)
                else:
                    each.queue.put_nowait((value,))
        for at, each in enumerate(batch):
            if at not in ended:
                assert each.queue is not None
                each.queue.put_nowait(_END)


def _check_length(values: Any, count: int, function: Any) -> None:
    if not isinstance(values, (list, tuple)) and not hasattr(values, "__len__"):
        raise TypeError(
            f"{function.__name__} got a batch and returned a {type(values).__name__}; it returns a list"
        )
    if len(values) != count:
        raise RayServeException(
            f"{function.__name__} got a batch of {count} and returned {len(values)} results; it returns one for each"
        )


class _Settings:
    """What the decorator was given; may be changed while it runs."""

    def __init__(
        self, largest: int, wait_s: float, concurrent: int, size_of: Callable[[list[Any]], int] | None
    ) -> None:
        self.size_of = size_of
        self.set_largest(largest)
        self.set_wait(wait_s)
        if isinstance(concurrent, bool) or not isinstance(concurrent, int):
            raise TypeError(f"max_concurrent_batches is a whole number, not {concurrent!r}")
        if concurrent < 1:
            raise ValueError(f"max_concurrent_batches must be at least 1, not {concurrent}")
        self.concurrent = concurrent

    def set_largest(self, value: Any) -> None:
        """Another size."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
            raise TypeError(f"max_batch_size is a whole number, not {value!r}")
        if value < 1:
            raise ValueError(f"max_batch_size must be at least 1, not {value}")
        self.largest = int(value)

    def set_wait(self, value: Any) -> None:
        """Another time."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"batch_wait_timeout_s is a number of seconds, not {value!r}")
        if value < 0:
            raise ValueError(f"batch_wait_timeout_s must not be negative, not {value}")
        self.wait_s = float(value)


def batch(
    _func: Callable[..., Any] | None = None,
    max_batch_size: int = 10,
    batch_wait_timeout_s: float = 0.01,
    max_concurrent_batches: int = 1,
    batch_size_fn: Callable[[list[Any]], int] | None = None,
) -> Any:
    """Make an async function of a list one that is called with single values.

    It is called with up to `max_batch_size` values (`batch_size_fn` says what each counts for), at the latest
    `batch_wait_timeout_s` seconds after the first of them came, and returns as many. A generator yields such lists.

    Raises TypeError for a function that is not async, TypeError or ValueError for numbers that cannot be.
    """
    if _func is not None and not callable(_func):
        raise TypeError("@serve.batch stands above a function, or takes its settings by name")
    settings = _Settings(max_batch_size, batch_wait_timeout_s, max_concurrent_batches, batch_size_fn)

    def decorate(function: Any) -> Any:
        if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
            raise TypeError(
                f"@serve.batch needs an async function; {getattr(function, '__name__', function)!r} is not async"
            )
        return _wrapped(
            function, _Settings(settings.largest, settings.wait_s, settings.concurrent, batch_size_fn)
        )

    return decorate if _func is None else decorate(_func)


def _wrapped(function: Any, settings: _Settings) -> Any:
    parameters = list(inspect.signature(function).parameters)
    is_method = bool(parameters) and parameters[0] == "self"
    place = f"_serve_batcher_{function.__name__}"

    def find(owner: Any) -> _Batcher:
        holder = function if owner is None else owner
        loop = asyncio.get_running_loop()
        found: _Batcher | None = holder.__dict__.get(place)
        if found is None or found.loop is not loop:
            found = _Batcher(function, owner, settings, loop)
            holder.__dict__[place] = found
        return found

    def take(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Waiting:
        owner = None
        if is_method:
            owner, *rest = args
            args = tuple(rest)
        values = [*args, *kwargs.values()]
        if len(values) != 1:
            raise TypeError(
                f"{function.__name__} is called with one value, which becomes one of a batch, not {len(values)}"
            )
        return find(owner).add(values[0])

    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def stream(*args: Any, **kwargs: Any) -> Any:
            one = take(args, kwargs)
            assert one.queue is not None
            try:
                while True:
                    got = await one.queue.get()
                    if got is _END:
                        return
                    if isinstance(got, BaseException):
                        raise got
                    yield got[0]
            finally:
                one.future.cancel()

        made: Any = stream
    else:

        @functools.wraps(function)
        async def single(*args: Any, **kwargs: Any) -> Any:
            return await take(args, kwargs).future

        made = single
    made.set_max_batch_size = settings.set_largest
    made.set_batch_wait_timeout_s = settings.set_wait
    made._get_max_batch_size = lambda: settings.largest
    made._get_batch_wait_timeout_s = lambda: settings.wait_s
    return made
