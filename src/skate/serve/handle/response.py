"""Responses to requests of a handle, which may not have arrived yet."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import skate
from skate.exceptions import ActorDiedError, RayTaskError, TaskCancelledError
from skate.serve.exceptions import RayServeException, RequestCancelledError, RequestNotAcceptedError
from skate.serve.routing.call import Call
from skate.serve.routing.router import Router, stop

#: Errors after which the router may send the request to another replica.
_NOT_ANSWERED = (ActorDiedError, RequestNotAcceptedError)
#: In place of the response of a replica that did not begin a broadcast request.
_REFUSED = object()


class _Answer:
    """Base of both kinds of responses."""

    def __init__(self, call: Call, router: Router) -> None:
        self._call = call
        self._router = router
        #: True if it had already ended when it was cancelled.
        self._ended_before = False
        #: True if its ref was handed out, so that it must outlive this object.
        self._handed_out = False

    @property
    def request_id(self) -> str:
        """The id of the request."""
        request_id: str = self._call.meta[0]
        return request_id

    @property
    def by_reference(self) -> bool:
        """True: a large response stays where it is until it is read."""
        return True

    def cancel(self) -> None:
        """Cancel the request: withdraw it if it waits, or raise CancelledError in its coroutine if it runs."""
        call = self._call
        if call.cancelled:
            return
        self._ended_before = call.over
        self._router.withdraw(call)
        if call.ref is not None:
            stop(call.ref)

    def cancelled(self) -> bool:
        """True if the request was cancelled."""
        return self._call.cancelled

    def _sent(self, timeout_s: float | None) -> Any:
        """Block this thread until a replica has the request; return the ref of the response."""
        call = self._call
        if not call.settled and not call.wait(timeout_s):
            raise TimeoutError(
                "Timed out resolving to ObjectRef. No replica had room for the request within "
                f"{timeout_s} s; it is still waiting"
            )
        if call.error is not None:
            raise call.error
        return call.ref

    async def _sent_async(self) -> Any:
        call = self._call
        if not call.settled:
            loop = asyncio.get_running_loop()
            arrived = loop.create_future()
            call.when_settled(lambda: _wake(loop, arrived))
            try:
                await arrived
            except asyncio.CancelledError:
                self.cancel()
                raise
        if call.error is not None:
            raise call.error
        return call.ref

    def _has_died(self, ref: Any) -> bool:
        """Return True if the request ended with its replica, and False if it is being sent to another one."""
        if self._call.ref is ref:
            whole = ref if isinstance(ref, skate.ObjectRef) else ref.completed()
            # The router may learn of the end at the same moment in another thread, so wait for that thread.
            with whole._process.lock:
                pass
        return self._call.ref is ref or self._call.cancelled

    def _explained(self, error: Exception) -> Exception:
        """Return the error to raise: another one if the request was not begun, because an argument of it has failed."""
        if not (isinstance(error, RayTaskError) and error.input_failed):
            return error
        name = self._router.key[1]
        return RayServeException(
            f"The request to deployment {name!r} was not begun, because the actor that computes one of its arguments has "
            f"died: {error}"
        )

    def _not_in_a_loop(self, skip: bool) -> None:
        if skip:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise RuntimeError(
            "Sync methods should not be called from within an `asyncio` event loop. Use `await response` "
            "instead, or `async for` "
            "of a stream; or block in a function that is not async"
        )

    def __reduce__(self) -> Any:
        raise RayServeException(
            "`DeploymentResponse` is not serializable. Pass it as an argument of another handle call, not inside a list or an "
            "object; or pass its result"
        )


def _wake(loop: Any, future: Any) -> None:
    def settle() -> None:
        if not future.done():
            future.set_result(None)

    if loop.is_closed():
        return
    if getattr(loop, "_thread_id", None) == threading.get_ident():
        loop.call_soon(settle)
    else:
        loop.call_soon_threadsafe(settle)


class DeploymentResponse(_Answer):
    """The response to one request: `await` it, call `.result()`, or pass it to another handle call."""

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        call = self._call
        while True:
            ref = call.ref if call.ref is not None else await self._sent_async()
            try:
                value = await ref
            except asyncio.CancelledError:
                self.cancel()
                raise
            except TaskCancelledError:
                raise RequestCancelledError(self.request_id) from None
            except _NOT_ANSWERED as error:
                if self._has_died(ref):
                    raise self._explained(error) from error
            else:
                if call.cancelled and not self._ended_before:  # its code caught the CancelledError
                    raise RequestCancelledError(self.request_id)
                return value

    def result(self, *, timeout_s: float | None = None, _skip_asyncio_check: bool = False) -> Any:
        """Wait up to `timeout_s` seconds for the response, and return it.

        Raise TimeoutError after that, RequestCancelledError if it was cancelled, and RuntimeError in async code.
        """
        self._not_in_a_loop(_skip_asyncio_check)
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            ref = self._call.ref or self._sent(timeout_s)
            if until is not None:
                timeout_s = max(0.0, until - time.monotonic())
            try:
                value = skate.get(ref, timeout=timeout_s)
            except TaskCancelledError:
                raise RequestCancelledError(self.request_id) from None
            except _NOT_ANSWERED as error:
                if self._has_died(ref):
                    raise self._explained(error) from error
            else:
                if self._call.cancelled and not self._ended_before:
                    raise RequestCancelledError(self.request_id)
                return value

    async def _to_object_ref(self) -> Any:
        """Return the ref of the response."""
        return await self._sent_async()

    def _to_object_ref_sync(
        self, _timeout_s: float | None = None, _allow_running_in_asyncio_loop: bool = False
    ) -> Any:
        """Return the ref of the response."""
        self._not_in_a_loop(_allow_running_in_asyncio_loop)
        return self._sent(_timeout_s)

    def _when_known(self, then: Callable[[], None]) -> None:
        self._call.when_settled(then)


class DeploymentResponseGenerator(_Answer):
    """The values of a streaming request as they arrive. Iterate with `for` or `async for`."""

    #: True once a value was asked for. The request of a stream that nobody reads runs on when its response is dropped.
    _is_read = False

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        call = self._call
        self._is_read = True
        while True:
            stream = call.ref if call.ref is not None else await self._sent_async()
            try:
                ref = await stream.__anext__()
                return await ref
            except StopAsyncIteration:
                if call.cancelled and not self._ended_before:
                    raise RequestCancelledError(self.request_id) from None
                raise
            except asyncio.CancelledError:
                self.cancel()
                raise
            except TaskCancelledError:
                raise RequestCancelledError(self.request_id) from None
            except _NOT_ANSWERED:
                if self._has_died(stream):
                    raise

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._not_in_a_loop(False)
        self._is_read = True
        while True:
            stream = self._call.ref or self._sent(None)
            try:
                return skate.get(next(stream))
            except StopIteration:
                if self._call.cancelled and not self._ended_before:
                    raise RequestCancelledError(self.request_id) from None
                raise
            except TaskCancelledError:
                raise RequestCancelledError(self.request_id) from None
            except _NOT_ANSWERED:
                if self._has_died(stream):
                    raise

    def result(self, *, timeout_s: float | None = None, _skip_asyncio_check: bool = False) -> Any:
        """Raise TypeError, because a stream has no single result."""
        raise TypeError(
            "`DeploymentResponseGenerator` doesn't support `.result()`. Iterate over it, or do not set stream=True"
        )

    async def _to_object_ref_gen(self) -> Any:
        """Return the generator of refs of the values."""
        self._handed_out = True
        return await self._sent_async()

    def _to_object_ref_gen_sync(
        self, _timeout_s: float | None = None, _allow_running_in_asyncio_loop: bool = False
    ) -> Any:
        """Return the generator of refs of the values."""
        self._not_in_a_loop(_allow_running_in_asyncio_loop)
        self._handed_out = True
        return self._sent(_timeout_s)

    def __await__(self) -> Any:
        raise TypeError(
            "`DeploymentResponseGenerator` cannot be awaited directly. Use `async for`, or `await response.__anext__()`"
        )

    def __del__(self) -> None:
        call = getattr(self, "_call", None)
        if call is None or self._handed_out or not self._is_read:
            return
        if not call.cancelled and call.ref is not None and not call.ref.is_finished():
            try:
                self.cancel()
            except Exception:  # the interpreter may be shutting down
                return


class DeploymentBroadcastResponse:
    """The responses of all replicas to one request."""

    def __init__(self, answers: list[Any], loop: Any = None) -> None:
        self._answers = answers

    def __await__(self) -> Generator[Any, None, list[Any]]:
        return self.results_async().__await__()

    def results(self, *, timeout_s: float | None = None, return_exceptions: bool = False) -> list[Any]:
        """Return all responses, in no particular order. With `return_exceptions`, errors are returned in their place.

        Raise TimeoutError if they have not all arrived within `timeout_s` seconds.
        """
        for each in self._answers:
            each._not_in_a_loop(False)
        _checked_timeout(timeout_s)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        found: list[Any] = []
        for each in self._answers:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                found.append(each.result(timeout_s=left))
            except RequestNotAcceptedError:  # it is about to end, and no longer one of the replicas
                continue
            except Exception as error:  # user code may raise anything
                if not return_exceptions:
                    raise
                found.append(error)
        return found

    result = results

    async def results_async(
        self, *, timeout_s: float | None = None, return_exceptions: bool = False
    ) -> list[Any]:
        """Return all responses in async code; see `results`."""
        _checked_timeout(timeout_s)
        answers = (_accepted(each) for each in self._answers)
        gathered = asyncio.gather(*answers, return_exceptions=return_exceptions)
        try:
            return [each for each in await asyncio.wait_for(gathered, timeout_s) if each is not _REFUSED]
        except asyncio.TimeoutError:
            raise TimeoutError(
                f"Timed out waiting for broadcast results. Not all {len(self._answers)} replicas answered within {timeout_s} s"
            ) from None

    def cancel(self) -> None:
        """Cancel all requests."""
        for each in self._answers:
            each.cancel()


async def _accepted(answer: Any) -> Any:
    """Return the response of a replica, or `_REFUSED` if the replica is about to end."""
    try:
        return await answer._wait()
    except RequestNotAcceptedError:
        return _REFUSED


def _checked_timeout(timeout_s: float | None) -> None:
    if timeout_s is not None and timeout_s < 0:
        raise ValueError(f"timeout_s must be None or non-negative. It is {timeout_s}")
