"""HTTP over several nodes: a proxy on each node, connections that are carried to replicas elsewhere, reported loads."""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI, WebSocket
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from websockets.sync.client import connect

import skate
from skate import get_actor, get_runtime_context, serve
from skate.cluster_utils import Cluster
from tests.conformance.waiting import wait_for

PORT = 8431
app = FastAPI()


@serve.deployment(
    num_replicas=1, ray_actor_options={"num_cpus": 0, "resources": {"far": 1}}, max_ongoing_requests=100
)
@serve.ingress(app)
class Far:
    """An application on the other node."""

    @app.get("/node")
    async def node(self, request: Request) -> dict[str, Any]:
        client = request.client
        return {"node": get_runtime_context().get_node_id(), "client": client and client.host}

    @app.post("/echo")
    async def echo(self, request: Request) -> Response:
        return Response(await request.body())

    @app.get("/count")
    async def count(self, last: int) -> StreamingResponse:
        async def numbers() -> Any:
            for number in range(last):
                yield f"{number}\n"

        return StreamingResponse(numbers())

    @app.get("/wait")
    async def wait(self) -> str:
        signal = get_actor("signal", namespace="tunnels")
        await signal.wait.remote()
        return "waited"

    @app.websocket("/talk")
    async def talk(self, websocket: WebSocket) -> None:
        await websocket.accept()
        while (text := await websocket.receive_text()) != "end":
            await websocket.send_text(text.upper())
        await websocket.close()


@serve.deployment(num_replicas=1, ray_actor_options={"num_cpus": 0, "resources": {"near": 1}})
class Near:
    """An application on the node of the controller."""

    def __call__(self, request: Request) -> str:
        return skate.get_runtime_context().get_node_id()


@skate.remote(num_cpus=0)
class Signal:
    """Lets requests wait."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.waits = 0

    async def wait(self) -> None:
        self.waits += 1
        await self.event.wait()

    async def set(self) -> None:
        self.event.set()

    async def waiting(self) -> int:
        return self.waits


@pytest.fixture(scope="module")
def far() -> Iterator[str]:
    """Start two nodes with an application on each; yield the id of the second one."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "resources": {"near": 10}})
    node = cluster.add_node(num_cpus=1, resources={"far": 10})
    skate.init(address=cluster.address, namespace="tunnels")
    serve.start(http_options={"port": PORT})
    serve.run(Far.bind(), name="far", route_prefix="/far")
    serve.run(Near.bind(), name="near", route_prefix="/near")
    yield node.node_id
    serve.shutdown()
    skate.shutdown()
    cluster.shutdown()


@pytest.fixture
def connection(far: str) -> Iterator[http.client.HTTPConnection]:
    made = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
    yield made
    made.close()


def fetch(connection: http.client.HTTPConnection, path: str, body: bytes | None = None) -> bytes:
    connection.request("GET" if body is None else "POST", path, body)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    return text


def test_a_connection_reaches_applications_on_both_nodes(
    far: str, connection: http.client.HTTPConnection
) -> None:
    for _ in range(3):
        assert f'"node":"{far}"'.encode() in fetch(connection, "/far/node")
        near = fetch(connection, "/near").decode()
        assert near and near != far


def test_the_address_of_the_client_is_kept(connection: http.client.HTTPConnection) -> None:
    assert b'"client":"127.0.0.1"' in fetch(connection, "/far/node")


@pytest.mark.parametrize("size", [0, 1, 256 * 1024, 5_000_001])
def test_bodies_arrive_whole(connection: http.client.HTTPConnection, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    assert fetch(connection, "/far/echo", body) == body
    assert fetch(connection, "/far/echo", b"next") == b"next"


def test_streams_arrive_in_order(connection: http.client.HTTPConnection) -> None:
    lines = fetch(connection, "/far/count?last=2000").split()
    assert [int(line) for line in lines] == list(range(2000))


def test_a_websocket_talks(far: str) -> None:
    with connect(f"ws://127.0.0.1:{PORT}/far/talk") as websocket:
        for text in ("one", "two"):
            websocket.send(text)
            assert websocket.recv() == text.upper()
        websocket.send("end")


def test_a_client_that_leaves_ends_its_tunnel(far: str) -> None:
    controller = skate.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
    signal = Signal.options(name="signal").remote()
    clients = [http.client.HTTPConnection("127.0.0.1", PORT) for _ in range(3)]
    for client in clients:
        client.request("GET", "/far/wait")
    wait_for(lambda: skate.get(signal.waiting.remote()) == 3, what="three requests")
    # The loads of the other node reach the controller.
    wait_for(lambda: "ongoing 3" in _load(controller), what="their load")
    clients[0].close()
    skate.get(signal.set.remote())
    for client in clients[1:]:
        assert client.getresponse().read() == b'"waited"'
        client.close()
    wait_for(lambda: "ongoing 0" in _load(controller), what="the end of all requests")
    skate.kill(signal)


def _load(controller: Any) -> str:
    loads = skate.get(controller.remote_loads.remote())
    return f"ongoing {sum(count for node in loads.values() for count in node.values())}"


def test_each_node_has_a_proxy(far: str) -> None:
    wait_for(lambda: far in serve.status().proxies, what="the proxy of the other node")
    assert len(serve.status().proxies) == 2


def test_requests_survive_the_end_of_a_proxy(far: str, connection: http.client.HTTPConnection) -> None:
    wait_for(lambda: far in serve.status().proxies, what="the proxy of the other node")
    before = skate.get_actor(f"SERVE_PROXY_ACTOR-{far}", namespace="serve")
    skate.kill(before)
    stop = threading.Event()
    answers = []

    def load() -> None:
        while not stop.is_set():
            client = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
            answers.append(b"node" in fetch(client, "/far/node"))
            client.close()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        wait_for(lambda: _proxy(far) not in (None, before), what="another proxy")
    finally:
        stop.set()
        thread.join()
    assert answers and all(answers)


def _proxy(node: str) -> Any:
    try:
        return skate.get_actor(f"SERVE_PROXY_ACTOR-{node}", namespace="serve")
    except ValueError:
        return None
