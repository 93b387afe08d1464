"""A stream of messages over a socket: packed by msgpack, written in batches, never blocking.

msgpack rather than pickle or marshal: bytes from a peer are only ever data, truncated or altered frames end in a clean
error, and a streaming unpacker needs no additional length prefix. Measured on a typical task message: 0.27 us
to pack and 0.24 us to unpack, as fast as marshal.
"""

from __future__ import annotations

import mmap
import socket
from collections.abc import Callable
from typing import Any

import msgpack

READ_BYTES = 1 << 16
#: The most full buffers to read in one go, so that one busy peer does not keep the others waiting.
READS_MAX = 64
FRAME_BYTES_MAX = 1 << 30


class ChannelClosed(ConnectionError):
    """The peer has ended, or sent an invalid message."""


class Channel:
    """One end of a connection; not thread-safe, the owner's lock guards it.

    One that is made without a socket gets it with `connect`.
    """

    __slots__ = (
        "sock",
        "fd",
        "closed",
        "backlog",
        "queued",
        "on_backlog",
        "hurried",
        "_pack",
        "_unpacker",
        "_recv",
        "_send",
        "_buffer",
    )

    sock: socket.socket

    def __init__(self, sock: socket.socket | None = None, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.fd = -1
        self.closed = False
        self.backlog: bytes | memoryview = b""
        self.queued: list[bytes] = []
        #: Called when the socket is full: the polling thread has to write the rest, even if it is already polling.
        self.on_backlog: Callable[[], None] | None = None
        #: True if a flush of the queue is already scheduled.
        self.hurried = False
        self._pack = msgpack.Packer().pack
        self._unpacker = _unpacker(frame_bytes_max)
        if sock is not None:
            self.connect(sock)

    def connect(self, sock: socket.socket) -> None:
        """Use a socket from now on."""
        sock.setblocking(False)
        self.sock = sock
        self.fd = sock.fileno()
        self._recv: Callable[[memoryview], int] = sock.recv_into
        self._send: Callable[[bytes | memoryview], int] = sock.send
        # One permanent buffer: allocating one of this size costs three system calls. A map takes no memory before it is used.
        self._buffer = memoryview(mmap.mmap(-1, READ_BYTES))

    def push(self, message: tuple[Any, ...]) -> None:
        """Queue a message; `flush` writes all that are queued at once."""
        self.queued.append(self._pack(message))

    def flush(self) -> bool:
        """Write queued messages until the socket is full; return True if none is left."""
        # The backlog is written first and separately: copying it for each later message would cost quadratic time.
        if self.backlog and not self._write(self.backlog):
            return False
        if not self.queued:
            return True
        data = b"".join(self.queued)
        self.queued.clear()
        self.hurried = False
        return self._write(data)

    def _write(self, data: bytes | memoryview) -> bool:
        """Write until the socket is full; the rest is the backlog. Return True if it is empty, or if the peer
        no longer reads.
        """
        if self.closed:
            self.backlog = b""
            return True
        try:
            sent = self._send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.closed = True
            self.backlog = b""
            return True
        if sent == len(data):
            self.backlog = b""
            return True
        first = not self.backlog
        self.backlog = memoryview(data)[sent:]
        if first and self.on_backlog is not None:
            self.on_backlog()
        return False

    def read(self) -> list[tuple[Any, ...]]:
        """Return all complete messages that have arrived; raises ChannelClosed at the end of the stream."""
        unpacker = self._unpacker
        buffer = self._buffer
        messages: list[tuple[Any, ...]] = []
        for _ in range(READS_MAX):
            try:
                count = self._recv(buffer)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                raise ChannelClosed(str(error)) from None
            if not count:
                if messages:
                    break  # the next read returns the end of the stream again
                raise ChannelClosed("the peer closed the connection")
            try:
                unpacker.feed(buffer[:count])
                messages += unpacker
            except (ValueError, TypeError, MemoryError, msgpack.exceptions.UnpackException) as error:
                raise ChannelClosed(f"invalid message: {error}") from None
            if count < READ_BYTES:
                break
        for message in messages:
            if type(message) is not tuple or not message or type(message[0]) is not int:
                raise ChannelClosed(f"invalid message: {message!r:.80}")
        return messages

    def raise_limit(self) -> None:
        """Accept larger messages; the peer sends nothing before the next message of this end."""
        self._unpacker = _unpacker(FRAME_BYTES_MAX)

    def close(self) -> None:
        """Close the socket; later writes are dropped."""
        self.closed = True
        self.sock.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<Channel fd={self.fd} {state} queued={len(self.queued)} backlog={len(self.backlog)}>"


def _unpacker(frame_bytes_max: int) -> msgpack.Unpacker:
    return msgpack.Unpacker(use_list=False, max_buffer_size=frame_bytes_max, strict_map_key=False, raw=False)
