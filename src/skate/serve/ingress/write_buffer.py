"""The transport of an HTTP connection as its protocol sees it. The head and the beginning of the body are
sent in one system call.

Closing has two limits. If part of a request is still to come, it is read for a moment and discarded: closing
a socket with unread input makes the kernel reset the connection, and the client would lose the response. And
a client that does not read the last response cannot keep the connection open forever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.serve.replica.crash_responder import Marks

#: How long to discard the rest of a request: after its latest bytes, and in total.
_LINGER_SECONDS, _LINGER_SECONDS_MAX = 2.0, 30.0


def _drop(data: Any) -> None:
    """Discard data: nothing is sent after the last response."""


def marking(write: Callable[[Any], None], marks: Marks, mark: int) -> Callable[[Any], None]:
    """Return a function that takes the mark of a connection off, and writes. A closure is the fastest way to call one."""

    def send(data: Any) -> None:
        marks[mark] = 0
        write(data)

    return send


class WriteBuffer:
    """The transport that a protocol writes to. Other attributes come from the real transport."""

    __slots__ = (
        "_ahead",
        "_held",
        "_hold_next",
        "_lingers",
        "_loop",
        "_soon",
        "_transport",
        "_unread_seconds",
        "_write",
        "came",
        "discards",
        "stopped",
        "write",
    )

    def __init__(
        self,
        transport: Any,
        loop: Any,
        ahead: Callable[[], bool],
        unread_seconds: float | None,
        marks: Marks,
        mark: int,
    ) -> None:
        self._transport = transport
        #: True if the client has sent, or is still to send, more of a request than was answered.
        self._ahead = ahead
        #: How long a client may leave the last response unread; None for no limit.
        self._unread_seconds = unread_seconds
        self._write = marking(transport.write, marks, mark)
        self._loop = loop
        self._hold_next = False
        self._soon = False
        self._held: bytes | None = None
        self._lingers = 0.0
        #: The function that sends data. uvloop's transports themselves join writes of one loop iteration.
        joins = type(transport).__module__.startswith("uvloop")
        self.write = self._write if joins else self._join
        #: True while incoming data is discarded.
        self.discards = False
        #: True if data has arrived since the last check, while it is discarded.
        self.came = False
        #: True while reading has stopped, whatever the protocol requests.
        self.stopped = False

    def stop_reading(self) -> None:
        """Stop reading until `go_on_reading`: enough data is buffered."""
        if not self.stopped:
            self.stopped = True
            self._transport.pause_reading()

    def go_on_reading(self, paused: bool) -> None:
        """Read again, unless the protocol has paused it."""
        self.stopped = False
        if not paused:
            self._transport.resume_reading()

    def resume_reading(self) -> None:
        """Resume reading at the protocol's request, unless reading has stopped."""
        if not self.stopped:
            self._transport.resume_reading()

    @property
    def holds(self) -> bool:
        """True if buffered data has not been sent."""
        return self._held is not None

    def hold(self, soon: bool) -> None:
        """Buffer the next write until more is written; with `soon`, at most until the next loop iteration."""
        self._hold_next = True
        self._soon = soon

    def _join(self, data: Any) -> None:
        """Send data, with the buffered data before it."""
        held = self._held
        if held is not None:
            if data:
                self._held = None
                self._write(held + data)
        elif self._hold_next:
            self._hold_next = False
            self._held = data
            if self._soon:
                self._loop.call_soon(self.flush)
        elif data:
            self._write(data)

    def flush(self) -> None:
        """Write buffered data."""
        held = self._held
        if held is not None:
            self._held = None
            self._write(held)

    def linger(self, seconds: float = _LINGER_SECONDS) -> None:
        """Delay the next `close` for a moment, so that the client sees the response."""
        self._lingers = seconds

    def close(self) -> None:
        """Write buffered data, and close."""
        self.flush()
        if self.discards:
            return  # it is already closing
        if self._transport.is_closing() or not (self._lingers or self._ahead()):
            self._end()
            return
        self.discards = True
        self.write = _drop
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        last = self._loop.time() + _LINGER_SECONDS_MAX - _LINGER_SECONDS
        self._check_later(self._lingers or _LINGER_SECONDS, last)

    def _check_later(self, seconds: float, last: float) -> None:
        """Check whether the client is still sending; stop checking after `last`."""
        self.came = False

        def look() -> None:
            if self.came and self._loop.time() < last and not self._transport.is_closing():
                self._check_later(_LINGER_SECONDS, last)
            else:
                self._end()

        self._loop.call_later(seconds, look)

    def _end(self) -> None:
        """Close once the client has read everything, or has read nothing for too long."""
        if self._transport.is_closing():
            return
        self._transport.close()
        left = self._unsent()
        if left and self._unread_seconds is not None:
            self._loop.call_later(self._unread_seconds, self._end_unread, left)

    def _end_unread(self, before: int) -> None:
        left = self._unsent()
        if left >= before:
            self._transport.abort()
        elif left:
            self._loop.call_later(self._unread_seconds, self._end_unread, left)

    def _unsent(self) -> int:
        try:
            size: int = self._transport.get_write_buffer_size()
        except (AttributeError, RuntimeError):  # the TLS transport is closed
            return 0
        return size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
