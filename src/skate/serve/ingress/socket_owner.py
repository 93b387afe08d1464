"""Keeps the listening socket while replicas come and go."""

from __future__ import annotations

import asyncio
import socket

from skate.serve.ingress import sockets


class SocketOwner:
    """Passes the listening socket to processes of the same user that request it."""

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.receiver = sockets.SocketReceiver()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.receiver.sock.fileno(), self._on_request)

    @property
    def name(self) -> bytes:
        """The address to which requests are sent."""
        return self.receiver.name

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self.listening.getsockname()[1]
        return port

    def _on_request(self) -> None:
        while True:
            taken = self.receiver.take()
            if taken is None:
                return
            message, _, sock = taken
            sock.close()
            if message.get("wants") == "listener":
                sockets.send(message["reply"], self.listening, b"", listener=True)

    def close(self) -> None:
        """Stop listening in this process."""
        self._loop.remove_reader(self.receiver.sock.fileno())
        self.receiver.close()
        self.listening.close()


async def fetch_listener(
    keeper: bytes, receiver: sockets.SocketReceiver, timeout_s: float = 5.0
) -> socket.socket:
    """Fetch the listening socket from a process that has it. Raise RuntimeError if it does not answer."""
    loop = asyncio.get_running_loop()
    dummy, other = socket.socketpair()
    arrived = loop.create_future()

    def look() -> None:
        taken = receiver.take()
        if taken is not None and not arrived.done():
            arrived.set_result(taken[2])

    loop.add_reader(receiver.sock.fileno(), look)
    try:
        if not sockets.send(keeper, dummy, b"", wants="listener", reply=receiver.name):
            raise RuntimeError("the process that holds Serve's listening socket has ended")
        found: socket.socket = await asyncio.wait_for(arrived, timeout_s)
    finally:
        dummy.close()
        other.close()
        loop.remove_reader(receiver.sock.fileno())
    return found


async def fetch_from_any(keepers: list[bytes]) -> socket.socket | None:
    """Fetch the listening socket from the first process that has it; return None if none has."""
    for keeper in keepers:
        receiver = sockets.SocketReceiver()
        try:
            return await fetch_listener(keeper, receiver)
        except (RuntimeError, TimeoutError, asyncio.TimeoutError):
            continue
        finally:
            receiver.close()
    return None
