"""WebSockets of untrusted clients: endless or unread messages take little memory, and are not logged."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from attack.connections import PROTOCOLS
from attack.fronts import Fronts

from tests.conformance.waiting import wait_for

pytest.importorskip("websockets")

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
UPGRADE = (
    b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%b\r\n"
)
DEFLATE = b"Sec-WebSocket-Extensions: permessage-deflate\r\n"


@pytest.fixture(autouse=True)
def nothing_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [each.getMessage() for each in caplog.get_records("call") if each.levelno >= logging.WARNING] == []


class App:
    """An application that receives messages when allowed, and returns their sizes."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.sizes: list[int] = []
        self.last: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return
        await receive()
        await send({"type": "websocket.accept"})
        if scope["path"] == "/waits":
            await self.may.wait()
        while (message := await receive())["type"] == "websocket.receive":
            self.last = message.get("text") or message.get("bytes")
            self.sizes.append(len(self.last or b""))
            if scope["path"] == "/counts":
                await send({"type": "websocket.send", "text": str(self.sizes[-1])})
        if scope["path"] == "/counts":
            self.last = message["code"]


def frame(kind: int, data: bytes = b"", last: bool = True, compressed: bool = False) -> bytes:
    """Return a frame of a client, with a mask of zeros."""
    first = kind | (128 if last else 0) | (64 if compressed else 0)
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", first, 128 | size)
    elif size < 65536:
        head = struct.pack("!BBH", first, 128 | 126, size)
    else:
        head = struct.pack("!BBQ", first, 128 | 127, size)
    return head + bytes(4) + data


def joined(fronts: Fronts, path: bytes, more: bytes = b"") -> socket.socket:
    """Open a WebSocket that is accepted."""
    sock = fronts.connect(receive_bytes=65536)
    sock.sendall(UPGRADE % (path, more))
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        got += sock.recv(1)
    assert got.startswith(b"HTTP/1.1 101 "), got
    return sock


def read_exact(sock: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        part = sock.recv(count - len(got))
        if not part:
            raise ConnectionError("closed")
        got += part
    return got


def read_frame(sock: socket.socket) -> tuple[int, bytes]:
    first, size = read_exact(sock, 2)
    if size == 126:
        (size,) = struct.unpack("!H", read_exact(sock, 2))
    return first & 15, read_exact(sock, size)


def closed_with(sock: socket.socket) -> int:
    """Return the code with which the server closes."""
    while True:
        kind, data = read_frame(sock)
        if kind == CLOSE:
            code: int = struct.unpack("!H", data[:2])[0]
            return code


def sent_until_full(sock: socket.socket, data: bytes, most: int) -> int:
    """Return the bytes sent until none were accepted for a second."""
    sock.settimeout(1)
    sent = 0
    try:
        while sent < most:
            sent += sock.send(data)
    except TimeoutError:
        pass
    sock.settimeout(30)
    return sent


@pytest.fixture(params=list(PROTOCOLS))
def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Fronts, App]]:
    app = App()
    with Fronts(monkeypatch, request.param, "uvloop", {"/": app}, unread_answer_timeout_s=1) as fronts:
        yield fronts, app


def protocol_of(fronts: Fronts) -> Any:
    """Return the server's protocol of the only connection."""
    (found,) = fronts.servings["/"].state.connections
    return found


def test_pings_of_a_client_that_reads_no_pongs(served: tuple[Fronts, App]) -> None:
    """Pongs would accumulate without limit, so the server stops reading pings."""
    fronts, _ = served
    with joined(fronts, b"/") as sock:
        flood = frame(PING, b"x" * 125) * 500
        assert sent_until_full(sock, flood, 200_000_000) < 100_000_000
        assert protocol_of(fronts).transport.get_write_buffer_size() < 2_000_000
        with joined(fronts, b"/counts") as other:  # the others continue
            other.sendall(frame(TEXT, b"abc"))
            assert read_frame(other) == (TEXT, b"3")


