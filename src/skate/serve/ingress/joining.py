"""The transport of an HTTP connection, as its protocol sees it: the head and the first of the body leave in one system call."""

from __future__ import annotations

from typing import Any

#: After an answer that refuses a body, so long is what still comes thrown away: closing at once would take the answer from the
#: client, which is still sending.
_LINGER_SECONDS = 2.0


class Joining:
    """The transport that a protocol writes to. Other attributes come from the real transport."""

    __slots__ = (
        "_held",
        "_hold_next",
        "_lingers",
        "_loop",
        "_soon",
        "_transport",
        "_write",
        "discards",
        "stopped",
        "write",
    )

    def __init__(self, transport: Any, loop: Any) -> None:
        self._transport = transport
        self._write = transport.write
        self._loop = loop
        self._hold_next = False
        self._soon = False
        self._held: bytes | None = None
        self._lingers = False
        #: Sends data; uvloop's transports join by themselves what is written in one round of the loop.
        self.write = transport.write if type(transport).__module__.startswith("uvloop") else self._join
        #: True while what comes is thrown away.
        self.discards = False
        #: True while no more is read, whatever the protocol wants.
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
        """Read again, as far as the protocol goes."""
        if not self.stopped:
            self._transport.resume_reading()

    @property
    def holds(self) -> bool:
        """True if something is kept that has not been sent."""
        return self._held is not None

    def hold(self, soon: bool) -> None:
        """Buffer the next write until more is written; with `soon`, at most until the next loop iteration."""
        self._hold_next = True
        self._soon = soon

    def _join(self, data: Any) -> None:
        """Send, with what was kept before it."""
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

    def linger(self) -> None:
        """Have the next `close` wait a moment for the client to see the answer."""
        self._lingers = True

    def close(self) -> None:
        """Write buffered data, and close."""
        self.flush()
        if not self._lingers or self._transport.is_closing():
            self._transport.close()
            return
        self._lingers = False
        self.discards = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        self._loop.call_later(_LINGER_SECONDS, self._transport.close)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
