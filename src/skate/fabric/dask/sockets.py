"""A socket out of a connection that Dask has made.

The socket of a TCP or TLS connection is taken from Dask: a round trip then costs as much as over a bare socket. For
every other kind of connection a pair of sockets is made, and Dask's thread forwards bytes between one end of it and the
connection: this works with all of Dask's transports, but costs twice the time.

The two sides must change from Dask's messages to bytes at the same moment. The side that dials asks, takes its socket,
and waits for one byte. The other side has read the whole question then, takes its socket, and sends that byte first. So
neither side can find bytes of the other in a buffer of Dask.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable

from distributed.comm import Comm, CommClosedError
from distributed.comm.tcp import TCP
from distributed.core import Status

from skate.fabric.carrier import Purpose

#: The names of the operations by which one node asks another for a connection.
OPERATIONS: dict[Purpose, str] = {"lane": "skate-lane", "bulk": "skate-bulk"}
READY = b"\x01"
#: Bytes sent and not acknowledged that one direction of a forwarded connection may have.
WINDOW_BYTES = 8 << 20
PIECE_BYTES = 256 << 10
#: A connection whose bytes stay without acknowledgement is lost; Dask's own time is 30 s and cannot be less than 11.
USER_TIMEOUT_MS = 6000


class Refused(ConnectionError):
    """The other node does not answer as a node of Skate."""


async def request(comm: Comm, purpose: Purpose, forwarded: bool = False) -> socket.socket:
    """Turn a connection that this node has opened into a socket. With `forwarded`, do not take Dask's own."""
    forwarded = forwarded or not isinstance(comm, TCP)
    await comm.write({"op": OPERATIONS[purpose], "reply": False, "forwarded": forwarded})
    if not forwarded:
        sock = await take(comm)
        try:
            if await _receive(sock) != READY:
                raise Refused("the other side does not answer as a node of Skate")
        except BaseException:  # also a cancellation: the socket is no longer Dask's
            sock.close()
            raise
        return sock
    if await comm.read() != READY:
        raise Refused("the other side does not answer as a node of Skate")
    inner, outer = socket.socketpair()
    forwarding = asyncio.get_running_loop().create_task(forward(comm, inner))
    _forwarding.add(forwarding)
    forwarding.add_done_callback(_forwarding.discard)
    return outer


#: The loop itself keeps only weak references to its tasks.
_forwarding: set[asyncio.Task[None]] = set()


async def accept(comm: Comm, forwarded: bool, accepted: Callable[[socket.socket], None]) -> Status:
    """Turn a connection that another node has opened into a socket. Runs while bytes are forwarded."""
    if forwarded:
        await comm.write(READY)
        inner, outer = socket.socketpair()
        accepted(outer)
        await forward(comm, inner)
    else:
        sock = await take(comm)
        try:
            sock.send(READY)
        except OSError:
            sock.close()
            raise
        accepted(sock)
    return Status.dont_reply


async def take(comm: Comm) -> socket.socket:
    """Take the socket of a TCP or TLS connection from Dask. Raises Refused if bytes have arrived too early."""
    stream = comm.stream
    if stream is None:
        raise CommClosedError("the connection is closed")
    if stream.writing():
        await stream.write(b"")  # returns once everything before it is sent
    sock: socket.socket = stream.socket
    pending = sock.pending() if isinstance(sock, ssl.SSLSocket) else 0
    if stream.reading() or stream._read_buffer_size or pending:
        comm.abort()
        raise Refused("the other side has sent bytes before it was asked for them")
    stream.set_close_callback(None)
    stream.io_loop.remove_handler(stream.fileno())
    # From here on both believe that they are closed, and leave the socket alone.
    stream.socket = None
    stream._closed = True
    comm._finalizer.detach()
    comm.stream = None
    comm._closed = True
    sock.setblocking(False)
    with contextlib.suppress(OSError):  # lost already: the first use says so
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
    return sock


async def _receive(sock: socket.socket) -> bytes:
    """Return the first byte that arrives; empty at the end of the connection."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return sock.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            readable = asyncio.Event()
            loop.add_reader(sock.fileno(), readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(sock.fileno())


async def forward(comm: Comm, inner: socket.socket) -> None:
    """Pass bytes between a connection and a socket until one of them ends; closes both."""
    directions = _Directions(comm, inner)
    try:
        await directions.run()
    finally:
        inner.close()
        comm.abort()


class _Directions:
    """Both directions of a forwarded connection: bytes are messages, and a number acknowledges so many bytes."""

    def __init__(self, comm: Comm, inner: socket.socket) -> None:
        inner.setblocking(False)
        self._comm = comm
        self._inner = inner
        self._unacknowledged = 0
        self._room = asyncio.Event()
        self._room.set()
        # Two messages that are written at once would mix in a WebSocket.
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        tasks = [asyncio.ensure_future(self._outward()), asyncio.ensure_future(self._inward())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, message: bytes | int) -> None:
        async with self._writing:
            await self._comm.write(message)

    async def _outward(self) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(self._inner, PIECE_BYTES):
            await self._room.wait()
            self._unacknowledged += len(data)
            if self._unacknowledged >= WINDOW_BYTES:
                self._room.clear()
            await self._write(data)
        # The end follows what was sent before it.
        await self._comm.close()

    async def _inward(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            message = await self._comm.read()
            if isinstance(message, int):
                self._unacknowledged -= message
                if self._unacknowledged < WINDOW_BYTES:
                    self._room.set()
            else:
                await loop.sock_sendall(self._inner, message)
                await self._write(len(message))
