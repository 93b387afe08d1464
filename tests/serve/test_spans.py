"""OpenTelemetry: a span for each request and each handle call, in one trace across processes, which W3C headers carry."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import serve
from tests.serve import span_file

pytest.importorskip("opentelemetry.sdk")

HAS_GRPC = importlib.util.find_spec("grpc") is not None
LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}
TRACE, ABOVE = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{ABOVE}-01"


@serve.deployment(**LIGHT)
class Leaf:
    async def __call__(self, x: int) -> int:
        if x < 0:
            raise ValueError("below zero")
        return x

    async def count(self, n: int) -> Any:
        for i in range(n):
            yield i


@serve.deployment(in_process=True)
class Near:
    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    async def __call__(self, x: int) -> int:
        return int(await self.leaf.remote(x))


@serve.deployment(**LIGHT)
class Front:
    def __init__(self, leaf: Any, near: Any) -> None:
        self.leaf = leaf
        self.near = near

    async def __call__(self, request: Any) -> Any:
        what = request.query_params.get("what")
        if what == "near":
            return await self.near.remote(3)
        if what == "stream":
            return [x async for x in self.leaf.options(method_name="count", stream=True).remote(3)]
        return await self.leaf.remote(int(what or 1))

    async def Echo(self, request: bytes) -> bytes:  # noqa: N802 (a method of a gRPC service)
        return str(await self.leaf.remote(int(request))).encode()


def add_demo(servicer: Any, server: Any) -> None:
    """Register a service like generated code, for messages that are bytes."""
    import grpc

    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(servicer.Echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("demo.Demo", handlers),))


class Spans:
    def __init__(self, file: Path, port: int, grpc_port: int) -> None:
        self.file = file
        self.port = port
        self.grpc_port = grpc_port

    def ask(self, what: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/app?what={what}", headers=headers or {}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers

    def of_trace(self, trace: str, count: int) -> dict[str, dict[str, Any]]:
        """Wait for `count` spans of a trace and return them by name. The span of a call may be written after its answer."""
        deadline = time.monotonic() + 20
        while True:
            lines = self.file.read_text().splitlines() if self.file.exists() else []
            found = [span for span in map(json.loads, lines) if span["trace"] == trace]
            if len(found) >= count:
                assert len(found) == count, [span["name"] for span in found]
                return {span["name"]: span for span in found}
            assert time.monotonic() < deadline, f"waited 20 s for {count} spans; there are {found}"
            threading.Event().wait(0.01)


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spans]:
    file = tmp_path_factory.mktemp("spans") / "spans.jsonl"
    with socket.socket() as sock, socket.socket() as other:
        sock.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, grpc_port = sock.getsockname()[1], other.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(span_file.VARIABLE, str(file))
        skate.init(num_cpus=4, log_to_driver=False)
        where = "tests.serve.span_file:exporters"
        tracing = {"enabled": True, "exporter_import_path": where, "sampling_ratio": 1.0}
        grpc_options = {"port": grpc_port, "grpc_servicer_functions": [add_demo]} if HAS_GRPC else None
        serve.start(http_options={"port": port}, grpc_options=grpc_options, tracing_config=tracing)
        leaf = Leaf.bind()
        serve.run(Front.bind(leaf, Near.bind(leaf)), name="app", route_prefix="/app")
        yield Spans(file, port, grpc_port)
        serve.shutdown()
        skate.shutdown()


def trace_of(number: int) -> tuple[str, dict[str, str]]:
    trace = f"{number:032x}"
    return trace, {"traceparent": f"00-{trace}-{ABOVE}-01", "x-request-id": f"request-{number}"}


def test_a_request_continues_the_trace_of_its_header(spans: Spans) -> None:
    trace, headers = trace_of(1)
    assert spans.ask("5", headers)[0] == 200
    found = spans.of_trace(trace, 3)
    request, call, work = found["GET /app"], found["Leaf.__call__ call"], found["Leaf.__call__"]
    assert (request["kind"], call["kind"], work["kind"]) == ("SERVER", "CLIENT", "SERVER")
    assert (request["parent"], call["parent"], work["parent"]) == (ABOVE, request["id"], call["id"])
    assert request["pid"] == call["pid"] != work["pid"]
    attributes = request["attributes"]
    assert attributes["http.request.method"] == "GET"
    assert attributes["http.route"] == "/app"
    assert attributes["http.response.status_code"] == 200
    assert (attributes["serve.application"], attributes["serve.deployment"]) == ("app", "Front")
    assert attributes["serve.replica"]
    assert {span["attributes"]["serve.request_id"] for span in found.values()} == {"request-1"}
    assert work["attributes"]["serve.deployment"] == "Leaf"
    assert work["attributes"]["http.route"] == "/app"


@pytest.mark.skipif(not HAS_GRPC, reason="grpc is not installed")
def test_a_grpc_request_continues_the_trace_of_its_metadata(spans: Spans) -> None:
    import grpc

    def ask(number: int, request: bytes) -> str:
        trace, headers = trace_of(number)
        metadata = (("traceparent", headers["traceparent"]), ("request_id", headers["x-request-id"]))
        with grpc.insecure_channel(f"127.0.0.1:{spans.grpc_port}") as channel:
            call = channel.unary_unary("/demo.Demo/Echo")
            if request == b"-1":
                with pytest.raises(grpc.RpcError):
                    call(request, metadata=metadata, timeout=30)
            else:
                assert call(request, metadata=metadata, timeout=30) == request
        return trace

    found = spans.of_trace(ask(21, b"5"), 3)
    request, call, work = found["demo.Demo/Echo"], found["Leaf.__call__ call"], found["Leaf.__call__"]
    assert (request["kind"], call["kind"], work["kind"]) == ("SERVER", "CLIENT", "SERVER")
    assert (request["parent"], call["parent"], work["parent"]) == (ABOVE, request["id"], call["id"])
    attributes = request["attributes"]
    assert (attributes["rpc.system"], attributes["rpc.service"], attributes["rpc.method"]) == (
        "grpc",
        "demo.Demo",
        "Echo",
    )
    assert attributes["rpc.grpc.status_code"] == 0 and request["status"] != "ERROR"
    assert (attributes["serve.application"], attributes["serve.deployment"]) == ("app", "Front")
    assert {span["attributes"]["serve.request_id"] for span in found.values()} == {"request-21"}
    failed = spans.of_trace(ask(22, b"-1"), 3)["demo.Demo/Echo"]
    assert failed["status"] == "ERROR" and failed["events"] == ["exception"]
    assert failed["attributes"]["rpc.grpc.status_code"] == grpc.StatusCode.INTERNAL.value[0]


def test_an_error_marks_every_span_it_passes(spans: Spans) -> None:
    trace, headers = trace_of(2)
    assert spans.ask("-1", headers)[0] == 500
    found = spans.of_trace(trace, 3)
    assert found["Leaf.__call__"]["status"] == "ERROR"
    assert found["Leaf.__call__"]["events"] == ["exception"]
    assert found["GET /app"]["status"] == "ERROR"
    assert found["GET /app"]["attributes"]["http.response.status_code"] == 500


def test_calls_inside_the_process_have_spans_too(spans: Spans) -> None:
    trace, headers = trace_of(3)
    assert spans.ask("near", headers)[0] == 200
    found = spans.of_trace(trace, 5)
    chain = ["GET /app", "Near.__call__ call", "Near.__call__", "Leaf.__call__ call", "Leaf.__call__"]
    assert [found[name]["parent"] for name in chain] == [ABOVE, *(found[name]["id"] for name in chain[:-1])]
    assert found["Near.__call__"]["pid"] == found["GET /app"]["pid"] != found["Leaf.__call__"]["pid"]


def test_a_stream_is_one_span_on_each_side(spans: Spans) -> None:
    trace, headers = trace_of(4)
    assert spans.ask("stream", headers)[0] == 200
    found = spans.of_trace(trace, 3)
    assert found["Leaf.count"]["parent"] == found["Leaf.count call"]["id"]


def test_a_request_without_the_header_begins_a_trace(spans: Spans) -> None:
    assert spans.ask("1")[0] == 200
    deadline = time.monotonic() + 20
    while True:
        lines = [json.loads(line) for line in spans.file.read_text().splitlines()]
        if [span for span in lines if span["name"] == "GET /app" and span["parent"] is None]:
            return
        assert time.monotonic() < deadline, "waited 20 s for a span that has no parent"
        threading.Event().wait(0.01)


def test_what_is_not_sampled_makes_no_spans(spans: Spans) -> None:
    trace, headers = trace_of(5)
    headers["traceparent"] = headers["traceparent"][:-2] + "00"
    assert spans.ask("1", headers)[0] == 200
    after, headers = trace_of(6)
    assert spans.ask("1", headers)[0] == 200
    spans.of_trace(after, 3)
    spans.of_trace(trace, 0)


PROGRAM = """
import sys, urllib.request
import skate
from skate import serve

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Leaf:
    async def __call__(self):
        return serve.context.request.get().trace

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Front:
    def __init__(self, leaf):
        self.leaf = leaf
    async def __call__(self, request):
        return [await self.leaf.remote(), "opentelemetry.sdk.trace" in sys.modules]

skate.init(num_cpus=2, log_to_driver=False)
serve.run(Front.bind(Leaf.bind()), port=int(sys.argv[1]))
asked = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/", headers={"traceparent": sys.argv[2]})
print(urllib.request.urlopen(asked, timeout=30).read().decode())
serve.shutdown()
"""


def test_without_the_sdk_the_trace_is_passed_on_and_nothing_is_loaded() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    words = [sys.executable, "-c", PROGRAM, str(port), TRACEPARENT]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{"traceparent": TRACEPARENT}, False]


def test_tracing_needs_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from skate.serve import tracing

    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(RuntimeError, match="pip install opentelemetry-sdk"):
        tracing.set_up(serve.TracingConfig(enabled=True))