def test_small_messages_that_nobody_receives(served: tuple[Fronts, App]) -> None:
    fronts, app = served
    with joined(fronts, b"/waits") as sock:
        sent = sent_until_full(sock, frame(BINARY, b"x") * 10_000, 100_000_000)
        assert sent < 50_000_000
        assert protocol_of(fronts).queue.qsize() < 5_000
        assert len(protocol_of(fronts)._ahead) <= 1 << 20
        fronts.loop.call_soon_threadsafe(app.may.set)
        rest = -sent % 7  # bytes of the last frame, which may be cut
        sock.sendall(frame(BINARY, b"x")[7 - rest :] if rest else b"")
        wait_for(lambda: len(app.sizes) == -(-sent // 7), 30, "all messages")
        assert set(app.sizes) == {1}


@pytest.mark.parametrize("size", [0, 1])
def test_a_message_in_very_many_fragments(served: tuple[Fronts, App], size: int) -> None:
    fronts, app = served
    count = 100_000
    with joined(fronts, b"/counts") as sock:
        sock.sendall(frame(TEXT, b"a", last=False))
        sock.sendall(frame(CONT, b"b" * size, last=False) * count)
        sock.sendall(frame(PING, b"now"))
        assert read_frame(sock) == (PONG, b"now")
        assert len(protocol_of(fronts).frames) <= 256
        sock.sendall(frame(CONT, b"c"))
        assert read_frame(sock) == (TEXT, str(2 + size * count).encode())
        assert app.last == "a" + "b" * size * count + "c"
        for number in (2, 300, 256, 257):
            sock.sendall(
                frame(BINARY, b"x", last=False) + frame(CONT, b"y", last=False) * number + frame(CONT)
            )
            assert read_frame(sock) == (TEXT, str(1 + number).encode())
            assert app.last == b"x" + b"y" * number


def bomb(size: int) -> bytes:
    """Return a compressed message of `size` zeros."""
    made = zlib.compressobj(9, zlib.DEFLATED, -12)
    data = made.compress(bytes(size)) + made.flush(zlib.Z_SYNC_FLUSH)
    return data[:-4]


def test_a_message_that_grows_beyond_the_limit_when_it_is_taken_apart(served: tuple[Fronts, App]) -> None:
    fronts, app = served
    with joined(fronts, b"/counts", DEFLATE) as sock:
        sock.sendall(frame(BINARY, bomb(1 << 20), compressed=True))
        assert read_frame(sock)[0] == TEXT
        assert app.sizes == [1 << 20]
        sock.sendall(frame(BINARY, bomb(65 << 20), compressed=True))
        assert closed_with(sock) == 1009
    assert app.sizes == [1 << 20]


def test_fragments_that_are_too_long_together(served: tuple[Fronts, App]) -> None:
    fronts, app = served
    with joined(fronts, b"/counts", DEFLATE) as sock:
        data = bomb(80 << 20)
        half = len(data) // 2
        sock.sendall(frame(BINARY, data[:half], last=False, compressed=True))
        sock.sendall(frame(CONT, data[half:]))
        assert closed_with(sock) == 1009
    assert app.sizes == []


MISTAKES = {
    "a length beyond all": (struct.pack("!BBQ", 128 | BINARY, 128 | 127, 1 << 40), 1009),
    "a negative length": (struct.pack("!BBQ", 128 | BINARY, 128 | 127, (1 << 64) - 1), 1009),
    "no mask": (b"\x81\x01a", 1002),
    "reserved bits": (bytes([128 | 32 | TEXT, 128]) + bytes(4), 1002),
    "compressed, which was not agreed on": (frame(TEXT, b"abc", compressed=True), 1002),
    "an opcode that is none": (frame(3, b"abc"), 1002),
    "a continuation of nothing": (frame(CONT, b"abc"), 1002),
    "a message within a message": (frame(TEXT, b"a", last=False) + frame(TEXT, b"b"), 1002),
    "a ping in fragments": (frame(PING, b"a", last=False), 1002),
    "a long ping": (frame(PING, b"a" * 126), 1002),
    "no UTF-8": (frame(TEXT, b"\xff\xfe"), 1007),
    "half a character": (frame(TEXT, b"\xe2\x82"), 1007),
    "a close of one byte": (frame(CLOSE, b"a"), 1002),
    "a close with a code that is none": (frame(CLOSE, struct.pack("!H", 999)), 1002),
}


def test_a_mistake_is_told_by_its_code_though_the_client_sends_on(served: tuple[Fronts, App]) -> None:
    fronts, _ = served
    for what, (data, code) in MISTAKES.items():
        with joined(fronts, b"/") as sock:
            # Data after the error is parsed together with it, so a text has no data after it.
            sock.sendall(data + (b"" if code == 1007 else os.urandom(3_000_000)))
            assert closed_with(sock) == code, what


HANDSHAKES = {
    "no key": b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
    "another version": (UPGRADE % (b"/", b"")).replace(b": 13", b": 7"),
    "no version": (UPGRADE % (b"/", b"")).replace(b"Sec-WebSocket-Version: 13\r\n", b""),
    "a key of another length": (UPGRADE % (b"/", b"")).replace(b"dGhl", b"AAAAdGhl"),
    "two keys": UPGRADE % (b"/", b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"),
    "extensions that are none": UPGRADE % (b"/", b"Sec-WebSocket-Extensions: ;;=\r\n"),
    "a window of no size": UPGRADE
    % (b"/", DEFLATE.replace(b"deflate", b"deflate; client_max_window_bits=99")),
    "POST": (UPGRADE % (b"/", b"")).replace(b"GET", b"POST"),
}


def test_a_handshake_that_is_none_is_refused_and_not_logged(served: tuple[Fronts, App]) -> None:
    fronts, _ = served
    for what, data in HANDSHAKES.items():
        with fronts.connect() as sock:
            sock.sendall(data)
            head = b""
            while b"\r\n" not in head:
                head += read_exact(sock, 1)
            assert head.split()[1] in (b"400", b"426", b"405", b"101"), (what, head)
