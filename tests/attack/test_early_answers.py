"""A response that is sent before its request is complete reaches the client, and the connection ends in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from attack.clients import read_answer
from attack.connections import PROTOCOLS
from attack.fronts import Fronts, answer, certificate

from skate.serve.ingress import write_buffer
from tests.conformance.waiting import wait_for

SIZE = 12_000_000  # more than the kernel's buffers of both ends hold
CLOSE = (b"connection", b"close")
REFUSAL = b"no, " * 5000
both_parsers = pytest.mark.parametrize("parser", list(PROTOCOLS))
both_loops = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Respond as the path requests, without reading the body."""
    kind = scope["path"].rpartition("/")[2]
    if kind == "late":
        await asyncio.sleep(0.3)  # work while the body arrives
    if kind == "some":
        await receive()
    if kind == "whole":
        while (await receive()).get("more_body"):
            pass
    if kind == "raises":
        raise_it()
    if kind == "large":
        await answer(send, 200, b"x" * int(scope["query_string"]))
        return
    await answer(send, 403, REFUSAL, *([] if kind == "kept" else [CLOSE]))


def raise_it() -> None:
    raise ValueError("the application's own")


def body(framing: str) -> Iterator[bytes]:
    part = b"x" * 100_000
    for _ in range(SIZE // len(part)):
        yield part if framing == "length" else b"%x\r\n%b\r\n" % (len(part), part)
    if framing == "chunked":
        yield b"0\r\n\r\n"


def head(path: str, framing: str, *more: bytes) -> bytes:
    length_header = b"Content-Length: %d" % SIZE if framing == "length" else b"Transfer-Encoding: chunked"
    return b"\r\n".join([b"POST %b HTTP/1.1" % path.encode(), b"Host: x", length_header, *more, b"", b""])


def send_request(sock: socket.socket, *parts: bytes) -> tuple[int, bytes]:
    """Send all data, then read; return the status and the body of the response."""
    for part in parts:
        sock.sendall(part)
    with sock.makefile("rb") as file:
        return read_answer(file)


CASES = {
    "closed by the application": ("/now", ()),
    "closed by the client": ("/kept", (b"Connection: close",)),
    "after a moment": ("/late", ()),
    "after some of it": ("/some", ()),
    "on a kept connection": ("/kept", ()),
}


@both_parsers
@both_loops
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_application_that_answers_early(
    parser: str, loop: str, framing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Fronts(monkeypatch, parser, loop, {"/": app}) as fronts:
        for what, (path, more) in CASES.items():
            with fronts.connect() as sock:
                got = send_request(sock, head(path, framing, *more), *body(framing))
                assert got == (403, REFUSAL), what


REFUSED = {
    400: b"POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nContent-Length: 5\r\n\r\n" % SIZE,
    413: head("/now", "length"),
    431: b"POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % SIZE + b"A: b\r\n" * 300 + b"\r\n",
    501: b"POST /now HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
    505: b"POST /now HTTP/1.2\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % SIZE,
}


@both_parsers
@both_loops
def test_a_front_that_refuses_a_request(parser: str, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Fronts(monkeypatch, parser, loop, {"/": app, "/b": app}, max_request_body_bytes=1000) as fronts:
        for status, begun in REFUSED.items():
            if status == 413:  # checked before an application is chosen, if a request must go elsewhere
                begun = head("/b/now", "length")
            with fronts.connect() as sock:
                assert send_request(sock, begun, *body("length"))[0] == status


@both_parsers
@both_loops
def test_a_chunk_that_is_none_in_the_middle_of_a_body(
    parser: str, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Fronts(monkeypatch, parser, loop, {"/": app}) as fronts, fronts.connect() as sock:
        got = send_request(sock, head("/whole", "chunked"), b"5\r\nabcde\r\nzz\r\n", *body("length"))
        assert got[0] == 400


@both_parsers
@both_loops
def test_over_tls_and_handed_to_another_process(
    parser: str, loop: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """The keys stay in the process that accepted the connection, which relays the bytes to the other one."""
    with Fronts(monkeypatch, parser, loop, {"/": app, "/b": app}, **certificate(tmp_path)) as fronts:
        for path in ("/now", "/late", "/b/now", "/b/late", "/b/some"):
            for framing in ("length", "chunked"):
                with fronts.connect(tls=True) as sock:
                    assert send_request(sock, head(path, framing), *body(framing)) == (403, REFUSAL), (
                        path,
                        framing,
                    )
        wait_for(lambda: fronts.connections() == 0, 20, "the end of the connections")


@both_loops
def test_what_is_handed_over_without_tls(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Fronts(monkeypatch, "httptools", loop, {"/": app, "/b": app}) as fronts:
        for path in ("/b/now", "/b/late"):
            with fronts.connect() as sock:
                assert send_request(sock, head(path, "length"), *body("length")) == (403, REFUSAL)


@both_parsers
def test_a_connection_goes_on_after_a_body_that_came_behind_its_answer(
    parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Fronts(monkeypatch, parser, "uvloop", {"/": app}) as fronts, fronts.connect() as sock:
        file = sock.makefile("rb")
        for framing in ("length", "chunked", "length"):
            sock.sendall(head("/kept", framing))
            assert read_answer(file) == (403, REFUSAL)
            for part in body(framing):
                sock.sendall(part)
        file.close()


@both_parsers
def test_a_connection_whose_body_came_behind_its_answer_idles_no_longer_than_others(
    parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Fronts(monkeypatch, parser, "uvloop", {"/": app}, keep_alive_timeout_s=1) as fronts,
        fronts.connect() as sock,
    ):
        file = sock.makefile("rb")
        sock.sendall(b"POST /kept HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n")
        assert read_answer(file) == (403, REFUSAL)
        sock.sendall(b"abc")
        assert file.read() == b""  # closed
        file.close()


@both_loops
@pytest.mark.parametrize("closing", [True, False])
def test_an_answer_that_nobody_reads_does_not_keep_a_connection_that_closes(
    loop: str, closing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unsent rest is too small to pause the application, so only the closing waits."""
    options = {"unread_answer_timeout_s": 1, "keep_alive_timeout_s": 1}
    with Fronts(monkeypatch, "httptools", loop, {"/": app}, **options) as fronts:
        socks = []
        for kib in range(64, 6000, 40):
            sock = fronts.connect(receive_bytes=4096)
            more = b"Connection: close\r\n" if closing else b""
            sock.sendall(b"GET /large?%d HTTP/1.1\r\nHost: x\r\n%b\r\n" % (kib << 10, more))
            socks.append(sock)
        wait_for(lambda: fronts.connections() == 0, 20, "the end of the connections")
        for sock in socks:
            sock.close()


def test_a_client_that_sends_for_ever_is_not_listened_to_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_buffer, "_LINGER_SECONDS", 0.2)
    monkeypatch.setattr(write_buffer, "_LINGER_SECONDS_MAX", 1.0)
    with Fronts(monkeypatch, "httptools", "uvloop", {"/": app}) as fronts, fronts.connect() as sock:
        sock.sendall(b"POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        stop = threading.Event()

        def send() -> None:
            with contextlib.suppress(OSError):
                while not stop.wait(0.02):
                    sock.sendall(b"x" * 1000)

        sending = threading.Thread(target=send)
        sending.start()
        try:
            wait_for(lambda: fronts.connections() == 0, 20, "the end of the connection")
        finally:
            stop.set()
            sending.join()
