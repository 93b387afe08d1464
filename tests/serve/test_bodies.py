"""The limit on request bodies: 413 with an explanation, no further reading, no memory kept; and responses on the wire."""

from __future__ import annotations

import http.client
import json
import resource
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse

import skate
from skate import serve
from skate.serve.config.http import BODY_MAX_VARIABLE, HTTPOptions
from skate.serve.config_loader import http_options
from skate.serve.schema import ServeDeploySchema

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}
LIMIT = 100_000
web = FastAPI()


@serve.deployment(**LIGHT)
class Plain:
    async def __call__(self, request: Request) -> Any:
        if request.url.path.endswith("/json"):
            return await request.json()
        if request.url.path.endswith("/careless"):
            try:
                await request.body()
            except Exception as error:  # like a careless handler
                return f"continued after {type(error).__name__}"
        if request.url.path.endswith("/client"):
            assert request.client is not None
            return f"{request.client.host} {request.url.scheme}"
        if request.url.path.endswith("/faults"):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in range(10):
                [b"x" * size for size in (2_000_000,) * 4]
            return str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        if request.url.path.endswith("/unread"):
            return "did not look"
        return str(len(await request.body()))


@serve.deployment(**LIGHT)
@serve.ingress(web)
class Web:
    @web.post("/json")
    async def json(self, body: dict[str, Any]) -> int:
        return len(body)

    @web.get("/stream")
    async def stream(self) -> StreamingResponse:
        async def parts() -> Any:
            yield b"one,"
            yield b"two"

        return StreamingResponse(parts(), media_type="text/plain")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        free: int = sock.getsockname()[1]
    skate.init(num_cpus=4, log_to_driver=False)
    serve.start(http_options={"port": free, "max_request_body_bytes": LIMIT})
    serve.run(Plain.bind(), name="plain", route_prefix="/plain")
    serve.run(Web.bind(), name="web", route_prefix="/web")
    yield free
    serve.shutdown()
    skate.shutdown()


def post(port: int, path: str, body: Any, chunked: bool = False) -> tuple[int, str, bool]:
    """Send a POST request; return the status, the text, and True if the connection ends."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"content-type": "application/json"}
    connection.request("POST", path, iter([body]) if chunked else body, headers, encode_chunked=chunked)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer.will_close


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", ["/plain", "/plain/careless", "/web/json"])
def test_a_body_over_the_limit_is_413_and_says_both_sizes(port: int, path: str, chunked: bool) -> None:
    body = json.dumps({"x": "y" * LIMIT}).encode()
    status, text, closes = post(port, path, body, chunked)
    assert status == 413
    assert "100,000" in text
    assert chunked or f"{len(body):,}" in text
    assert closes


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_at_the_limit_is_taken(port: int, chunked: bool) -> None:
    assert post(port, "/plain", b"x" * LIMIT, chunked) == (200, str(LIMIT), False)
    assert post(port, "/plain", b"x" * (LIMIT + 1), chunked)[0] == 413


def test_an_announced_body_is_refused_before_any_of_it_has_come(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        sock.sendall(b"POST /plain HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n")
        answer = sock.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"99,999,999,999" in answer


def test_expect_100_continue_is_answered_413_instead(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        sock.sendall(
            b"POST /plain HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\nexpect: 100-continue\r\n\r\n"
        )
        answer = sock.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_client_that_still_sends_gets_its_answer(port: int) -> None:
    """20 MB do not fit into the socket buffers, so a server that closed immediately would interrupt the client's sending."""
    assert post(port, "/plain", b"x" * 20_000_000)[0] == 413


def test_a_chunked_body_that_nobody_reads_does_no_harm(port: int) -> None:
    assert post(port, "/plain/unread", b"x" * 10, chunked=True)[:2] == (200, "did not look")


def test_memory_of_bodies_is_reused(port: int) -> None:
    """Ten times 8 MB are 20,000 pages of memory if each of them is new to the process."""
    assert int(post(port, "/plain/faults", b"")[1]) < 6000


def test_refusals_are_counted_under_their_status(port: int) -> None:
    post(port, "/plain", b"x" * (LIMIT + 1))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/-/metrics")
    page = connection.getresponse().read().decode()
    connection.close()
    lines = [line for line in page.splitlines() if "num_http_requests_total" in line]
    assert any('status_code="413"' in line and 'route="/plain"' in line for line in lines)


def test_the_environment_may_set_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HTTPOptions().max_request_body_bytes is None
    monkeypatch.setenv(BODY_MAX_VARIABLE, "4096")
    assert HTTPOptions().max_request_body_bytes == 4096
    assert HTTPOptions(max_request_body_bytes=9).max_request_body_bytes == 9
    monkeypatch.setenv(BODY_MAX_VARIABLE, "4 kB")
    with pytest.raises(ValueError, match="number of bytes"):
        HTTPOptions()
    with pytest.raises(ValueError, match="max_request_body_bytes"):
        HTTPOptions(max_request_body_bytes=0)


def test_a_config_file_may_set_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def options(**answers: int) -> HTTPOptions:
        apps = [{"name": "a", "import_path": "b:c"}]
        return http_options(ServeDeploySchema.model_validate({"applications": apps, "http_options": answers}))

    assert options().max_request_body_bytes is None
    assert options(max_request_body_bytes=5).max_request_body_bytes == 5
    monkeypatch.setenv(BODY_MAX_VARIABLE, "4096")
    assert options().max_request_body_bytes == 4096


# -- the wire


def raw(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        sock.sendall(request)
        return sock.makefile("rb").read()


def test_head_has_the_headers_alone(port: int) -> None:
    head, _, body = raw(port, b"HEAD /plain HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").partition(
        b"\r\n\r\n"
    )
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"content-length: 1" in head
    assert body == b""


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ("", "127.0.0.1 http"),
        ("X-Forwarded-For: 10.0.0.9\r\n", "10.0.0.9 http"),
        ("x-forwarded-proto: https\r\n", "127.0.0.1 https"),
    ],
)
def test_a_proxy_on_this_machine_may_name_the_client(port: int, headers: str, expected: str) -> None:
    request = f"GET /plain/client HTTP/1.1\r\nhost: x\r\n{headers}connection: close\r\n\r\n"
    assert raw(port, request.encode()).endswith(f"\r\n\r\n{expected}".encode())


def test_pipelined_requests_are_answered_in_order(port: int) -> None:
    one = b"POST /plain HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n%s\r\n%s"
    answers = raw(port, one % (3, b"", b"abc") + one % (5, b"connection: close\r\n", b"abcde"))
    assert [each.rpartition(b"\r\n")[2] for each in answers.split(b"HTTP/1.1 200 OK")[1:]] == [b"3", b"5"]


def test_a_stream_is_whole(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for _ in range(3):  # the connection stays
        connection.request("GET", "/web/stream")
        assert connection.getresponse().read() == b"one,two"
    connection.close()


def test_replicas_share_the_web_server_of_the_process_they_are_forked_from(port: int) -> None:
    @skate.remote(num_cpus=0)
    def loaded() -> list[str]:
        import sys

        return list(sys.modules)

    assert {"uvicorn", "starlette.requests", "skate.serve.replica.actor"} <= set(skate.get(loaded.remote()))
