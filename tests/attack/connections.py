"""Processes of Serve without sockets: real protocols and decisions, with transports that only record."""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from skate.serve.config.http import HTTPOptions
from skate.serve.ingress import sockets
from skate.serve.ingress.dispatcher import Dispatcher
from skate.serve.ingress.http_server import HttpServer
from skate.serve.ingress.protocol import Gated
from skate.serve.routing.table import DeploymentEntry, Key, ReplicaEntry, Route, Table


class OverHttptools(Gated, HttpToolsProtocol):  # type: ignore[misc]
    """The gate with the parser in C."""


class OverH11(Gated, H11Protocol):  # type: ignore[misc]
    """The gate with the parser in Python."""


PROTOCOLS = {"httptools": OverHttptools, "h11": OverH11}


class Wire:
    """A client's view of its connection, whichever process has it."""

    def __init__(self) -> None:
        self.answers = bytearray()
        self.ended = False
        self.protocol: Any = None
        self.hops = 0

    def send(self, data: bytes) -> None:
        if not self.ended:
            self.protocol.data_received(data)


class Transport:
    """A transport without a socket."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.closing = False
        self.paused = False
        self.protocol: Any = None

    def write(self, data: bytes) -> None:
        assert not self.closing, "written after the end"
        self.wire.answers += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.closing = self.wire.ended = True

    def abort(self) -> None:
        self.closing = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> Any:
        return self if name == "socket" else None

    def fileno(self) -> int:
        return -1

    family = socket.AF_UNIX

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", 8000)

    def getpeername(self) -> tuple[str, int]:
        return ("127.0.0.1", 1)

    def set_protocol(self, protocol: Any) -> None:
        self.wire.protocol = protocol

    def get_protocol(self) -> Any:
        return self.wire.protocol


def echo(name: str) -> Any:
    """Return an application that echoes its requests."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        text = f"{name} {scope['method']} {scope['path']}?{scope['query_string'].decode()} {len(body)} {zlib.crc32(body):x}"
        headers = [(b"content-length", str(len(text.encode())).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text.encode()})

    return app


class Watching:
    """A stand-in that ignores reports of demand."""

    def demand(self, waiting: Any) -> None:
        self.waiting = waiting


class Processes:
    """One serving process for each application. Connections are passed between them without sockets."""

    def __init__(self, parser: str, routes: dict[str, str], **options: Any) -> None:
        self.kind = PROTOCOLS[parser]
        self.options = HTTPOptions(**options)
        self.servings: dict[str, HttpServer] = {}
        places = {}
        for name in routes:
            dispatcher = Dispatcher((name, name), name, "node")
            serving = HttpServer(self.options, dispatcher, echo(name), None, Watching())
            self.servings[name] = serving
            places[name] = ReplicaEntry(name, None, 0, -1, "node", serving.mailbox)
        self.lines: dict[Key, DeploymentEntry] = {
            (name, name): DeploymentEntry((place,), 100, -1) for name, place in places.items()
        }
        self.places = places
        self.routes = tuple(
            Route(name, prefix, name) for name, prefix in sorted(routes.items(), key=lambda x: -len(x[1]))
        )
        self.publish()

    def publish(self) -> None:
        for serving in self.servings.values():
            serving._changed(Table(0, dict(self.lines), self.routes))

    def open(self, name: str) -> Wire:
        """Open a connection that the process of this application accepts."""
        wire = Wire()
        self._give(wire, name, {}, b"")
        return wire

    def _give(self, wire: Wire, name: str, known: dict[str, Any], data: bytes) -> None:
        serving = self.servings[name]
        protocol = self.kind(serving)
        protocol.known = known
        protocol.read_before = data
        wire.protocol = protocol
        protocol.connection_made(Transport(wire))
        if data:
            protocol.data_received(b"")

    def send(self, to: bytes, sock: Any, head: bytes, **known: Any) -> bool:
        """Replace `sockets.send`: pass a connection to another process."""
        for name, serving in self.servings.items():
            if serving.mailbox == to:
                sock.wire.hops += 1
                asyncio.get_running_loop().call_soon(self._give, sock.wire, name, known, head)
                return True
        return False

    async def close(self) -> None:
        for serving in self.servings.values():
            await serving.close()


@contextmanager
def without_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Processes]]:
    """Pass connections between the processes in the list."""
    current: list[Processes] = []
    monkeypatch.setattr(
        sockets, "send", lambda to, sock, head, **known: current[-1].send(to, sock, head, **known)
    )
    yield current


async def settle(turns: int = 6) -> None:
    """Let tasks continue."""
    for _ in range(turns):
        await asyncio.sleep(0)


def statuses(answers: bytes) -> list[tuple[int, bytes]]:
    """Return the status and the body of each answer."""
    found = []
    rest = bytes(answers)
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if status == 100:
            continue
        length = 0
        chunked = False
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
            chunked |= name.lower() == b"transfer-encoding"
        if chunked or (not length and b"connection: close" in head.lower()):
            found.append((status, rest))
            break
        found.append((status, rest[:length]))
        rest = rest[length:]
    return found
