"""gRPC with a real client: all four kinds of methods, the context, statuses, health, reflection, models and deadlines."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import skate
from skate import serve
from skate.serve.exceptions import gRPCStatusError
from skate.serve.grpc_util import RayServegRPCContext, gRPCInputStream
from tests.conformance.waiting import Gate, wait_for

grpc = pytest.importorskip("grpc")

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}
UNARY = ("Echo", "Said", "Fail", "Status", "Who", "Wait", "Late", "Absent")


def add_demo(servicer: Any, server: Any) -> None:
    """Register a service like generated code, for messages that are bytes."""
    import grpc

    handlers = {name: grpc.unary_unary_rpc_method_handler(getattr(servicer, name)) for name in UNARY}
    handlers["Count"] = grpc.unary_stream_rpc_method_handler(servicer.Count)
    handlers["Join"] = grpc.stream_unary_rpc_method_handler(servicer.Join)
    handlers["Shout"] = grpc.stream_stream_rpc_method_handler(servicer.Shout)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("demo.Demo", handlers),))


@serve.deployment(max_ongoing_requests=3, max_queued_requests=0, **LIGHT)
class Demo:
    def __init__(self, word: str, gate: str) -> None:
        self.word = word
        self.gate = Gate(gate)

    def Echo(self, request: bytes) -> bytes:  # noqa: N802 (a service's method, as all below)
        return self.word.encode() + b":" + request

    async def Said(self, request: bytes, grpc_context: RayServegRPCContext) -> bytes:  # noqa: N802
        grpc_context.set_trailing_metadata([("colour", "red")])
        model = serve.get_multiplexed_model_id()
        names = (
            grpc_context.request_id(),
            grpc_context.application(),
            grpc_context.multiplexed_model_id(),
            model,
        )
        return " ".join(map(str, names)).encode()

    async def Fail(self, request: bytes) -> bytes:  # noqa: N802
        raise ValueError("wrong")

    async def Status(self, request: bytes, grpc_context: RayServegRPCContext) -> bytes:  # noqa: N802
        import grpc

        if request == b"raised":
            raise gRPCStatusError(ValueError("x"), grpc.StatusCode.DATA_LOSS, "gone")
        grpc_context.set_code(grpc.StatusCode.FAILED_PRECONDITION)
        grpc_context.set_details("not yet")
        if request == b"then raises":
            raise ValueError("after")
        return b""

    async def Who(self, request: bytes) -> bytes:  # noqa: N802
        return serve.get_replica_context().replica_tag.encode()

    def Wait(self, request: bytes) -> bytes:  # noqa: N802
        self.gate.wait()
        return b"waited"

    async def Late(self, request: bytes) -> bytes:  # noqa: N802
        await asyncio.Event().wait()
        return b""

    async def Count(self, request: bytes, grpc_context: RayServegRPCContext) -> Any:  # noqa: N802
        for number in range(int(request)):
            yield str(number).encode()
        grpc_context.set_trailing_metadata([("count", request.decode())])

    async def Join(self, stream: gRPCInputStream[bytes]) -> bytes:  # noqa: N802
        return b"+".join([each async for each in stream])

    async def Shout(self, stream: gRPCInputStream[bytes]) -> Any:  # noqa: N802
        async for each in stream:
            yield each.upper()


class Client:
    """A client that calls methods over one channel."""

    def __init__(self, channel: Any, gate: Gate, channel_target: str) -> None:
        self.channel = channel
        self.channel_target = channel_target
        self.gate = gate

    def call(self, name: str, request: bytes = b"", app: str = "one", **metadata: str) -> Any:
        metadata_sent = [("application", app), *metadata.items()] if app else list(metadata.items())
        return self.channel.unary_unary(f"/demo.Demo/{name}").with_call(
            request, metadata=metadata_sent, timeout=30
        )

    def refused(self, name: str, request: bytes = b"", app: str = "one") -> tuple[str, str]:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(name, request, app)
        return caught.value.code().name, caught.value.details()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        http_port, grpc_port = one.getsockname()[1], two.getsockname()[1]
    gate = Gate(tmp_path_factory.mktemp("gates") / "gate")
    skate.init(num_cpus=4, log_to_driver=False)
    options = {"port": grpc_port, "grpc_servicer_functions": [add_demo], "request_timeout_s": 2.5}
    serve.start(http_options={"port": http_port}, grpc_options=options)
    with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
        made = Client(channel, gate, f"127.0.0.1:{grpc_port}")
        serve.run(Demo.bind("one", str(gate.path)), name="one", route_prefix="/one")
        assert made.call("Echo", b"hi", app="")[0] == b"one:hi", "there is one application only"
        serve.run(Demo.bind("two", str(gate.path)), name="two", route_prefix=None)
        yield made
    serve.shutdown()
    skate.shutdown()


@pytest.mark.parametrize("app", ["one", "two"])
def test_all_kinds_of_methods_of_each_application(client: Client, app: str) -> None:
    """The named application answers, regardless of which application's replica has the connection."""
    metadata_sent = (("application", app),)
    assert client.call("Echo", b"hi", app)[0] == f"{app}:hi".encode()
    counted = client.channel.unary_stream("/demo.Demo/Count")(b"50", metadata=metadata_sent, timeout=30)
    assert list(counted) == [str(number).encode() for number in range(50)]
    assert ("count", "50") in counted.trailing_metadata()
    joined = client.channel.stream_unary("/demo.Demo/Join")(
        iter([b"a", b"b", b"c"]), metadata=metadata_sent, timeout=30
    )
    assert joined == b"a+b+c"
    turn = threading.Semaphore(0)

    def one_by_one() -> Iterator[bytes]:
        for word in (b"x", b"y", b"z"):
            yield word
            assert turn.acquire(timeout=20), "each message is answered before the next is sent"

    received = []
    for answer in client.channel.stream_stream("/demo.Demo/Shout")(
        one_by_one(), metadata=metadata_sent, timeout=30
    ):
        received.append(answer)
        turn.release()
    assert received == [b"X", b"Y", b"Z"]


