"""Calls of a deployment in the same process, which run as coroutines on its loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import threading
from collections import deque
from typing import Any

import skate
from skate.serve import context, tracing
from skate.serve.exceptions import BackPressureError, RequestCancelledError
from skate.serve.handle.response import DeploymentResponse, DeploymentResponseGenerator
from skate.serve.replica.child_calls import release
from skate.serve.replica.concurrency_limiter import ConcurrencyLimiter
from skate.serve.replica.servable import Servable
from skate.serve.routing.call import Call
from skate.serve.routing.counter_page import CounterPage
from skate.serve.routing.table import Key
from skate.util.debug import as_of_a_task

#: The number of values by which a stream may run ahead of its reader.
_AHEAD = 64


class Inner:
    """A deployment inside a replica of another one: its object, its limit, and its router."""

    #: Creates its counters, which other processes may read.
    counters: Any = CounterPage
    #: Stands in for the attribute of a watch, for handles.
    closed = False
    #: Stand in for the attributes of a router, for handles.
    populated = True
    waiting: tuple[Any, ...] = ()

    def __init__(self, key: Key, servable: Servable, config: Any, place: context.ReplicaContext) -> None:
        self.key = key
        self.servable = servable
        self.config = config
        self.place = place
        self.counter_page = self.counters()
        self.limiter = ConcurrencyLimiter(self.counter_page, config.max_ongoing_requests)
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._targets = {"": self}

    def answers(self, call: Call) -> Any:
        """Create the response of a call."""
        return (LocalGenerator if call.stream else LocalResponse)(call, self)  # type: ignore[arg-type]

    def submit(self, call: Call, again: bool = False) -> None:
        """Start a request; errors are passed to the call."""
        if threading.get_ident() == self._thread:
            self._begin(call)
        else:
            self.loop.call_soon_threadsafe(self._begin, call, context=contextvars.copy_context())

    def _send(self, target: Any, call: Call) -> None:
        self.submit(call)

    def withdraw(self, call: Call) -> None:
        """Cancel a request that may or may not have begun."""
        call.cancelled = True
        if threading.get_ident() == self._thread:
            self._cancel(call)
        else:
            self.loop.call_soon_threadsafe(self._cancel, call)

    def _cancel(self, call: Call) -> None:
        if call.task is not None:
            call.task.cancel()
        elif not call.settled:
            call.settle(None, RequestCancelledError(call.meta[0]))

    def _begin(self, call: Call) -> None:
        if call.cancelled or call.settled:
            self._cancel(call)
            return
        call.task = self.loop.create_task(self._run(call))

    def failure(self, method: str, error: BaseException) -> BaseException:
        """Return the caller's exception for an error of user code, the same as from another process."""
        return as_of_a_task(f"{self.key[1]}.{method}", error)

    async def _run(self, call: Call) -> None:
        meta, limiter = call.meta, self.limiter
        around = context.of_call(meta, self.key[1])
        context.request.set(around)
        span = tracing.of_work(meta, self.place.replica_id)
        context.inner.set(self.place)
        entered, failed = 0.0, True
        try:
            if not limiter.enter_now():
                limit = self.config.max_queued_requests
                if limiter.full and 0 <= limit <= limiter.waiting:
                    pressure = self.config.backpressure_config
                    raise BackPressureError(
                        limiter.waiting, limit, pressure.status_code, pressure.retry_after_s
                    )
                await limiter.enter()
            entered = self.loop.time()
            context.servable.set(self.servable.object)
            args = [await each if isinstance(each, skate.ObjectRef) else each for each in call.args]
            kwargs = {
                key: await each if isinstance(each, skate.ObjectRef) else each
                for key, each in call.kwargs.items()
            }
            method = self.servable.method(meta[1])
            value = None
            if call.stream:
                async for each in self.servable.stream(method, tuple(args), kwargs):
                    await call.values.put(each)
            elif method.is_async and not method.is_generator:
                value = await method.call(*args, **kwargs)
            else:
                value = await self.servable.call(method, tuple(args), kwargs)
            if inspect.isgenerator(value) or inspect.isasyncgen(value):
                raise self.servable.wrongly_called(method)
            failed = False
        except asyncio.CancelledError:
            _end(call, None, RequestCancelledError(meta[0]))
            raise
        except Exception as error:  # user code may raise anything; report it as another process would
            _end(call, None, self.failure(meta[1], error) if entered else error)
        else:
            _end(call, value, None)
        finally:
            if entered:
                limiter.leave(self.loop.time() - entered, failed)
            if span is not None:
                span.end(call.error)
            if around.children:
                release(around.children, failed)


