"""`@serve.batch`: processes concurrent calls together, as one batch."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from skate.serve import context
from skate.serve.exceptions import RayServeException


class _Waiting:
    """A call that waits for its batch."""

    __slots__ = ("values", "future", "queue", "around", "came")

    def __init__(self, values: tuple[Any, ...], streams: bool, loop: Any) -> None:
        #: One for each parameter of the function.
        self.values = values
        self.future: asyncio.Future[Any] = loop.create_future()
        self.queue: asyncio.Queue[Any] | None = asyncio.Queue() if streams else None
        self.around = context.request.get()
        self.came: float = loop.time()

    def fail(self, error: BaseException) -> None:
        """Pass an error to the caller."""
        if self.queue is not None:
            self.queue.put_nowait(error)
        elif not self.future.done():
            self.future.set_exception(error)


#: In place of a value, it ends the stream of that call.
USER_CODE_STREAMING_SENTINELS = [StopIteration, StopAsyncIteration]
# Not a separate object: functions that are pickled by value bring copies of the objects they name.
_END = None


class _Batcher:
    """The batches of a function, or of a method of one object, in one event loop."""

    def __init__(self, function: Any, owner: Any, settings: _Settings, loop: Any) -> None:
        self.function = function
        self.owner = None if owner is None else weakref.ref(owner)
        self.settings = settings
        self.loop = loop
        #: Waiting calls by model, because a batch is for one model. The queues are never empty.
        self.lines: dict[str, deque[_Waiting]] = {}
        self.active = 0
        self.streams = inspect.isasyncgenfunction(function)
        self._timer: Any = None
        self._due = 0.0
        self._tasks: set[Any] = set()

    def add(self, values: tuple[Any, ...]) -> _Waiting:
        """Queue a call."""
        one = _Waiting(values, self.streams, self.loop)
        model = one.around.multiplexed_model_id
        line = self.lines.get(model)
        if line is None:
            line = self.lines[model] = deque()
        line.append(one)
        self.look()
        return one

    def look(self, clock: bool = False) -> None:
        """Start full batches and, if the `clock` may have advanced, those that have waited long enough."""
        for model in list(self.lines):
            if self.active >= self.settings.concurrent:
                return
            line = self.lines.pop(model)
            self._look_at(line, clock)
            if line:  # moves to the end of the queue
                self.lines[model] = line

    def _look_at(self, line: deque[_Waiting], clock: bool) -> None:
        settings = self.settings
        while line and self.active < settings.concurrent:
            if not clock and settings.size_of is None and len(line) < settings.largest:
                self._wake_at(line[0].came + settings.wait_s)
                return
            count, full = self._fitting(line)
            if not count:
                return
            due = line[0].came + settings.wait_s
            if not full and not (clock and self.loop.time() >= due):
                self._wake_at(due)
                return
            self._begin([line.popleft() for _ in range(count)])

    def _wake_at(self, due: float) -> None:
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due  # uvloop's handles do not tell their time
        self._timer = self.loop.call_at(due, self._awake)

    def _awake(self) -> None:
        self._timer = None
        self.look(clock=True)

    def _fitting(self, line: deque[_Waiting]) -> tuple[int, bool]:
        """Return the size of the next batch, and True if no more calls would fit. Cancelled calls are
        skipped.
        """
        if any(each.future.cancelled() for each in line):
            staying = [each for each in line if not each.future.cancelled()]
            line.clear()
            line.extend(staying)
        largest = self.settings.largest
        measure = self.settings.size_of
        if measure is None:
            return min(len(line), largest), len(line) >= largest
        count = 0
        values: list[Any] = []
        while count < len(line):
            one = line[count]
            try:
                size = measure([*values, one.values[0]])
                if size > largest and not count:
                    raise RuntimeError(
                        "Size of item is greater than max_batch_size. Please increase the "
                        "max_batch_size or check the implementation of the batch_size_fn: it "
                        f"returned {size} for this value alone, but max_batch_size={largest}"
                    )
            except Exception as error:  # the user's function may raise anything; its caller receives it
                del line[count]
                one.fail(error)
                continue
            if size > largest:
                return count, True
            values.append(one.values[0])
            count += 1
            if size == largest:
                return count, True
        return count, False

    def _begin(self, batch: list[_Waiting]) -> None:
        self.active += 1
        around = contextvars.copy_context()
        task = around.run(self.loop.create_task, self._run(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, batch: list[_Waiting]) -> None:
        try:
            batch = [each for each in batch if not each.future.cancelled()]
            if not batch:
                return
            context.request.set(batch[0].around)
            arguments: tuple[Any, ...] = tuple(
                list(column) for column in zip(*(each.values for each in batch), strict=True)
            )
            if self.owner is not None:
                arguments = (self.owner(), *arguments)
            if self.streams:
                await self._stream(batch, self.function(*arguments))
            else:
                results = await self.function(*arguments)
                _check_length(results, len(batch), self.function)
                for each, result in zip(batch, results, strict=True):
                    if not each.future.done():
                        each.future.set_result(result)
        except BaseException as error:  # each call of the batch receives the exception
            for each in batch:
                each.fail(error)
        finally:
            self.active -= 1
            self.look(clock=True)

    async def _stream(self, batch: list[_Waiting], generator: Any) -> None:
        """Each value of the generator is a list with one entry for each call; StopIteration in it ends that call's stream."""
        ended: set[int] = set()
        async for values in generator:
            _check_length(values, len(batch), self.function)
            for at, (each, value) in enumerate(zip(batch, values, strict=True)):
                if at in ended:
                    continue
                assert each.queue is not None
                if any(value is sentinel for sentinel in USER_CODE_STREAMING_SENTINELS):
                    ended.add(at)
                    each.queue.put_nowait(_END)
                else:
                    each.queue.put_nowait((value,))
            if all(at in ended or each.future.cancelled() for at, each in enumerate(batch)):
                await generator.aclose()  # the caller stopped reading
                break
        for at, each in enumerate(batch):
            if at not in ended:
                assert each.queue is not None
                each.queue.put_nowait(_END)


