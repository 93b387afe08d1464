"""gRPC requests to services without generated code, and custom routers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

import skate
from skate import serve
from skate.serve.request_router import RequestRouter

grpc = pytest.importorskip("grpc")

from skate.serve.generated import serve_pb2, serve_pb2_grpc  # noqa: E402  (they need grpc)

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


def add_echo(servicer: Any, server: Any) -> None:
    """Register an echo like generated code: bytes in, bytes out."""
    import grpc

    handlers = {
        "Echo": grpc.unary_unary_rpc_method_handler(servicer.Echo),
        "Fail": grpc.unary_unary_rpc_method_handler(servicer.Fail),
        "Count": grpc.unary_stream_rpc_method_handler(servicer.Count),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("demo.Echo", handlers),))


@serve.deployment(**LIGHT)
class Echo:
    def __init__(self, word: str) -> None:
        self.word = word

    async def Echo(self, request: bytes) -> bytes:  # noqa: N802 (a service's method)
        return self.word.encode() + b":" + request

    async def Fail(self, request: bytes) -> bytes:  # noqa: N802
        raise ValueError("wrong")

    async def Count(self, request: bytes) -> Any:  # noqa: N802
        for i in range(int(request)):
            yield str(i).encode()


@pytest.fixture(scope="module")
def channel() -> Iterator[Any]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        http_port, grpc_port = one.getsockname()[1], two.getsockname()[1]
    skate.init(num_cpus=4, log_to_driver=False)
    ready = "ray.serve.generated.serve_pb2_grpc.add_UserDefinedServiceServicer_to_server"
    options = {"port": grpc_port, "grpc_servicer_functions": [add_echo, ready]}
    serve.start(http_options={"port": http_port}, grpc_options=options)
    serve.run(Echo.bind("one"), name="one", route_prefix="/one")
    serve.run(Echo.bind("two"), name="two", route_prefix="/two")
    with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as made:
        yield made
    serve.shutdown()
    skate.shutdown()


@pytest.mark.parametrize("app", ["one", "two"])
def test_serve_16_the_application_is_named_by_metadata(channel: Any, app: str) -> None:
    call = channel.unary_unary("/demo.Echo/Echo")
    for _ in range(4):
        assert call(b"hi", metadata=(("application", app),), timeout=20) == app.encode() + b":hi"


def test_serve_16_a_failure_has_a_status(channel: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/demo.Echo/Fail")(b"", metadata=(("application", "one"),), timeout=20)
    assert caught.value.code() is grpc.StatusCode.INTERNAL and "wrong" in caught.value.details()


def test_serve_16_an_unknown_application(channel: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/demo.Echo/Echo")(b"", metadata=(("application", "nobody"),), timeout=20)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


@serve.deployment(**LIGHT)
class Ready:
    def __call__(self, message: Any) -> Any:
        return serve_pb2.UserDefinedResponse(greeting=f"hello {message.name}", num_x2=2 * message.num)

    def Streaming(self, message: Any) -> Iterator[Any]:  # noqa: N802
        for number in range(message.num):
            yield serve_pb2.UserDefinedResponse(num_x2=number)


def test_the_service_that_comes_with_serve(channel: Any) -> None:
    serve.run(Ready.bind(), name="ready", route_prefix=None)
    stub = serve_pb2_grpc.UserDefinedServiceStub(channel)
    message = serve_pb2.UserDefinedMessage(name="you", num=3)
    to_it = {"metadata": (("application", "ready"),), "timeout": 20}
    answer = stub.__call__(message, **to_it)
    assert (answer.greeting, answer.num_x2) == ("hello you", 6)
    assert [each.num_x2 for each in stub.Streaming(message, **to_it)] == [0, 1, 2]
    serve.delete("ready")


class Second(RequestRouter):
    async def choose_replicas(self, candidate_replicas: Any, pending_request: Any = None) -> Any:
        ordered = sorted(candidate_replicas, key=lambda each: each.replica_id.unique_id)
        return [[ordered[-1]]]


def test_a_router_of_ones_own(channel: Any) -> None:
    @serve.deployment(num_replicas=3, request_router_config={"request_router_class": Second}, **LIGHT)
    class Who:
        async def __call__(self) -> str:
            return serve.get_replica_context().replica_tag

    handle = serve.run(Who.bind(), name="who", route_prefix=None)
    assert len({handle.remote().result() for _ in range(20)}) == 1
