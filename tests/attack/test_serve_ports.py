"""The REST API, Serve's own paths, gRPC and WebSockets: the information and memory available to untrusted clients."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from attack.clients import read_answer
from attack.test_http_over_sockets import LIGHT, echo, free_port, wait_for

import skate
from skate import serve
from skate.llm.openai.keys import ApiKeys
from skate.serve.graph import build
from skate.serve.ingress.dispatcher import Dispatcher, Reject
from skate.serve.metrics_http import Requests
from skate.serve.rest import HOSTS_VARIABLE, Api, act
from skate.serve.routing.table import DeploymentEntry, Table


def rest(api: Api, body: bytes = b"", **headers: str) -> int:
    """Send a request to the API; return the status."""
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "PATCH", "path": "/nowhere", "headers": named}
    asyncio.run(api(scope, receive, send))
    status: int = messages[0]["status"]
    return status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:8265"}, 404),
        ({"host": "127.0.0.1:8265"}, 404),
        ({"host": "[::1]:8265"}, 404),
        ({"host": "10.1.2.3"}, 404),
        ({}, 404),
        ({"host": "LOCALHOST"}, 404),
        ({"host": socket.gethostname()}, 404),
        ({"host": "serve.example"}, 404),
        ({"host": "rebound.evil"}, 403),
        ({"host": "localhost.evil"}, 403),
        ({"host": "localhost", "origin": "http://localhost:3000"}, 404),
        ({"host": "localhost", "origin": "https://evil.example"}, 403),
        ({"host": "localhost", "origin": "null"}, 403),
    ],
)
def test_the_rest_api_asks_for_a_host_and_origin_it_knows(
    headers: dict[str, str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOSTS_VARIABLE, "other.example, serve.example")
    api = Api("secret")
    assert rest(api, authorization="Bearer secret", **headers) == status
    assert rest(api, authorization="Bearer wrong", **headers) == (401 if status == 404 else 403)


def test_json_nested_too_deep_is_a_mistake_of_the_request() -> None:
    body = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    status, answer = act("PUT", "/api/serve/applications/", body)
    assert status == 400
    assert "nested" in answer["error"]


def test_options_that_cannot_be_are_refused_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Any] = []
    monkeypatch.setattr("skate.serve.config_loader.deploy", lambda schema, apart: started.append(schema))
    for options in (
        {"port": -1},
        {"keep_alive_timeout_s": -1},
        {"request_timeout_s": -1},
        {"ssl_keyfile": "x"},
    ):
        body = json.dumps({"applications": [], "http_options": options}).encode()
        status, answer = act("PUT", "/api/serve/applications/", body)
        assert status == 400 and answer["field"].startswith("http_options"), answer
    assert started == []


def test_methods_that_clients_make_up_are_counted_as_one() -> None:
    requests = Requests("a", "A")
    for number in range(1000):
        requests.done({"method": f"M{number}"}, "/", 200, 0.1)
    requests.done({"method": "GET"}, "/", 200, 0.1)
    assert requests.snapshot()["counts"] == {("/", "OTHER", 200): 1000, ("/", "GET", 200): 1}


def add_nothing(servicer: Any, server: Any) -> None:
    """Add no service: these tests need only Serve's own."""


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    """Return the ports of HTTP and gRPC; one application has no keys, and one has keys."""
    http, grpc = free_port(), free_port()

    @serve.deployment(name="Kept", **LIGHT)
    class Kept:
        def __init__(self) -> None:
            self.api_keys = ApiKeys(["secret"])

        async def __call__(self, request: Any) -> str:
            return "kept"

    skate.init(num_cpus=4, log_to_driver=False, preload=["skate.serve.replica.preload"])
    functions = [add_nothing]
    serve.start(
        http_options={"port": http}, grpc_options={"port": grpc, "grpc_servicer_functions": functions}
    )
    serve.run(echo("a"), name="a", route_prefix="/")
    serve.run(Kept.bind(), name="kept", route_prefix="/kept")
    yield http, grpc
    serve.shutdown()
    skate.shutdown()


