"""Fronts of Serve on a real port, without a cluster: one server for each application, all in the event loop of one thread."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from attack.connections import PROTOCOLS, Watching

from skate.serve.config.http import HTTPOptions
from skate.serve.ingress import http_server as serving_module
from skate.serve.ingress import sockets
from skate.serve.ingress.dispatcher import Dispatcher
from skate.serve.ingress.http_server import HttpServer
from skate.serve.routing.table import DeploymentEntry, ReplicaEntry, Route, Table


def _begin_uvloop() -> None:
    """Make uvloop open its permanent descriptors before any test checks for leaks."""
    with contextlib.suppress(ImportError):
        import uvloop  # with the extra `serve`

        loop = uvloop.new_event_loop()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


_begin_uvloop()


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    if kind == "uvloop":
        made: asyncio.AbstractEventLoop = pytest.importorskip("uvloop").new_event_loop()
        return made
    return asyncio.new_event_loop()


class Fronts:
    """Serves applications by path inside a `with` block. The first application's server accepts all connections."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, parser: str, loop: str, apps: dict[str, Any], **options: Any
    ) -> None:
        monkeypatch.setattr(serving_module, "ServingProtocol", PROTOCOLS[parser])
        self.options = HTTPOptions(port=0, **options)
        self.apps = apps
        self.loop = new_loop(loop)
        self.servings: dict[str, HttpServer] = {}
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.sock.setblocking(False)
        self.port: int = self.sock.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    async def _open(self) -> None:
        places = {}
        for path, app in self.apps.items():
            dispatcher = Dispatcher((path, path), path, "node")
            made = HttpServer(self.options, dispatcher, app, None, Watching())
            self.servings[path] = made
            places[path] = ReplicaEntry(path, None, 0, -1, "node", made.mailbox)
        lines = {(path, path): DeploymentEntry((place,), 100, -1) for path, place in places.items()}
        ways = sorted(self.apps, key=len, reverse=True)
        table = Table(0, lines, tuple(Route(path, path, path) for path in ways))
        for each in self.servings.values():
            each._changed(table)
        next(iter(self.servings.values())).listen(self.sock)

    async def _close(self) -> None:
        for each in self.servings.values():
            each.heads.seconds = None
            each.dispatcher.table = Table(0, {}, ())
            for protocol in list(each.protocols):
                protocol.transport.abort()
            await each.close()
        for transport in list(getattr(self.loop, "_transports", {}).values()):
            with contextlib.suppress(AttributeError):  # already closed
                transport.abort()  # asyncio transports that relay TLS between processes
        await asyncio.sleep(0.01)
        others = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def do(self, coroutine: Any) -> Any:
        """Run a coroutine in the loop of the fronts."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def __enter__(self) -> Fronts:
        self._thread.start()
        self.do(self._open())
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self.do(self._close())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
        self.loop.close()
        self.sock.close()
        while sockets._out:
            sockets._out.pop().close()

    def connections(self) -> int:
        """Return the number of open connections."""

        async def count() -> int:
            return sum(len(each.protocols) for each in self.servings.values())

        found: int = self.do(count())
        return found

    def connect(self, tls: bool = False, receive_bytes: int = 0) -> socket.socket:
        """Open a client's connection."""
        sock = socket.socket()
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.settimeout(30)
        sock.connect(("127.0.0.1", self.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not tls:
            return sock
        around = ssl.create_default_context()
        around.check_hostname = False
        around.verify_mode = ssl.CERT_NONE
        return around.wrap_socket(sock)


def certificate(folder: Path) -> dict[str, str]:
    """Return the options of HTTPS, with a new key and certificate."""
    key, made = str(folder / "key.pem"), str(folder / "cert.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", made]
    try:
        subprocess.run([*words, "-days", "1", "-subj", "/CN=localhost"], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl makes the certificate, and is not installed")
    return {"ssl_keyfile": key, "ssl_certfile": made}


async def answer(send: Any, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Send an answer of an ASGI application."""
    named = [(b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": named})
    await send({"type": "http.response.body", "body": body})