@pytest.mark.parametrize("app", ["one", "two"])
def test_the_context_of_a_request(client: Client, app: str) -> None:
    answer, call = client.call("Said", b"", app, request_id="id-1", multiplexed_model_id="m-1")
    assert answer == f"id-1 {app} m-1 m-1".encode()
    assert dict(call.trailing_metadata()) == {"request_id": "id-1", "colour": "red"}
    own = dict(client.call("Echo", b"")[1].trailing_metadata())
    assert len(own["request_id"]) >= 16, "a request without an id is given one"


@pytest.mark.parametrize("app", ["one", "two"])
def test_what_goes_wrong_has_a_status(client: Client, app: str) -> None:
    assert client.refused("Fail", b"", app) == ("INTERNAL", "ValueError: wrong")
    assert client.refused("Status", b"", app) == ("FAILED_PRECONDITION", "not yet")
    assert client.refused("Status", b"then raises", app) == ("FAILED_PRECONDITION", "not yet")
    assert client.refused("Status", b"raised", app) == ("DATA_LOSS", "gone")
    code, text = client.refused("Absent", b"", app)
    assert code == "UNIMPLEMENTED" and "Echo" in text


def test_which_application(client: Client) -> None:
    code, text = client.refused("Echo", app="nobody")
    assert code == "NOT_FOUND" and "one, two" in text
    code, text = client.refused("Echo", app="")
    assert code == "NOT_FOUND" and "`application` is missing" in text


def test_a_full_queue_and_a_deadline(client: Client) -> None:
    handle = serve.get_app_handle("one")
    metadata = (("application", "one"),)
    waiting = [
        client.channel.unary_unary("/demo.Demo/Wait").future(b"", metadata=metadata, timeout=30)
        for _ in range(3)
    ]
    wait_for(
        lambda: handle._way()._ready and handle._way()._ready[0].load() >= 3, 20, "three requests in work"
    )
    assert client.refused("Echo")[0] == "RESOURCE_EXHAUSTED"
    client.gate.open()
    assert [each.result(20) for each in waiting] == [b"waited"] * 3
    late = [
        client.channel.unary_unary("/demo.Demo/Late").future(
            b"", metadata=(("application", app),), timeout=30
        )
        for app in ("one", "two")
    ]
    for each in late:
        error = each.exception(20)
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and "2.5 s" in error.details()
    wait_for(lambda: handle._way()._ready[0].load() == 0, 20, "the place of the request that was late")


