"""Observation of requests from outside: metrics by route and deployment, the access log, request ids, and work
that ends.
"""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, WebSocket
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request
from starlette.responses import StreamingResponse
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import skate
from skate import serve
from tests.conformance.waiting import wait_for

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@serve.deployment(num_replicas=2, **LIGHT)
class Leaf:
    async def __call__(self, x: str) -> str:
        if x == "fail":
            raise ValueError("asked to")
        return x

    def request_id(self) -> str:
        return serve.context.request.get().request_id


@serve.deployment(max_ongoing_requests=1, max_queued_requests=1, graceful_shutdown_timeout_s=0.1, **LIGHT)
class Front:
    def __init__(self, leaf: Any, notes: str) -> None:
        self.leaf = leaf
        self.notes = Path(notes)

    async def __call__(self, request: Request) -> Any:
        what = request.query_params.get("what", "x")
        if what == "id":
            return [serve.context.request.get().request_id, await self.leaf.request_id.remote()]
        if what == "stream":
            return StreamingResponse(self.endless())
        if what == "generator":
            return self.endless()
        return await self.leaf.remote(what)

    async def endless(self) -> Any:
        import asyncio

        try:
            while True:
                yield "x" * 100_000  # more than the buffers between hold, so that the writer waits
                await asyncio.sleep(0)
        finally:
            with self.notes.open("a") as file:
                file.write("ended\n")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def port(logs: Path) -> Iterator[int]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        free: int = sock.getsockname()[1]
    skate.init(num_cpus=4, log_to_driver=False)
    serve.start(http_options={"port": free})
    app = Front.bind(Leaf.bind(), str(logs / "notes"))
    serve.run(app, route_prefix="/app", logging_config={"encoding": "JSON", "logs_dir": str(logs)})
    yield free
    serve.shutdown()
    skate.shutdown()


def ask(port: int, what: str, **headers: str) -> tuple[int, str, Any]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/app?what={what}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers


