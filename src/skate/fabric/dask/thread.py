"""The thread of the engine with its asyncio loop, and the way from it to the node's pump.

Dask's thread never takes the engine lock: it posts calls, which the pump makes. So the node may wait for Dask's thread
while it holds that lock.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from distributed.comm import Comm
from tornado.ioloop import IOLoop
from tornado.iostream import BaseIOStream, IOStream

from skate.wire.limits import start_thread
from skate.wire.pump import Pump

T = TypeVar("T")

#: How long the engine may take to end what it does.
END_SECONDS = 5.0


class Mailbox:
    """Calls from another thread, which the pump's loop makes under the engine lock."""

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._guard = threading.Lock()
        self._closed = False
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        with pump.lock:
            pump.add(self._fd, self._ready)

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have the pump call `call(*arguments)`; after `close`, close the sockets among the arguments instead."""
        with self._guard:
            if not self._closed:
                self._calls.append((call, arguments))
                os.eventfd_write(self._fd, 1)
                return
        _close_sockets(arguments)

    def _ready(self, events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)
        try:
            while self._calls and not self._closed:
                call, arguments = self._calls.popleft()
                call(*arguments)
        finally:
            if self._calls and not self._closed:  # a call has failed; the others are made in the next turn
                os.eventfd_write(self._fd, 1)

    def close(self) -> None:
        """Forget the calls that were not made; no call is made from here on. The engine lock is held."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
        if not self._pump.closed:
            self._pump.remove(self._fd)
        os.close(self._fd)
        for _, arguments in self._calls:
            _close_sockets(arguments)
        self._calls.clear()

    def forked(self) -> None:
        """In a forked child: close the descriptors."""
        if not self._closed:
            self._closed = True
            os.close(self._fd)
            for _, arguments in self._calls:
                _close_sockets(arguments)


def _close_sockets(arguments: tuple[Any, ...]) -> None:
    for each in arguments:
        if isinstance(each, socket.socket):
            each.close()


class EngineThread:
    """A thread that runs an asyncio loop."""

    def __init__(self) -> None:
        self._selector = selectors.EpollSelector()
        self.loop = asyncio.SelectorEventLoop(self._selector)
        self._ended = False
        try:
            self._thread = start_thread(self._run, "skate-dask", " for the engine of its cluster")
        except OSError:
            self.loop.close()
            raise

    def _run(self) -> None:
        loop = self.loop
        try:
            loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks, timeout=1))
            loop.run_until_complete(self._close_streams())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    async def _close_streams(self) -> None:
        """Close what tornado still watches, such as a connection without an answer that was given up."""
        running: Any = IOLoop.current()
        for _, handler in list(running.handlers.values()):
            stream = getattr(handler, "__self__", None)
            if isinstance(stream, BaseIOStream):
                stream.close()

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine in the thread and wait for its result. Raises TimeoutError and cancels it if it takes longer."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result(timeout)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise TimeoutError(f"the engine has not answered within {timeout:g} s") from None
        except BaseException:  # also Ctrl-C and a timeout: the call in the loop has to end
            future.cancel()
            raise

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine in the thread; no-op after `stop`."""
        try:
            asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError:  # the loop is closed
            coroutine.close()

    def stop(self) -> None:
        """Cancel everything and end the thread. Safe to call more than once."""
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(END_SECONDS)

    def forked(self) -> None:
        """In a forked child: let go of the loop's own descriptor, those it watches, and those of its connections.

        A connection whose received bytes wait for a reader is not watched at that moment. The descriptors become
        /dev/null: objects of the parent still name their numbers, and would close those of others.
        """
        if self._ended:
            return
        self._ended = True
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        watched = {key.fd for key in list((self._selector.get_map() or {}).values())}
        for fd in watched | self._connections() | {self._selector.fileno()}:
            os.dup2(nothing, fd, inheritable=False)
        os.close(nothing)

    def _connections(self) -> set[int]:
        """The descriptors of Dask's connections in this loop."""
        streams = [getattr(comm, "stream", None) for comm in list(Comm._instances)]
        return {
            stream.socket.fileno()
            for stream in streams
            if isinstance(stream, IOStream)
            and stream.socket is not None
            and getattr(stream.io_loop, "asyncio_loop", None) is self.loop
        }