def test_health_applications_and_reflection(client: Client) -> None:
    pytest.importorskip("google.protobuf")
    from skate.serve.generated import serve_pb2, serve_pb2_grpc

    own = serve_pb2_grpc.RayServeAPIServiceStub(client.channel)
    assert own.Healthz(serve_pb2.HealthzRequest(), timeout=20).message == "success"
    assert list(own.ListApplications(serve_pb2.ListApplicationsRequest(), timeout=20).application_names) == [
        "one",
        "two",
    ]
    pytest.importorskip("grpc_reflection")
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    known = ProtoReflectionDescriptorDatabase(client.channel)
    assert {"demo.Demo", "ray.serve.RayServeAPIService"} <= set(known.get_services())
    file = known.FindFileContainingSymbol("ray.serve.RayServeAPIService")
    assert [each.name for each in file.service[0].method] == ["ListApplications", "Healthz"]


def test_a_model_goes_to_the_replica_that_holds_it(client: Client) -> None:
    @serve.deployment(num_replicas=3, **LIGHT)
    class Models:
        @serve.multiplexed(max_num_models_per_replica=3)
        async def load(self, name: str) -> str:
            return f"{name} in {serve.get_replica_context().replica_tag}"

        async def Who(self, request: bytes) -> bytes:  # noqa: N802
            return (await self.load(serve.get_multiplexed_model_id())).encode()

    serve.run(Models.bind(), name="models", route_prefix=None)
    client.call("Who", app="models", multiplexed_model_id="m")
    table = serve.get_app_handle("models")._way
    wait_for(lambda: any("m" in each.models for each in table()._ready), 20, "the model to be known")
    found = {client.call("Who", app="models", multiplexed_model_id="m")[0] for _ in range(12)}
    serve.delete("models")
    assert len(found) <= 2, "the first may have gone elsewhere before it was known who holds the model"


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_rolling_update_fails_hardly_a_request(client: Client, replicas: int) -> None:
    """Clients call all the time, each over its own channel, while two new versions replace the replicas.

    The server of gRPC cancels a request that arrives at the very moment when it stops; it offers no other way to end
    connections. So each stop may cancel at most one request of a client.
    """
    target = client.channel_target

    def deploy(word: str) -> None:
        demo = Demo.options(
            num_replicas=replicas, version=word, max_ongoing_requests=100, max_queued_requests=-1
        )
        serve.run(demo.bind(word, str(client.gate.path)), name="three", route_prefix=None)

    answers: Counter[str] = Counter()
    ended = threading.Event()

    def ask() -> None:
        metadata = (("application", "three"),)
        # Channels of one process share connections unless this is set.
        with grpc.insecure_channel(target, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = channel.unary_unary("/demo.Demo/Echo")
            while not ended.is_set():
                try:
                    answers[call(b"x", metadata=metadata, timeout=30).decode()] += 1
                except grpc.RpcError as error:
                    answers[f"{error.code().name}: {error.details()}"] += 1

    deploy("v1")
    threads = [threading.Thread(target=ask) for _ in range(4)]
    try:
        for each in threads:
            each.start()
        for word in ("v1", "v2", "v3"):
            deploy(word)
            wait_for(lambda word=word: answers[f"{word}:x"] > 50, 30, f"answers of {word}")
    finally:
        ended.set()
        for each in threads:
            each.join(30)
        serve.delete("three")
    failed = answers - Counter({word: answers[word] for word in ("v1:x", "v2:x", "v3:x")})
    assert failed.keys() <= {"CANCELLED: CANCELLED"}, answers
    assert failed.total() <= 2 * len(threads), answers
