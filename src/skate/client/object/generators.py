"""Streams of results: one ref per value, while the generator still runs."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from skate.client.core.stream import Stream
from skate.client.object.blocking_wait import wait_blocked
from skate.client.object.object_ref import ObjectRef
from skate.client.task.submission import send
from skate.protocol import messages as m
from skate.wire import values

if TYPE_CHECKING:
    from skate.client.core.client_core import ClientCore


class ObjectRefGenerator:
    """Iterates over the refs of a streaming task's values in order, as they are produced.

    `next` and `async for` wait until the next value is ready, and return its ref. If the task fails, the last ref raises the
    error.
    """

    def __init__(self, generator_ref: ObjectRef[Any], worker: Any = None) -> None:
        self._generator_ref = generator_ref
        self._stream: Stream = worker

    def __iter__(self) -> ObjectRefGenerator:
        return self

    def __next__(self) -> ObjectRef[Any]:
        return self._next_sync(None)

    def _next_sync(self, timeout_s: float | None = None) -> ObjectRef[Any]:
        """Return the next ref, or a nil ref if `timeout_s` seconds pass first. Raise StopIteration at the end."""
        stream = self._stream
        process: Any = stream.process
        with process.lock:
            if not stream.ready and not stream.moved():
                wait_blocked(process, stream.moved, timeout_s, self)
                if not stream.moved():
                    return ObjectRef.nil()
            ref = stream.take()
            if stream.backpressure:
                process.link.flush()
            if ref is None:
                raise StopIteration
            return ref

    def __aiter__(self) -> ObjectRefGenerator:
        return self

    def __anext__(self) -> Coroutine[Any, Any, ObjectRef[Any]]:
        return self._next_async(None)

    async def _next_async(self, timeout_s: float | None = None) -> ObjectRef[Any]:
        """Return the next ref, or a nil ref if `timeout_s` seconds pass first. Raise StopAsyncIteration at the end."""
        import asyncio  # async code has imported it already

        stream = self._stream
        process: Any = stream.process
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        while True:
            with process.lock:
                if stream.moved():
                    ref = stream.take()
                    if stream.backpressure:
                        process.link.flush()
                    break
                arrived = loop.create_future()
                stream.waiters.append(partial(_wake, loop, arrived))
                process.link.flush()
                process.pump.wake_background()
            if deadline is None:
                await arrived
            else:
                await asyncio.wait([arrived], timeout=max(0, deadline - loop.time()))
                if not arrived.done():
                    return ObjectRef.nil()
        if ref is None:
            raise StopAsyncIteration
        return ref

    def completed(self) -> ObjectRef[Any]:
        """Return a ref that is ready when the whole task has ended.

        Its value is None. It raises an error only if the task did not run, was cancelled, or died; an exception of the
        generator is raised by the last ref of the stream.
        """
        return self._generator_ref

    def next_ready(self) -> bool:
        """Return True if `next` would return a ref immediately."""
        process: Any = self._stream.process
        with process.lock:
            return bool(self._stream.ready)

    def is_finished(self) -> bool:
        """Return True if the task has ended and every ref was taken."""
        process: Any = self._stream.process
        with process.lock:
            return self._stream.count is not None and not self._stream.ready

    def close(self) -> None:
        """Cancel the task and drop what has not been taken."""
        process: Any = self._stream.process
        with process.lock:
            if process.closed:
                self._stream.drop()
                return
            process.send(m.Cancel(m.CANCEL, self._stream.task_id, False, True))
            self._stream.abandon()  # cancel does not interrupt a method that waits for its reader
            process.link.flush()

    def send(self, value: Any) -> Any:
        """Raise NotImplementedError: a remote generator takes no values."""
        raise _unsupported("send")

    def throw(self, value: Any) -> Any:
        """Raise NotImplementedError: a remote generator takes no exceptions; use ray.cancel."""
        raise _unsupported("throw")

    async def asend(self, value: Any) -> Any:
        """Raise NotImplementedError: a remote generator takes no values."""
        raise _unsupported("asend")

    async def athrow(self, value: Any) -> Any:
        """Raise NotImplementedError: a remote generator takes no exceptions; use ray.cancel."""
        raise _unsupported("athrow")

    async def aclose(self) -> None:
        """Raise NotImplementedError; use ray.cancel."""
        raise _unsupported("aclose")

    def task_id(self) -> Any:
        """Return the id of the streaming task."""
        return self._generator_ref.task_id()

    def __del__(self) -> None:
        # The stream is missing if unpickling failed halfway, or if none was ever given.
        stream = self.__dict__.get("_stream")
        if stream is not None and stream.count is None:
            stream.process.abandon(stream)

    def __getstate__(self) -> Any:
        raise TypeError(
            "You cannot return or pass a generator to other task: an ObjectRefGenerator stays in its process; send the refs "
            "it yields, or collect them"
        )

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._generator_ref.hex()})"


def _wake(loop: Any, arrived: Any) -> None:
    """Wake a coroutine that waits for a stream, unless its loop has ended meanwhile."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(lambda: arrived.done() or arrived.set_result(None))


def _unsupported(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"`gen.{name}` is not supported: the generator runs in another process; ray.cancel ends it"
    )


class DynamicObjectRefGenerator:
    """The value of a `num_returns="dynamic"` ref: the refs of all the generator's values."""

    def __init__(self, refs: list[ObjectRef[Any]]) -> None:
        self._refs = refs

    def __iter__(self) -> Any:
        while self._refs:
            yield self._refs.pop(0)

    def __len__(self) -> int:
        return len(self._refs)


class Gathered(Stream):
    """A stream without a reader. At its end, its refs become the value of the whole task's ref."""

    __slots__ = ()

    def settle(self, last: ObjectRef[Any] | None) -> None:
        """Give the whole task's ref its value: the refs of all values, including the error if the generator raised one."""
        whole, process = self.whole, self.process
        refs = [*self.ready]
        self.ready.clear()
        if last is not None and not self.raised():
            super().settle(last)
        else:
            packed = values.pack(DynamicObjectRefGenerator(refs))
            for ref in refs:
                process.escape(ref)
                if ref._kind == m.ERROR:
                    ref._forgive()
            whole._held = refs
            whole._value, whole._kind = packed.joined(), m.INLINE


def open_gathered(process: ClientCore, actor_id: bytes, key: bytes, packed: Any, site: Any) -> ObjectRef[Any]:
    """Submit a call with `num_returns="dynamic"`. The lock is held."""
    stream = Gathered(process.next_task_id(), process, site)
    _open(process, actor_id, key, packed, stream)
    return stream.whole


def open_stream(
    process: ClientCore, actor_id: bytes, key: bytes, packed: Any, site: Any, backpressure: bool
) -> ObjectRefGenerator:
    """Submit a streaming call, whose generator waits for its reader if there is backpressure. The lock is held."""
    task_id = process.next_task_id()
    stream = Stream(task_id, process, site, backpressure)
    _open(process, actor_id, key, packed, stream)
    return ObjectRefGenerator(stream.whole, stream)


def _open(process: ClientCore, actor_id: bytes, key: bytes, packed: Any, stream: Stream) -> None:
    process.streams[stream.task_id] = stream
    send(process, stream.task_id, actor_id, key, packed)
