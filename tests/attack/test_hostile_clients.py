"""One hostile client and the others: floods, paths, headers, chunks without end, and silent connections."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attack.clients import read_answer
from attack.connections import PROTOCOLS, echo
from attack.fronts import Fronts

from skate.serve.ingress.application import on_one_line
from skate.serve.ingress.chunked_body import ChunkedBody
from skate.serve.ingress.request_head import BadRequest
from tests.attack.limits import run_under

PLAIN = b"GET /victim HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(autouse=True)
def nothing_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [each.getMessage() for each in caplog.get_records("call") if each.levelno >= logging.WARNING] == []


@pytest.fixture(params=list(PROTOCOLS))
def fronts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fronts]:
    with Fronts(monkeypatch, request.param, "uvloop", {"/": echo("a")}) as made:
        yield made


def send_request(fronts: Fronts, data: bytes) -> tuple[int, bytes]:
    with fronts.connect() as sock:
        sock.sendall(data)
        with sock.makefile("rb") as file:
            return read_answer(file)


def victims(fronts: Fronts, count: int = 20) -> float:
    """Send `count` requests of another client; return the longest time that one waits for its answer."""
    worst = 0.0
    for _ in range(count):
        started = time.monotonic()
        assert send_request(fronts, PLAIN)[0] == 200
        worst = max(worst, time.monotonic() - started)
    return worst


#: Status with httptools, with h11.
ODD: dict[str, tuple[bytes, set[int]]] = {
    "an unknown method": (b"ABSURD / HTTP/1.1\r\nHost: x\r\n\r\n", {200, 400}),
    "a method in small letters": (b"get / HTTP/1.1\r\nHost: x\r\n\r\n", {200, 400}),
    "the longest method": (b"M" * 32 + b" / HTTP/1.1\r\nHost: x\r\n\r\n", {200, 400}),
    "a method of a debugger": (b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", {200}),
    "a star": (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", {200, 400, 404}),
    "NUL in the path": (b"GET /a%00b HTTP/1.1\r\nHost: x\r\n\r\n", {200}),
    "lines in the path": (b"GET /a%0d%0aSet-Cookie:%20x HTTP/1.1\r\nHost: x\r\n\r\n", {200}),
    "up and away": (b"GET /../../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", {200}),
    "up and away, written otherwise": (b"GET /%2e%2e/%2e%2e%5c..%2fetc HTTP/1.1\r\nHost: x\r\n\r\n", {200}),
    "bytes that are no text": (b"GET /%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n", {200}),
    "half a percent": (b"GET /%zz%1 HTTP/1.1\r\nHost: x\r\n\r\n", {200}),
    "many slashes": (b"GET " + b"/" * 8000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {200}),
    "a path like another host": (b"GET //evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n", {200}),
    "a user in a URL": (b"GET http://a:b@x/y HTTP/1.1\r\nHost: x\r\n\r\n", {200}),
    "HTTP/2 with prior knowledge": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100), {505}),
    "an upgrade to HTTP/2": (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        {200},
    ),
    "an upgrade to nothing": (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade:\r\n\r\n",
        {200, 400},
    ),
    "a WebSocket with a body": (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUPGRADE: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nContent-Length: 5\r\n\r\nhello",
        {400},
    ),
    "a WebSocket with chunks": (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        {400},
    ),
    "a WebSocket of a plain application": (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
        {400, 426},
    ),
    "a body that is packed": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
        {200},
    ),
    "headers that say the same twice": (
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\r\nX-Request-Id: b\r\nAuthorization: a\r\nAuthorization: b\r\n"
        b"Connection: close\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nExpect: x\r\n\r\n",
        {200, 100},
    ),
    "an expectation that is none": (b"GET / HTTP/1.1\r\nHost: x\r\nExpect: 200-maybe\r\n\r\n", {200, 417}),
}


def test_odd_requests_have_a_status_and_harm_nobody(fronts: Fronts) -> None:
    for what, (data, statuses) in ODD.items():
        status, _ = send_request(fronts, data)
        assert status in statuses, (what, status)
    assert send_request(fronts, PLAIN)[0] == 200


def test_pipelines_of_one_client_do_not_stop_the_others(fronts: Fronts) -> None:
    """The client also never reads an answer."""
    with fronts.connect(receive_bytes=4096) as sock:
        sock.settimeout(0.2)
        sent = 0
        try:
            while sent < 30_000_000:
                sent += sock.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
        except TimeoutError:
            pass
        assert sent < 30_000_000
        assert victims(fronts) < 5


def test_chunks_of_a_byte_do_not_stop_the_others(fronts: Fronts) -> None:
    with fronts.connect() as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        sock.settimeout(0.05)
        chunks, worst = b"1\r\na\r\n" * 50_000, 0.0
        for _ in range(10):
            sock.setblocking(False)
            try:
                sock.send(chunks)
            except BlockingIOError:
                pass
            started = time.monotonic()
            assert send_request(fronts, PLAIN)[0] == 200
            worst = max(worst, time.monotonic() - started)
        assert worst < 5


def test_extensions_of_chunks_end_with_the_head_s_limit() -> None:
    """Each single line is within the limit for lines."""
    body = ChunkedBody(64 * 1024)
    with pytest.raises(BadRequest) as caught:
        for _ in range(1000):
            body.feed(b"1;" + b"a" * 4000 + b"\r\nx\r\n")
    assert caught.value.status == 400
    body = ChunkedBody(64 * 1024)
    for _ in range(100_000):  # without extensions, the number of chunks has no limit
        body.feed(b"1\r\nx\r\n")


def test_fields_of_an_answer_repeat_nothing_that_ends_a_line(fronts: Fronts) -> None:
    with fronts.connect() as sock:
        sock.sendall(b"GET /%0d%0aX:%20y?%0d%0a HTTP/1.1\r\nHost: x\r\nX-Request-Id: a%0d%0ab\r\n\r\n")
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(1)
    assert b"\nX:" not in head


SHORT = """
import asyncio, socket, time, urllib.request
from skate import serve
free = socket.create_server(("127.0.0.1", 0))
port = free.getsockname()[1]
free.close()

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Reads:
    async def __call__(self, request):
        files = [open("/dev/null") for _ in range(20)]
        for file in files: file.close()
        return "ok"

ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20)
serve.start(http_options={"port": port})
serve.run(Reads.bind(), route_prefix="/")
ask = lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20).read()
assert ask() == b"ok"
silent = []
def more(count, *data):
    for _ in range(count):
        try:
            sock = socket.create_connection(("127.0.0.1", port), 5)
            for each in data: sock.sendall(each)
        except OSError: return
        silent.append(sock)
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for kind in ((), (b"GET / HTTP/1.1",), (b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n",)):
    more(400, *kind)
    worst = 0
    for _ in range(10):
        begun = time.monotonic()
        assert ask() == b"ok", kind
        worst = max(worst, time.monotonic() - begun)
    assert worst < 10, (kind, worst)
    print(kind, round(worst, 2))
for sock in silent: sock.close()
serve.shutdown()
"""


def test_silent_connections_leave_descriptors_to_the_application_and_to_others(tmp_path: Path) -> None:
    """Three times as many connections as a replica may have: silent, with half a head, and idle. Heads have 30 s."""
    run_under(tmp_path, SHORT, shell="ulimit -Sn 256")


def test_a_path_writes_no_lines_into_the_log() -> None:
    assert on_one_line("/c d\u00e9") == "/c d\u00e9"
    for path in ("/a\nGET /forged 200", "/b\x1b[2J", "/\x85", "/\u2028"):
        assert on_one_line(path) == repr(path)
        assert on_one_line(path).isprintable()
