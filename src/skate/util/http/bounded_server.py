"""uvicorn for small servers (REST API, dashboard), with limits for clients that have no token.

uvicorn itself waits for a head without a limit of time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

#: The most connections at once, and requests at work; further ones are answered with 503.
CONNECTIONS_MAX = 100
HEAD_BYTES_MAX = 64 << 10
#: A connection is closed after one to two such times without a complete head.
HEAD_SECONDS = 30.0
KEEP_ALIVE_SECONDS = 30


def configured(app: Callable[..., object], ws: object = "none", **settings: object) -> uvicorn.Config:
    """Return the settings of a server with these limits; `ws` is uvicorn's setting for WebSockets."""
    config: Any = uvicorn.Config  # which wants classes for `http` and `ws`, and calls whatever it has
    made: uvicorn.Config = config(
        app, http=BoundedProtocol, ws=ws, lifespan="off", log_level="warning", timeout_keep_alive=KEEP_ALIVE_SECONDS,
        limit_concurrency=CONNECTIONS_MAX, **settings,
    )  # fmt: skip
    return made


class QuietServer(uvicorn.Server):
    """A server that wakes up for requests, for its end, and once a second; that of uvicorn wakes up ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._is_ending = False
        self._ended: Callable[[], object] = _nothing
        super().__init__(config)

    @property
    def should_exit(self) -> bool:
        """True once the server has to end; it can be set in any thread."""
        return self._is_ending

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        self._is_ending = value
        if value:
            self._ended()

    async def main_loop(self) -> None:
        """Wait for the end; each second, set the date of answers."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._ended = lambda: loop.call_soon_threadsafe(ended.set)
        seconds = 0
        try:
            while not await self.on_tick(
                10 * seconds
            ):  # it counts tenths, and sets the date at each tenth one
                seconds += 1
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), 1.0)
        finally:
            self._ended = _nothing


def _nothing() -> None:
    """Do nothing: the server waits for no end."""


class BoundedProtocol(asyncio.Protocol):
    """One connection: passes everything to uvicorn's protocol, and closes the connection of a client without a request."""

    def __init__(self, **given: object) -> None:
        # It shows a guard a target that is a whole URL. httptools shows the path alone.
        protocol: Any = H11Protocol
        self._inner = protocol(**given)
        self._transport: Any = None
        self._timer: asyncio.TimerHandle | None = None
        #: The request at the last look, or None.
        self._seen: Any = None
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle a new connection, which has to send a head soon."""
        self._transport = transport
        self._inner.connection_made(transport)
        self._later(self._look)

    def data_received(self, data: bytes) -> None:
        """Handle bytes; those that complete no head count towards its limit."""
        before = self._inner.cycle
        wants_head = before is None or (before.response_complete and not before.more_body)
        self._inner.data_received(data)
        if self._inner.cycle is not before:
            self._head_bytes = 0
        elif wants_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._transport.abort()

    def eof_received(self) -> bool | None:
        """Handle the end of the client's bytes."""
        closes: bool | None = self._inner.eof_received()
        return closes

    def connection_lost(self, error: Exception | None) -> None:
        """Handle the end of the connection."""
        if self._timer is not None:
            self._timer.cancel()
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        """Stop writing: the client does not read."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Write again."""
        self._inner.resume_writing()

    def _later(self, call: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, call)

    def _look(self) -> None:
        """Close the connection if it has no request, and none has arrived since the last look."""
        if self._transport.get_protocol() is not self:  # a WebSocket now
            return
        cycle = self._inner.cycle
        if cycle is self._seen and (cycle is None or cycle.response_complete):
            self._transport.close()
            self._later(self._transport.abort)  # if the client does not read the last response
        else:
            self._seen = cycle
            self._later(self._look)
