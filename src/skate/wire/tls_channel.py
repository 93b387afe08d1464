"""A channel over a socket with TLS, whose layer of encryption keeps what a poller does not show.

A poller sees the bytes of the network, a channel those that are decrypted. One call decrypts one record of 16 KiB at most, and
all of it if there is space for that much: then nothing is left that the poller does not show. Writing also takes one record at a
time, and may have to read first, when the peer changes its keys.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from skate.wire.channel import FRAME_BYTES_MAX, Channel

RECORD_BYTES_MAX: Final = 1 << 14
#: A record of fewer bytes is likely to be alone. To look for another one costs a system call and an exception.
LONE_BYTES: Final = 1 << 10
#: After so many lone records, look again for a second one.
LONE_RECORDS: Final = 16


class TLSChannel(Channel):
    """One end of an encrypted connection, after its handshake."""

    __slots__ = ("_decrypt", "_encrypt", "_lone")

    def __init__(self, sock: ssl.SSLSocket, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__(sock, frame_bytes_max=frame_bytes_max)
        self._decrypt: Callable[..., Any] = sock.read
        self._encrypt: Callable[..., int] = sock.write
        self._lone = 0  # how many more records are taken to be alone
        self._recv = self._receive
        self._send = self._send_records

    def _receive(self, buffer: memoryview) -> int:
        """Fill the buffer as a socket does, with several records; less than all is no sign that there is no more."""
        got = 0
        try:
            while (left := len(buffer) - got) >= RECORD_BYTES_MAX:
                count: int = self._decrypt(left, buffer[got:] if got else buffer)
                if not count:
                    break  # the end, which the next call finds again
                got += count
                # The poller shows what is left in the socket.
                if count < LONE_BYTES and self._lone:
                    self._lone -= 1
                    break
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not got:
                raise BlockingIOError from None
            self._lone = LONE_RECORDS if got < LONE_BYTES else 0
        except OSError:
            if not got:
                raise
        return got

    def _send_records(self, data: bytes | memoryview) -> int:
        """Send as much as the socket takes; what is left must be sent next, from its first byte on."""
        sent = 0
        try:
            if len(data) <= RECORD_BYTES_MAX:
                return self._encrypt(data)
            view = memoryview(data)
            while sent < len(view):
                sent += self._encrypt(view[sent:])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not sent:
                raise BlockingIOError from None
        return sent


def open_channel(sock: socket.socket, frame_bytes_max: int = FRAME_BYTES_MAX) -> Channel:
    """Return the channel for a socket, with TLS or without."""
    if isinstance(sock, ssl.SSLSocket):
        return TLSChannel(sock, frame_bytes_max=frame_bytes_max)
    return Channel(sock, frame_bytes_max=frame_bytes_max)
