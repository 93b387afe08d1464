"""Uvicorn's WebSocket protocol with limits on the memory that one client can use, by sending or by not reading."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

#: The number of bytes to parse at once: an empty message takes six bytes on the wire, and forty times that as
#: an ASGI message.
_PART_BYTES = 16 * 1024
#: Fragments of a message are joined when there are this many.
_FRAGMENTS_MAX = 256


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """One connection.

    Reading pauses while the client does not read the data sent to it, including pongs, and while messages wait for the
    application. A message in many fragments takes no more memory than its bytes.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: Bytes read but not parsed yet.
        self._ahead = bytearray()
        self._joined: bytearray | None = None

    def data_received(self, data: bytes) -> None:
        """Parse received data, a part at a time."""
        transport: Any = self.transport
        if transport.discards:
            transport.came = True
            return
        if len(data) <= _PART_BYTES and not self._ahead:
            super().data_received(data)
            return
        self._ahead += data
        self._go_on()

    def _go_on(self) -> None:
        ahead = self._ahead
        while ahead and not self.read_paused and not self._held and not self._closes:
            part = bytes(ahead[:_PART_BYTES])
            del ahead[:_PART_BYTES]
            super().data_received(part)
        if self._closes:
            ahead.clear()

    @property
    def _closes(self) -> bool:
        transport: Any = self.transport
        return bool(transport.discards or transport.is_closing())

    @property
    def _held(self) -> bool:
        return not self.writable.is_set()

    async def receive(self) -> Any:
        """Return the next message for the application."""
        message = await super().receive()
        if self._ahead:
            self._go_on()
        return message

    async def send(self, message: Any) -> None:
        """Send a message of the application. After its close, queued messages are discarded."""
        await super().send(message)
        if self._ahead:
            self._go_on()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read; otherwise answers to its messages, such as pongs,
        would pile up.
        """
        super().pause_writing()
        transport: Any = self.transport
        transport.stop_reading()

    def resume_writing(self) -> None:
        """Resume reading, because the client reads again."""
        super().resume_writing()
        if not self._closes:
            transport: Any = self.transport
            transport.go_on_reading(self.read_paused)
            self._go_on()

    def handle_cont(self, event: Any) -> None:
        """Handle a further fragment of a message."""
        joined = self._joined
        if joined is None and len(self.frames) >= _FRAGMENTS_MAX:
            joined = self._joined = bytearray().join(self.frames)
            self.frames = []
        if joined is None:
            super().handle_cont(event)
            return
        joined += event.data
        if event.fin:
            self._joined = None
            self.frames = [bytes(joined)]
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """Handle a complete message. Invalid text is the client's mistake, so it is not logged."""
        if self.curr_msg_data_type == "text":
            text = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
            self.frames = [text]
            try:
                text.decode()
            except UnicodeDecodeError:
                self.frames = []
                self.conn.send_close(1007)
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        """Close after invalid or too many bytes. A client that still sends sees the code."""
        transport: Any = self.transport
        transport.linger()
        super().handle_parser_exception()
