"""Carriers on one pump, and a receiver that writes down what it is told."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from skate.fabric.carrier import Purpose
from skate.fabric.dask.carrier import HeadCarrier, MemberCarrier
from skate.wire.pump import Pump

TOKEN = "5f2d8c1e9a7b40362c91d7f0a4b8e35d"
OTHER_TOKEN = "0b9e4d7a2c6f8135e7d09a4b3c1f6e82"
SECONDS = 20.0


class Told:
    """A receiver that keeps everything."""

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self.accepts: list[tuple[Purpose, socket.socket]] = []
        self.events: list[tuple[str, ...]] = []

    def _check(self) -> None:
        assert self._pump.lock._is_owned(), "the engine lock is held in every call"
        assert threading.current_thread().name != "skate-dask"

    def accepted(self, purpose: Purpose, sock: socket.socket) -> None:
        self._check()
        self.accepts.append((purpose, sock))

    def registered(self, name: str, address: str) -> None:
        self._check()
        self.events.append(("registered", name, address))

    def unregistered(self, name: str) -> None:
        self._check()
        self.events.append(("unregistered", name))

    def detached(self, reason: str) -> None:
        self._check()
        self.events.append(("detached", reason))


class Carriers:
    """A head and members in this process; `end` closes them and every socket."""

    def __init__(self) -> None:
        self.pump = Pump(threading.RLock(), "test")
        self.all: list[Any] = []
        self.sockets: list[socket.socket] = []

    def head(
        self, token: str | None = TOKEN, host: str = "127.0.0.1", port: int = 0, **more: Any
    ) -> HeadCarrier:
        return self._started(HeadCarrier(self.pump, host, port, token=token, **more))

    def member(self, name: str, address: str, token: str | None = TOKEN, **more: Any) -> MemberCarrier:
        timeout = more.pop("timeout", SECONDS)
        return self._started(MemberCarrier(self.pump, name, address, token=token, **more), timeout)

    def _started(self, carrier: Any, timeout: float = SECONDS) -> Any:
        carrier.receiver = Told(self.pump)
        self.all.append(carrier)
        carrier.start(timeout)
        return carrier

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        with self.pump.lock:
            assert self.pump.wait(lambda: bool(condition()), SECONDS), f"waited for {what}"

    def dialled(
        self, source: Any, target: Any, purpose: Purpose = "lane"
    ) -> tuple[socket.socket, socket.socket]:
        """Connect two carriers; return both ends, blocking."""
        ends: list[Any] = []
        seen = len(target.receiver.accepts)
        source.dial(target.address, purpose, ends.append, ends.append)
        assert not ends, "no callback is made within the call that asks for it"
        self.wait_for(lambda: ends and len(target.receiver.accepts) > seen, "a connection")
        kind, sock = target.receiver.accepts[-1]
        assert kind == purpose
        assert isinstance(ends[0], socket.socket), ends
        for end in (ends[0], sock):
            self.sockets.append(end)
            end.settimeout(SECONDS)
        return ends[0], sock

    def failure(self, source: Any, address: str) -> str:
        """Return why a connection is refused."""
        ends: list[Any] = []
        source.dial(address, "lane", ends.append, ends.append)
        self.wait_for(lambda: ends, "a refusal")
        assert isinstance(ends[0], str), ends
        return ends[0]

    def end(self) -> None:
        for carrier in reversed(self.all):
            carrier.close()
            for _, sock in carrier.receiver.accepts:
                sock.close()
        for sock in self.sockets:
            sock.close()
        self.pump.close()


def exchange(one: socket.socket, other: socket.socket, size: int) -> None:
    """Send bytes each way at the same time, and compare."""
    sent = [os.urandom(size), os.urandom(size)]
    got: list[bytes] = [b"", b""]

    def receive(at: int, sock: socket.socket) -> None:
        pieces = bytearray()
        while len(pieces) < size and (piece := sock.recv(1 << 16)):
            pieces += piece
        got[at] = bytes(pieces)

    # A TLS socket cannot be used by two threads at once: one direction after the other.
    ends = [(0, one, other), (1, other, one)]
    for at, source, target in ends:
        reader = threading.Thread(target=receive, args=(at, target))
        reader.start()
        source.sendall(sent[at])
        reader.join(SECONDS)
    assert got == sent


def is_encrypted(sock: socket.socket) -> bool:
    return isinstance(sock, ssl.SSLSocket) and sock.version() == "TLSv1.3"