def get(port: int, path: str, more: bytes = b"") -> tuple[int, bytes]:
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        sock.sendall(b"GET %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (path.encode(), more))
        with sock.makefile("rb") as file:
            return read_answer(file)


@pytest.mark.parametrize("path", ["/-/metrics", "/-/routes"])
def test_serves_own_paths_want_the_key_of_an_application_that_has_one(
    ports: tuple[int, int], path: str
) -> None:
    """Ten connections, so that processes of both applications accept some."""
    port, _ = ports
    for _ in range(10):
        assert get(port, path)[0] == 401
        assert get(port, path, b"Authorization: Bearer wrong\r\n")[0] == 401
        assert get(port, path, b"Authorization: Bearer secret\r\n")[0] == 200
        assert get(port, "/-/healthz")[0] == 200


@serve.deployment(name="Asleep", autoscaling_config={"min_replicas": 0, "max_replicas": 1}, **LIGHT)
class Asleep:
    """A deployment that never has a replica."""

    def __init__(self, api_keys: ApiKeys) -> None:
        self.api_keys = api_keys


@pytest.mark.parametrize("path", ["/-/metrics", "/-/routes"])
def test_keys_of_an_application_without_a_replica_guard_as_well(path: str) -> None:
    """Neither processes of other applications nor the controller answer without a key."""
    table = Table(
        0,
        {("kept", "Kept"): DeploymentEntry((), 5, -1, guarded=True), ("a", "a"): DeploymentEntry((), 5, -1)},
    )
    for own in (("a", "a"), None):
        dispatcher = Dispatcher(own, "r", "n")
        dispatcher.update(table)
        assert isinstance(dispatcher.decide(path), Reject)
        assert dispatcher.decide("/-/healthz") is None
    dispatcher = Dispatcher(("kept", "Kept"), "r", "n")
    dispatcher.update(table)
    assert dispatcher.decide(path) is None  # it has the keys itself
    assert build(Asleep.bind(api_keys=ApiKeys(["secret"])), "kept", "/").parts[0].guarded
    assert not build(echo("a"), "a", "/").parts[0].guarded


def test_a_keyed_application_that_sleeps_is_not_spoken_of(ports: tuple[int, int]) -> None:
    """The running application with keys is deleted first, so that only the one without replicas requires a key."""
    port, _ = ports
    serve.run(Asleep.bind(api_keys=ApiKeys(["secret"])), name="asleep", route_prefix="/asleep")
    serve.delete("kept")
    try:
        wait_for(lambda: get(port, "/-/routes")[0] == 503, "the answer without a replica that has keys")
        assert get(port, "/-/metrics")[0] == 503
        assert get(port, "/-/healthz")[0] == 200
        assert get(port, "/") == (200, b"a||0")
    finally:
        serve.delete("asleep")
    wait_for(lambda: get(port, "/-/routes")[0] == 200, "the routes without any keys")


def test_a_websocket_to_a_plain_deployment_is_refused(ports: tuple[int, int]) -> None:
    upgrade = (
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    assert get(ports[0], "/", upgrade)[0] == 403
    assert get(ports[0], "/") == (200, b"a||0")


def test_a_grpc_message_over_the_limit_is_refused(ports: tuple[int, int]) -> None:
    grpc = pytest.importorskip("grpc")
    with grpc.insecure_channel(f"127.0.0.1:{ports[1]}") as channel:
        call = channel.unary_unary("/ray.serve.RayServeAPIService/Healthz")
        wait_for(lambda: call(b"", timeout=10, metadata=[("application", "a")]) is not None, "gRPC to answer")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\x0a" + b"x" * (5 << 20), timeout=10, metadata=[("application", "a")])
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_the_config_file_takes_the_limits(ports: tuple[int, int]) -> None:
    from skate.serve.config_loader import http_options
    from skate.serve.schema import ServeDeploySchema

    options = {"max_request_head_bytes": 1000, "max_request_headers": 5, "request_head_timeout_s": None}
    made = http_options(ServeDeploySchema.model_validate({"applications": [], "http_options": options}))
    assert {name: getattr(made, name) for name in options} == options
    assert json.dumps(made.model_dump(), default=str)