def metrics(port: int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the metrics by name and labels, summed over replicas."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/metrics", timeout=30) as answer:
        page = answer.read().decode()
    found: dict[Any, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = {key: value for key, value in sample.labels.items() if key != "replica"}
            key = sample.name.removeprefix("ray_serve_"), frozenset(labels.items())
            found[key] = found.get(key, 0) + sample.value
    return found


def labels(deployment: str, **more: str) -> frozenset[tuple[str, str]]:
    return frozenset({"application": "default", "deployment": deployment, **more}.items())


def test_counts_latencies_and_errors_by_route_and_deployment(port: int) -> None:
    before = metrics(port)
    for _ in range(5):
        assert ask(port, "x")[0] == 200
    for _ in range(2):
        assert ask(port, "fail")[0] == 500
    after = metrics(port)

    def grown(name: str, which: frozenset[tuple[str, str]]) -> float:
        return after[name, which] - before.get((name, which), 0)

    web = {"route": "/app", "method": "GET"}
    assert grown("num_http_requests_total", labels("Front", **web, status_code="200")) == 5
    assert grown("num_http_requests_total", labels("Front", **web, status_code="500")) == 2
    assert grown("num_http_error_requests_total", labels("Front", **web, status_code="500")) == 2
    assert grown("http_request_latency_ms_count", labels("Front", route="/app")) == 7
    assert grown("http_request_latency_ms_bucket", labels("Front", route="/app", le="+Inf")) == 7
    assert grown("http_request_latency_ms_bucket", labels("Front", route="/app", le="60000")) == 7
    assert 0 < grown("http_request_latency_ms_sum", labels("Front", route="/app")) < 60_000
    for name in ("Front", "Leaf"):
        assert grown("deployment_request_counter_total", labels(name)) == 7
        assert grown("deployment_error_counter_total", labels(name)) == 2
        assert grown("deployment_processing_latency_ms_count", labels(name)) == 7
        assert grown("deployment_processing_latency_ms_sum", labels(name)) > 0


def test_replicas_and_queues(port: int) -> None:
    found = metrics(port)
    assert found["deployment_target_replicas", labels("Leaf")] == 2
    assert found["deployment_replica_healthy", labels("Leaf")] == 2
    assert found["deployment_replica_healthy", labels("Front")] == 1
    streaming = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    streaming.request("GET", "/app?what=stream")
    assert streaming.getresponse().read(10) == b"xxxxxxxxxx"
    waiting = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    waiting.request("GET", "/app?what=x")

    def queued() -> bool:
        now = metrics(port)
        return (
            now["replica_processing_queries", labels("Front")] == 1
            and now["replica_pending_queries", labels("Front")] == 1
        )

    wait_for(queued, what="one request at work and one that waits")
    status, text, headers = ask(port, "x")
    assert (status, headers["retry-after"]) == (503, "1")
    assert "num_queued_requests=1, max_queued_requests=1" in text
    streaming.close()
    assert waiting.getresponse().read() == b"x"
    waiting.close()


@pytest.mark.parametrize("what", ["stream", "generator"])
def test_a_client_that_goes_in_the_middle_of_a_stream_ends_it(port: int, logs: Path, what: str) -> None:
    notes = logs / "notes"
    before = notes.read_text() if notes.exists() else ""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", f"/app?what={what}")
    assert connection.getresponse().read(200_000) == b"x" * 200_000
    connection.close()
    wait_for(
        lambda: notes.exists() and notes.read_text() == before + "ended\n", what="the generator to be closed"
    )
    assert ask(port, "x")[0] == 200  # its place is free again


def test_request_ids(port: int) -> None:
    status, text, headers = ask(port, "id", **{"X-Request-ID": "mine-1"})
    assert (status, json.loads(text), headers["x-request-id"]) == (200, ["mine-1", "mine-1"], "mine-1")
    _, text, headers = ask(port, "id")
    made = headers["x-request-id"]
    assert len(made) >= 32
    assert json.loads(text) == [made, made]
    assert ask(port, "id")[2]["x-request-id"] != made
    assert ask(port, "fail", **{"X-Request-ID": "mine-2"})[2]["x-request-id"] == "mine-2"


def test_the_access_log(port: int, logs: Path) -> None:
    assert ask(port, "x", **{"X-Request-ID": "logged-1"})[0] == 200
    assert ask(port, "fail", **{"X-Request-ID": "logged-2"})[0] == 500

    def lines() -> list[dict[str, Any]]:
        written = "".join(each.read_text() for each in sorted(logs.glob("replica_*.log")))
        return [json.loads(line) for line in written.splitlines()]

    def messages(request_id: str) -> list[str]:
        found = [line["message"] for line in lines() if line.get("request_id") == request_id]
        return sorted(message.rpartition(" ")[0] for message in found if message.endswith("ms"))

    wait_for(lambda: len(messages("logged-1")) == 2, what="both lines of the request")
    assert messages("logged-1") == ["CALL __call__ OK", "GET /app 200"]
    wait_for(lambda: len(messages("logged-2")) == 2, what="both lines of the request")
    assert messages("logged-2") == ["CALL __call__ ERROR", "GET /app 500"]
    assert {(line["application"], line["deployment"][:8]) for line in lines() if "request_id" in line} == {
        ("default", "default_")
    }


web = FastAPI()


@serve.deployment(**LIGHT)
@serve.ingress(web)
class Sockets:
    @web.websocket("/talk")
    async def talk(self, socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text(serve.context.request.get().request_id)
        await socket.close()

    @web.websocket("/refuse")
    async def refuse(self, socket: WebSocket) -> None:
        await socket.close()


def test_websockets_are_counted_by_how_they_began(port: int) -> None:
    serve.run(Sockets.bind(), name="sockets", route_prefix="/sockets")
    with connect(
        f"ws://127.0.0.1:{port}/sockets/talk", additional_headers={"x-request-id": "ws-1"}
    ) as socket_:
        assert socket_.recv() == "ws-1"
    with pytest.raises(InvalidStatus) as raised, connect(f"ws://127.0.0.1:{port}/sockets/refuse"):
        pass
    assert raised.value.response.status_code == 403

    def count(status: str) -> float:
        which = {"application": "sockets", "deployment": "Sockets", "route": "/sockets", "method": "WS"}
        return metrics(port).get(
            ("num_http_requests_total", frozenset({**which, "status_code": status}.items())), 0
        )

    wait_for(lambda: (count("101"), count("403")) == (1, 1), what="both WebSockets to be counted")
    serve.delete("sockets")
