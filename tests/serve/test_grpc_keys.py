"""If an application has API keys, gRPC lists applications only for requests with a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import skate
from skate import serve
from skate.llm.openai.keys import ApiKeys
from tests.serve.standing import free_port

grpc = pytest.importorskip("grpc")
pytest.importorskip("google.protobuf")

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@serve.deployment(**LIGHT)
class Guarded:
    def __init__(self) -> None:
        self.api_keys = ApiKeys(["sesame"])

    def Echo(self, request: bytes) -> bytes:  # noqa: N802 (a service's method)
        return request


@serve.deployment(**LIGHT)
class Open:
    def Echo(self, request: bytes) -> bytes:  # noqa: N802
        return request


def add_echo(servicer: Any, server: Any) -> None:
    import grpc

    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(servicer.Echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("demo.Echo", handlers),))


@pytest.fixture(scope="module")
def channel() -> Iterator[Any]:
    port = free_port()
    skate.init(num_cpus=2, log_to_driver=False)
    options = {"port": port, "grpc_servicer_functions": [add_echo]}
    serve.start(http_options={"port": free_port()}, grpc_options=options)
    serve.run(Open.bind(), name="open", route_prefix=None)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as made:
        assert listed(made) == ["open"], "no application has keys so far"
        serve.run(Guarded.bind(), name="guarded", route_prefix="/guarded")
        yield made
    serve.shutdown()
    skate.shutdown()


def listed(channel: Any, key: str | None = None) -> list[str]:
    from skate.serve.generated import serve_pb2, serve_pb2_grpc

    metadata = [] if key is None else [("authorization", key)]
    own = serve_pb2_grpc.RayServeAPIServiceStub(channel)
    request = serve_pb2.ListApplicationsRequest()
    return list(own.ListApplications(request, metadata=metadata, timeout=20).application_names)


@pytest.mark.parametrize("key", [None, "", "Bearer", "Bearer wrong", "Basic sesame", "sesame"])
def test_without_a_right_key_no_application_is_named(channel: Any, key: str | None) -> None:
    for _ in range(4):  # regardless of the replica that answers
        with pytest.raises(grpc.RpcError) as caught:
            listed(channel, key)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "API key" in caught.value.details() and "guarded" not in caught.value.details()


def test_with_a_key_they_are(channel: Any) -> None:
    for _ in range(4):
        assert listed(channel, "Bearer sesame") == ["guarded", "open"]


@pytest.mark.parametrize("app", ["", "nobody"])
def test_an_error_names_them_only_to_those_with_a_key(channel: Any, app: str) -> None:
    def text(*more: tuple[str, str]) -> str:
        metadata = [*([("application", app)] if app else []), *more]
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/demo.Echo/Echo")(b"", metadata=metadata, timeout=20)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        details: str = caught.value.details()
        return details

    assert "guarded" not in text() and "ListApplications" in text()
    assert "guarded, open" in text(("authorization", "Bearer sesame"))
