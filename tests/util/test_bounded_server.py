"""Clients without a request cannot hold a connection of a small HTTP server, nor its memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn

from skate.util.http import bounded_server
from skate.util.http.bounded_server import HEAD_BYTES_MAX, BoundedProtocol, configured

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer with two bytes."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def against(attack: Callable[[Client], Awaitable[None]], ws: Any = "none") -> None:
    """Run an attack on a server, which has to close its connection."""

    async def run() -> None:
        config = configured(app, ws)
        config.load()
        state = uvicorn.server.ServerState()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: BoundedProtocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        client = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            await asyncio.wait_for(attack(client), 10)
            assert not state.connections
        finally:
            client[1].close()
            server.close()

    asyncio.run(run())


async def answer_to(client: Client, request: bytes) -> bytes:
    """Send a request; return its whole answer."""
    client[1].write(request)
    return await client[0].readuntil(b"\r\n\r\n") + await client[0].readexactly(2)


async def ended(client: Client) -> None:
    """Read until the server has closed the connection."""
    try:
        while await client[0].read(1 << 16):
            pass
    except ConnectionError:
        return


@pytest.mark.parametrize(
    "sent", [b"", REQUEST[:10], REQUEST + REQUEST[:10]], ids=["nothing", "a part", "one, a part"]
)
def test_a_connection_without_a_complete_head_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "HEAD_SECONDS", 0.02)

    async def attack(client: Client) -> None:
        client[1].write(sent)
        await ended(client)

    against(attack)


@pytest.mark.parametrize("first", [b"", REQUEST], ids=["at once", "after a request"])
def test_a_head_without_an_end_is_cut_off(first: bytes) -> None:
    async def attack(client: Client) -> None:
        if first:
            assert b" 200 OK" in await answer_to(client, first)
        client[1].write(REQUEST[:-2])
        sent = 0
        try:
            while not client[0].at_eof() and client[0].exception() is None:
                client[1].write(b"x: " + b"y" * 1000 + b"\r\n")
                await client[1].drain()
                await asyncio.sleep(0)  # the server runs in the same loop
                sent += 1000
                assert sent < 64 * HEAD_BYTES_MAX, "the server reads on"
        except ConnectionError:
            pass
        await ended(client)

    against(attack)


def test_a_client_that_asks_again_and_again_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "HEAD_SECONDS", 0.02)

    async def attack(client: Client) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + 0.1
        while loop.time() < until:
            assert b" 200 OK" in await answer_to(client, REQUEST)
        await ended(client)

    against(attack)


class Echo(asyncio.Protocol):
    """A WebSocket's protocol as far as this test needs one."""

    def __init__(self, **given: Any) -> None:
        self.state = given["server_state"]

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data[-4:])


def test_a_websocket_that_sends_nothing_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "HEAD_SECONDS", 0.01)

    async def attack(client: Client) -> None:
        client[1].write(REQUEST[:-2] + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert await client[0].readexactly(4) == b"\r\n\r\n", "it has the request"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client[0].read(1), 0.1)
        client[1].write(b"ping")
        assert await client[0].readexactly(4) == b"ping"

    against(attack, Echo)