def _check_length(values: Any, count: int, function: Any) -> None:
    if not isinstance(values, (list, tuple)) and not hasattr(values, "__len__"):
        raise TypeError(f"{function.__name__} must return a list for a batch, got a {type(values).__name__}")
    if len(values) != count:
        raise RayServeException(
            f"Batched function doesn't preserve batch size. The input list has length {count} but the returned list has length "
            f"{len(values)}. {function.__name__} must return one result for each value"
        )


class _Settings:
    """The decorator's settings; they may be changed at run time."""

    def __init__(
        self, largest: int, wait_s: float, concurrent: int, size_of: Callable[[list[Any]], int] | None
    ) -> None:
        self.size_of = size_of
        self.set_largest(largest)
        self.set_wait(wait_s)
        if isinstance(concurrent, bool) or not isinstance(concurrent, int) or concurrent < 1:
            raise TypeError(f"max_concurrent_batches must be an integer >= 1, got {concurrent!r}")
        if size_of is not None and not callable(size_of):
            raise TypeError(f"batch_size_fn must be a callable or None, got {type(size_of)}")
        self.concurrent = concurrent

    def set_largest(self, value: Any) -> None:
        """Set the batch size."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
            raise TypeError(f"max_batch_size must be integer >= 1, got {value!r}")
        if value < 1:
            raise ValueError(f"max_batch_size must be an integer >= 1, got {value}")
        self.largest = int(value)

    def set_wait(self, value: Any) -> None:
        """Set the waiting time."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"batch_wait_timeout_s must be a float >= 0, got {value!r}")
        if value < 0:
            raise ValueError(f"batch_wait_timeout_s must be a float >= 0, got {value}")
        self.wait_s = float(value)


def batch(
    _func: Callable[..., Any] | None = None,
    max_batch_size: int = 10,
    batch_wait_timeout_s: float = 0.01,
    max_concurrent_batches: int = 1,
    batch_size_fn: Callable[[list[Any]], int] | None = None,
) -> Any:
    """Decorate an async function of a list so that it is called with single values.

    The function receives up to `max_batch_size` values and must return as many results. `batch_size_fn`
    computes the size of a list. An incomplete batch starts `batch_wait_timeout_s` seconds after its first
    value arrived, if fewer than `max_concurrent_batches` batches are running. A generator yields lists of
    results.

    Raises TypeError for a function that is not async, TypeError or ValueError for invalid numbers.
    """
    if _func is not None and not callable(_func):
        raise TypeError(
            "@serve.batch can only be used to decorate functions or methods. Pass its settings by name"
        )
    settings = _Settings(max_batch_size, batch_wait_timeout_s, max_concurrent_batches, batch_size_fn)

    def decorate(function: Any) -> Any:
        if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
            raise TypeError(
                f"Functions decorated with @serve.batch must be 'async def'; {getattr(function, '__name__', function)!r} is not"
            )
        return _wrapped(
            function, _Settings(settings.largest, settings.wait_s, settings.concurrent, batch_size_fn)
        )

    return decorate if _func is None else decorate(_func)


def _in_order(
    function: Any, wanted: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments in the order of the parameters. Raises TypeError if they do not match."""
    known = inspect.signature(function).parameters
    signature = inspect.Signature([known[name] for name in wanted])
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"{function.__name__}{signature} is batched, and must be called with single values: {error}"
        ) from None
    bound.apply_defaults()
    return tuple(bound.arguments[name] for name in wanted)


async def _values_of(one: _Waiting) -> AsyncIterator[Any]:
    """Yield the values of a call's stream."""
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

    wanted = parameters[1:] if is_method else parameters
    kinds = [each.kind for each in inspect.signature(function).parameters.values()]
    any_number = inspect.Parameter.VAR_POSITIONAL in kinds

    def take(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Waiting:
        owner = None
        if is_method:
            owner, *rest = args
            args = tuple(rest)
        if kwargs or (len(args) != len(wanted) and not any_number):
            args = _in_order(function, wanted, args, kwargs)
        return find(owner).add(args)

    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        def stream(*args: Any, **kwargs: Any) -> Any:
            return _values_of(take(args, kwargs))  # it joins a batch now, not when it is first read

        made: Any = stream
        made._is_async_generator = True
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
