"""Random requests to the REST API, gRPC and a language model: each gets a status for client errors, and no process dies."""

from __future__ import annotations

import asyncio
import copy
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from attack.mutations import ODD_JSON, changed
from attack.test_config_files import VALID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import skate
from skate import serve
from skate.serve.rest import Api

FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MANY = settings(FEW, max_examples=3000)

# -- the REST API

PATHS = [
    "/api/serve/applications/", "/api/serve/applications", "/api/v1/applications/one/deployments/First/scale",
    "/api/v1/applications//deployments//scale", "/", "", "/api/serve/applications/../x", "//api", "/api/serve/applications/\x00",
]  # fmt: skip
METHODS = ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "get", "", "\u00e9"]


def rest(method: str, path: str, body: bytes, headers: list[tuple[bytes, bytes]]) -> tuple[int, Any]:
    messages: list[Any] = []
    parts = [(body[:7], True), (body[7:], False)]

    async def receive() -> Any:
        part, more = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": more}

    async def send(message: Any) -> None:
        messages.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    asyncio.run(Api("secret")(scope, receive, send))
    return messages[0]["status"], json.loads(messages[1]["body"])


@pytest.fixture
def nothing_deployed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace the deployment, which would import code. All checks run before that."""
    deployed: list[Any] = []
    monkeypatch.setattr("skate.serve.config_loader.deploy", lambda schema, apart: deployed.append(schema))
    monkeypatch.setattr("skate.serve.api.shutdown", lambda: None)
    monkeypatch.setattr("skate.serve.rest.details", lambda: {"applications": {}})
    return deployed


def check_rest(data: Any) -> None:
    draw = data.draw
    kind = draw(st.sampled_from(["config", "config", "json", "bytes"]))
    if kind == "config":
        body = json.dumps(changed(draw, VALID, ODD_JSON)).encode()
    elif kind == "json":
        body = json.dumps(draw(st.sampled_from(ODD_JSON))).encode()
    else:
        body = draw(st.binary(max_size=40))
    method = draw(st.sampled_from(METHODS + ["PUT"] * 5))
    path = draw(st.sampled_from(PATHS + PATHS[:1] * 5))
    headers = [(b"authorization", b"Bearer secret")]
    extra = st.tuples(st.sampled_from([b"host", b"origin", b"Content-Type", b"\xff"]), st.binary(max_size=12))
    headers += draw(st.lists(extra, max_size=2))
    status, answer = rest(method, path, body, headers)
    assert 200 <= status < 500, (status, answer)
    assert status == 200 or answer["error"]


@FEW
@given(data=st.data())
def test_the_rest_api_answers_random_requests(nothing_deployed: list[Any], data: Any) -> None:
    check_rest(data)


@pytest.mark.attack
@MANY
@given(data=st.data())
def test_the_rest_api_answers_many_random_requests(nothing_deployed: list[Any], data: Any) -> None:
    check_rest(data)


def test_the_rest_api_takes_the_config_that_is_changed(nothing_deployed: list[Any]) -> None:
    assert rest("PUT", PATHS[0], json.dumps(VALID).encode(), [(b"authorization", b"Bearer secret")])[0] == 200
    assert len(nothing_deployed) == 1


# -- gRPC


def add_demo(servicer: Any, server: Any) -> None:
    import grpc

    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(servicer.Echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("demo.Demo", handlers),))


@pytest.fixture(scope="module")
def channel() -> Iterator[Any]:
    grpc = pytest.importorskip("grpc")
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        http, port = one.getsockname()[1], other.getsockname()[1]

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    class Demo:
        async def Echo(self, request: bytes) -> bytes:  # noqa: N802
            return request

    skate.init(num_cpus=2, log_to_driver=False)
    serve.start(
        http_options={"port": http}, grpc_options={"port": port, "grpc_servicer_functions": [add_demo]}
    )
    serve.run(Demo.bind(), name="demo", route_prefix="/demo")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as made:
        grpc.channel_ready_future(made).result(20)
        yield made
    serve.shutdown()
    skate.shutdown()


def check_grpc(channel: Any, data: Any) -> None:
    import grpc

    draw = data.draw
    service = draw(
        st.sampled_from(
            ["demo.Demo", "demo.Demo", "ray.serve.RayServeAPIService", "x", "grpc.health.v1.Health"]
        )
    )
    method = draw(
        st.sampled_from(
            ["Echo", "Echo", "Healthz", "ListApplications", "__init__", "__class__", "", "\u00e9", "a/b"]
        )
    )
    values = st.sampled_from(["demo", "", "nobody", "x" * 9000, "../demo", "a b", "%00"])
    keys = st.sampled_from(
        ["application", "request_id", "multiplexed_model_id", "session_id", "x-other", "grpc-timeout", "te"]
    )
    metadata: list[tuple[str, Any]] = draw(st.lists(st.tuples(keys, values), max_size=4))
    metadata += draw(st.lists(st.tuples(st.just("x-bin"), st.binary(max_size=20)), max_size=1))
    if draw(st.booleans()):
        metadata.append(("application", "demo"))
    call = channel.unary_unary(f"/{service}/{method}")
    try:
        call(draw(st.binary(max_size=200)), timeout=20, metadata=metadata)
    except grpc.RpcError as error:
        assert error.code() not in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE), error
        assert error.code() is not grpc.StatusCode.UNKNOWN, error
    except (ValueError, TypeError):  # the client's own library rejects it
        pass
    assert (
        channel.unary_unary("/demo.Demo/Echo")(b"x", timeout=20, metadata=[("application", "demo")]) == b"x"
    )


@settings(FEW, max_examples=40)
@given(data=st.data())
def test_grpc_answers_random_calls(channel: Any, data: Any) -> None:
    check_grpc(channel, data)


@pytest.mark.attack
@settings(FEW, max_examples=2000)
@given(data=st.data())
def test_grpc_answers_many_random_calls(channel: Any, data: Any) -> None:
    check_grpc(channel, data)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00" * 100,
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 200,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
        + b"\x00\xff\xff\x01\x05\x00\x00\x00\x01"
        + b"\x80" * 99,
        b"PRI * HTTP/2.0\r\n",
    ],
)
def test_grpc_lives_on_after_bytes_that_are_no_call(channel: Any, sent: bytes) -> None:
    port = int(channel._channel.target().decode().rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        sock.sendall(sent)
    assert (
        channel.unary_unary("/demo.Demo/Echo")(b"x", timeout=20, metadata=[("application", "demo")]) == b"x"
    )


# -- a language model

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        ],
        "max_tokens": 2,
        "temperature": 0.5,
        "top_p": 0.9,
        "n": 1,
        "stop": ["a"],
        "seed": 1,
        "logprobs": True,
        "top_logprobs": 2,
        "logit_bias": {"5": 1.5},
        "stream": False,
        "user": "me",
        "response_format": {"type": "text"},
        "chat_template_kwargs": {"a": 1},
        "metadata": {"a": "b"},
        "stop_token_ids": [7],
    },
    "/v1/completions": {
        "model": "tiny",
        "prompt": ["ab", "c"],
        "max_tokens": 2,
        "echo": False,
        "logprobs": 1,
        "top_k": 5,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.5,
        "min_tokens": 1,
        "structured_outputs": {"regex": "[ab]+"},
    },
    "/v1/embeddings": {"model": "tiny", "input": ["ab", "c"], "encoding_format": "float"},
    "/v1/score": {"model": "tiny", "text_1": "a", "text_2": ["b", "c"]},
    "/tokenize": {"model": "tiny", "prompt": "abc", "add_special_tokens": True, "return_token_strs": True},
    "/detokenize": {"model": "tiny", "tokens": [1, 2, 3]},
}


@pytest.fixture(scope="module")
def model_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("transformers", reason="the embedded engine stands on transformers")
    from skate.llm import EngineArgs
    from skate.llm.embedded.engine import EmbeddedEngine
    from skate.llm.openai.app import LocalModels, build_app
    from skate.llm.openai.model_service import ModelService
    from tests.llm import tiny
    from tests.llm.served import Served

    engine = EmbeddedEngine(EngineArgs(str(tiny.save(tmp_path_factory.mktemp("models") / "tiny"))))
    asyncio.run(engine.start())
    served = Served(build_app(LocalModels([ModelService(engine, "tiny")])))
    yield served.url
    served.close()
    asyncio.run(engine.stop())


@pytest.fixture
def model(model_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=model_url, timeout=60, trust_env=False) as client:
        yield client


def check_model(model: httpx.Client, data: Any) -> None:
    path = data.draw(st.sampled_from([*BODIES, *list(BODIES)[:2] * 2]))
    body = changed(data.draw, BODIES[path], ODD_JSON)
    if isinstance(body.get("stream"), bool) and body["stream"]:
        body["max_tokens"] = 2
    answer = model.post(path, content=json.dumps(body).encode())
    assert answer.status_code in (200, 400, 404, 413, 429), (answer.status_code, answer.text)
    if answer.status_code != 200:
        error = answer.json()["error"]
        assert error["message"] and error["type"] == "invalid_request_error"
        assert set(error) == {"message", "type", "param", "code"}
    elif not answer.headers["content-type"].startswith("text/event-stream"):
        assert answer.json()


@settings(FEW, max_examples=100)
@given(data=st.data())
def test_a_model_answers_random_requests(model: httpx.Client, data: Any) -> None:
    check_model(model, data)


@pytest.mark.attack
@MANY
@given(data=st.data())
def test_a_model_answers_many_random_requests(model: httpx.Client, data: Any) -> None:
    check_model(model, data)


@pytest.mark.parametrize("path", list(BODIES))
def test_the_requests_that_are_changed_are_answered(model: httpx.Client, path: str) -> None:
    answer = model.post(path, json=copy.deepcopy(BODIES[path]))
    if path == "/v1/completions" and answer.status_code == 400:
        assert "llguidance" in answer.text  # where that is not installed
        return
    assert answer.status_code == 200 or (path == "/v1/score" and answer.status_code == 400), answer.text
