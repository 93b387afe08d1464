"""Carries a client's connection to a replica on another machine, in calls of the replica's actor.

A mailbox takes sockets of its own machine only. For a replica elsewhere the process that accepted the connection keeps it, and
the replica serves one end of a socket pair as if it were the connection. Bytes travel between the two in calls and in the items
of a stream, so they use the connections of the cluster, which are encrypted, and need no port of their own.

A request for another application ends the tunnel: the replica gives the bytes that it did not use back, and the process
that has the connection decides anew. So no connection passes through more than two processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from skate.exceptions import RayError

#: The most bytes in one call or item, and the most items that the client's side has not taken yet.
_CHUNK_BYTES = 256 * 1024
_ITEMS_AHEAD = 8
_REASON = b"the replicas of the application do not respond\n"
_UNREACHABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
    b"connection: close\r\nretry-after: 1\r\n\r\n%b"
) % (len(_REASON), _REASON)


class ConnectionServer(Protocol):
    """Serves connections that another process has accepted."""

    @property
    def leaving(self) -> bool:
        """True if no new connection should arrive."""

    def serve_connection(self, sock: socket.socket, known: dict[str, Any], head: bytes) -> None:
        """Serve a connection, of which `head` was already read."""


class TunnelClient:
    """The end of a tunnel that has the client's connection."""

    def __init__(self, sock: socket.socket, head: bytes, known: dict[str, Any]) -> None:
        self._sock = sock
        self._known = known
        self._name = os.urandom(12).hex()
        #: Bytes of the client that no replica has taken.
        self._unsent = head
        self._calling = False

    async def run(self, replicas: Sequence[Any]) -> bytes | None:
        """Carry the connection to the first of these replicas that accepts it.

        Returns:
            None if the connection was closed, by either side. Otherwise the replica has given it back, and the result is
            what the client has sent beyond its last request.
        """
        loop = asyncio.get_running_loop()
        rest = None
        try:
            for replica in replicas:
                items = await self._opened(replica)
                if items is not None:
                    rest = await self._carry(replica, items)
                    return rest
            with contextlib.suppress(OSError):
                await loop.sock_sendall(self._sock, _UNREACHABLE)
            return None
        finally:
            if rest is None:
                self._sock.close()

    async def _opened(self, replica: Any) -> Any:
        """Open the tunnel; return its stream, or None if the replica has ended or is about to leave."""
        method = replica.tunnel.options(
            num_returns="streaming", _generator_backpressure_num_objects=_ITEMS_AHEAD
        )
        items = method.remote(self._name, self._known)
        try:
            accepted = await (await anext(items))
        except (RayError, StopAsyncIteration):
            return None
        return items if accepted else None

    async def _carry(self, replica: Any, items: Any) -> bytes | None:
        loop = asyncio.get_running_loop()
        sending = loop.create_task(self._send(replica))
        given_back: bytes | None = None
        try:
            async for item in items:
                data = await item
                if isinstance(data, tuple):
                    (given_back,) = data
                    break
                await loop.sock_sendall(self._sock, data)
        except (RayError, OSError):  # the replica has ended, or the client has gone
            pass
        finally:
            if given_back is None or not self._calling:
                sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending
            if given_back is None:
                # The replica's end closes with this; it may still wait for bytes of the client.
                replica.tunnel_data.remote(self._name, b"")
        return None if given_back is None else given_back + self._unsent

    async def _send(self, replica: Any) -> None:
        """Send what the client sends. Each call is answered before the next, which bounds what is on its way."""
        loop = asyncio.get_running_loop()
        ended = False
        with contextlib.suppress(RayError):  # the stream ends with the same error
            while not ended:
                if not self._unsent:
                    try:
                        self._unsent = await loop.sock_recv(self._sock, _CHUNK_BYTES)
                    except OSError:
                        self._unsent = b""
                    ended = not self._unsent
                self._calling = True
                taken = await replica.tunnel_data.remote(self._name, self._unsent)
                self._calling = False
                if not taken:
                    return
                self._unsent = b""


class TunnelEnd:
    """The end of one tunnel in a replica."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.feeding = asyncio.Lock()
        self.given_back = False
        self.rest = b""


class TunnelServer:
    """The ends of tunnels in a replica."""

    def __init__(self, server: ConnectionServer) -> None:
        self._server = server
        self._ends: dict[str, TunnelEnd] = {}

    @property
    def idle(self) -> bool:
        """True if all bytes of all tunnels were sent."""
        return not self._ends

    async def accept(self, name: str, known: dict[str, Any]) -> AsyncIterator[Any]:
        """Serve a connection.

        Yields:
            True, or False alone if the replica is about to leave. Then bytes for the client. Last, if the connection is
            given back, a tuple of the bytes that were not used.
        """
        if self._server.leaving:
            yield False
            return
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        end = self._ends[name] = TunnelEnd(ours)
        try:
            yield True
            self._server.serve_connection(theirs, {**known, "tunnel": name}, b"")
            while True:
                try:
                    data = await loop.sock_recv(ours, _CHUNK_BYTES)
                except OSError:  # the server has closed it in the middle of the client's data
                    return
                if not data:
                    break
                yield data
            if end.given_back:
                yield (end.rest,)
        finally:
            del self._ends[name]
            ours.close()

    async def feed(self, name: str, data: bytes) -> bool:
        """Pass on bytes of a client; no bytes say that it sends no more. Return False if the connection was given back."""
        end = self._ends.get(name)
        if end is None:
            return True  # closed: what arrives is dropped
        async with end.feeding:
            if end.given_back:
                return False
            with contextlib.suppress(OSError):
                if data:
                    await asyncio.get_running_loop().sock_sendall(end.sock, data)
                else:
                    end.sock.shutdown(socket.SHUT_WR)
        return True

    async def give_back(self, name: str, sock: socket.socket, data: bytes) -> None:
        """Return a connection to the process that accepted it.

        Args:
            name: The tunnel.
            sock: The server's end of its socket pair, from which nothing else reads; it is closed.
            data: Bytes that the server has read from it and did not use.
        """
        end = self._ends.get(name)
        loop = asyncio.get_running_loop()
        chunks = [data]

        async def drain() -> None:
            with contextlib.suppress(OSError):
                while more := await loop.sock_recv(sock, _CHUNK_BYTES):
                    chunks.append(more)

        if end is not None:
            end.given_back = True
            draining = loop.create_task(drain())
            async with end.feeding:
                with contextlib.suppress(OSError):
                    end.sock.shutdown(socket.SHUT_WR)
            await draining
            end.rest = b"".join(chunks)
        sock.close()