def _end(call: Call, value: Any, error: BaseException | None) -> None:
    call.over = True
    call.settle(value, error)
    call.end_span()
    call.forget()
    if call.values is not None:
        call.values.finish(error)


class Values:
    """A queue of values between a generator and its reader, both on one loop."""

    def __init__(self) -> None:
        self.done = False
        self._values: deque[Any] = deque()
        self._error: BaseException | None = None
        self._arrived = asyncio.Event()
        self._free = asyncio.Event()

    async def put(self, value: Any) -> None:
        """Add a value, and wait while the reader is too far behind."""
        self._values.append(value)
        self._arrived.set()
        while len(self._values) >= _AHEAD:
            self._free.clear()
            await self._free.wait()

    def finish(self, error: BaseException | None) -> None:
        """Mark the end of the values."""
        self.done = True
        self._error = error
        self._arrived.set()

    async def take(self) -> Any:
        """Return the next value. Raise StopAsyncIteration after the last one, or the generator's exception."""
        while not self._values:
            if self.done:
                if self._error is None:
                    raise StopAsyncIteration
                raise self._error
            self._arrived.clear()
            await self._arrived.wait()
        self._free.set()
        return self._values.popleft()


class LocalResponse(DeploymentResponse):
    """The response of a deployment in this process."""

    @property
    def by_reference(self) -> bool:
        """False: the response is the returned object itself."""
        return False

    async def _wait(self) -> Any:
        call = self._call
        if not call.settled:
            task = call.task
            if task is None or task.get_loop() is not asyncio.get_running_loop():
                return await self._sent_async()
            try:
                await task
            except asyncio.CancelledError:
                if not call.cancelled:  # the waiting task was cancelled, not the request
                    raise
                raise RequestCancelledError(self.request_id) from None
        if call.error is not None:
            raise call.error
        return call.ref

    def cancel(self) -> None:
        """Cancel the request."""
        if not self._call.cancelled:
            self._router.withdraw(self._call)

    def result(self, *, timeout_s: float | None = None, _skip_asyncio_check: bool = False) -> Any:
        """Wait up to `timeout_s` seconds for the response, and return it.

        Raise TimeoutError after that, RequestCancelledError if it was cancelled, and RuntimeError in async code.
        """
        self._not_in_a_loop(_skip_asyncio_check)
        call = self._call
        if not call.wait(timeout_s):
            raise TimeoutError(f"the request was not answered within {timeout_s} s; it is still running")
        if call.error is not None:
            raise call.error
        return call.ref

    async def _to_object_ref(self) -> Any:
        """Put the response into the object store; return its ref."""
        return skate.put(await self._wait())

    def _to_object_ref_sync(
        self, _timeout_s: float | None = None, _allow_running_in_asyncio_loop: bool = False
    ) -> Any:
        """Put the response into the object store, from a thread; return its ref."""
        return skate.put(
            self.result(timeout_s=_timeout_s, _skip_asyncio_check=_allow_running_in_asyncio_loop)
        )


class LocalGenerator(DeploymentResponseGenerator):
    """The values of a streaming request to a deployment in this process."""

    def __init__(self, call: Call, router: Any) -> None:
        super().__init__(call, router)
        call.values = Values()

    async def __anext__(self) -> Any:
        values = self._call.values
        loop = self._router.loop  # type: ignore[attr-defined]
        if loop is not asyncio.get_running_loop():
            future = asyncio.run_coroutine_threadsafe(_next_of(values), loop)
            try:
                return await asyncio.wrap_future(future)
            except _Over:
                raise StopAsyncIteration from None
        try:
            return await values.take()
        except asyncio.CancelledError:
            self.cancel()
            raise

    def __next__(self) -> Any:
        self._not_in_a_loop(False)
        call = self._call
        loop = self._router.loop  # type: ignore[attr-defined]
        try:
            return asyncio.run_coroutine_threadsafe(_next_of(call.values), loop).result()
        except _Over:
            raise StopIteration from None
        except concurrent.futures.CancelledError:
            raise RequestCancelledError(self.request_id) from None

    def cancel(self) -> None:
        """Cancel the request."""
        if not self._call.cancelled:
            self._router.withdraw(self._call)

    def __del__(self) -> None:
        call = getattr(self, "_call", None)
        if call is not None and not call.cancelled and not call.settled:
            try:
                self.cancel()
            except Exception:  # the loop may have ended, and the work with it
                return


class _Over(Exception):
    """Raised at the end of the values, because StopAsyncIteration cannot pass through a future."""


async def _next_of(values: Values) -> Any:
    try:
        return await values.take()
    except StopAsyncIteration:
        raise _Over from None
