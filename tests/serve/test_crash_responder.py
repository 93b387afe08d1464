"""A process of a replica that dies at work: each of its clients learns what happened."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("uvicorn")

import skate
from skate import serve
from skate.exceptions import ActorDiedError
from skate.serve.replica.crash_responder import describe
from tests.conformance.waiting import wait_for
from tests.serve.standing import free_port, get


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Mortal:
    def __init__(self) -> None:
        self.waiting = 0

    async def __call__(self, request: Any) -> Any:
        from starlette.responses import StreamingResponse  # where uvicorn is

        path = getattr(getattr(request, "url", None), "path", request)
        if path == "/exit":
            os._exit(3)
        if path == "/kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if path == "/waiting":
            return str(self.waiting)
        if path == "/wait":
            self.waiting += 1
            await asyncio.Event().wait()
        if path == "/stream":
            return StreamingResponse(parts())
        return "well"


async def parts() -> AsyncIterator[str]:
    yield "first"
    await asyncio.Event().wait()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    skate.init(num_cpus=1, log_to_driver=False, preload=["skate.serve.replica.preload"])
    chosen = free_port()
    app: Any = Mortal
    serve.run(app.bind(), port=chosen)
    yield chosen
    serve.shutdown()
    skate.shutdown()


@pytest.fixture(autouse=True)
def nothing_left_by_the_test(nothing_left_by_the_module: None) -> None:
    """Skip the check after each test, because the tests share a session. The check for the whole module remains."""


class Client:
    """A connection, as the bytes that come."""

    def __init__(self, port: int, path: str, body: bytes = b"", size: int | None = None) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), 30)
        self.send(path, body, len(body) if size is None else size)

    def send(self, path: str, body: bytes = b"", size: int = 0) -> None:
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n"
        self.sock.sendall(head.encode() + body)

    def until(self, end: bytes) -> bytes:
        """Read up to these bytes."""
        data = b""
        while not data.endswith(end):
            more = self.sock.recv(1 << 16)
            assert more, data
            data += more
        return data

    def rest(self) -> str:
        """Read until the connection is closed."""
        data = b""
        with self.sock:
            while more := self.sock.recv(1 << 16):
                data += more
        return data.decode()


@pytest.mark.parametrize(
    ("path", "end"),
    [("/exit", "its process exited with exit code 3"), ("/kill", "its process was killed by SIGKILL")],
)
def test_clients_without_a_response_get_one(port: int, path: str, end: str) -> None:
    wait_for(lambda: get(port) == (200, "well"), 30, "a replica")
    waiting, idle, begun = Client(port, "/wait"), Client(port, "/"), Client(port, "/stream")
    sending = Client(port, "/wait", b"x" * 1000, 100_000)
    idle.until(b"well")
    begun.until(b"first\r\n")
    wait_for(lambda: get(port, "/waiting") == (200, "2"), 30, "the requests that wait")
    deadly = Client(port, "/")
    deadly.until(b"well")
    deadly.send(path)  # the second request of its connection
    for each in (deadly, waiting, sending):
        head, _, body = each.rest().partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 500 ") and "connection: close" in head.lower(), head
        assert f"content-length: {len(body)}\r\n" in head + "\r\n"
        assert body.startswith("replica '") and "of deployment 'Mortal' in application 'default'" in body
        assert f"did not finish this request: {end}" in body
    assert (idle.rest(), begun.rest()) == ("", "")


def test_a_handle_gets_the_reason(port: int) -> None:
    wait_for(lambda: get(port) == (200, "well"), 30, "a replica")
    with pytest.raises(ActorDiedError, match="(?s)Mortal.*exit code 3"):
        serve.get_app_handle("default").remote("/exit").result(timeout_s=60)


def test_how_processes_end() -> None:
    assert describe(None) == "ended"
    assert describe(3 << 8) == "exited with exit code 3"
    assert describe(signal.SIGSEGV) == "was killed by SIGSEGV"
    assert describe(signal.SIGRTMIN + 1) == "was killed by signal 35"
