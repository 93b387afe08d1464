"""Forwards a TLS connection to the process that serves it, and back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

#: After the serving process has closed, how long to see if the client still sends.
_LINGER_SECONDS = 0.2


class Relay(asyncio.Protocol):
    """Forwards data between a TLS connection and the process that serves it: TLS keys cannot be passed on."""

    def __init__(self, outer: Any) -> None:
        self.outer = outer
        self.inner: Any = None
        self._early: list[bytes] = []
        outer.pause_reading()  # data that still arrives had already been read

    async def connect(self, loop: Any, sock: socket.socket) -> None:
        """Start forwarding."""
        self.inner, _ = await loop.connect_accepted_socket(lambda: _Back(self.outer), sock)
        for each in self._early:
            self.inner.write(each)
        self._early.clear()
        if self.outer.is_closing():
            self.inner.close()
        else:
            self.outer.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.outer.discards:
            self.outer.came = True
        elif self.inner is None:
            self._early.append(data)
        else:
            self.inner.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.inner is not None:
            self.inner.close()

    def pause_writing(self) -> None:
        if self.inner is not None:
            self.inner.pause_reading()

    def resume_writing(self) -> None:
        if self.inner is not None:
            with contextlib.suppress(RuntimeError):
                self.inner.resume_reading()


class _Back(asyncio.Protocol):
    def __init__(self, outer: Any) -> None:
        self.outer = outer

    def data_received(self, data: bytes) -> None:
        self.outer.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.outer.linger(
            _LINGER_SECONDS
        )  # the client may be in the middle of a body that was answered already
        self.outer.close()

    def pause_writing(self) -> None:
        self.outer.pause_reading()

    def resume_writing(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.outer.resume_reading()
