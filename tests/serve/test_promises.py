"""Promises of Serve beyond Ray: errors with reasons, work that ends with its client, scale from zero, HTTPS."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import serve

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 30) -> Any:
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}; last: {value!r}"
        pause.wait(0.005)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.init(num_cpus=4, log_to_driver=False, preload=["skate.serve.replica.preload"])
    yield
    skate.shutdown()


@pytest.fixture
def port(session: None) -> Iterator[int]:
    yield free_port()
    serve.shutdown()


def get(port: int, path: str = "/", scheme: str = "http", **options: Any) -> tuple[int, str, Any]:
    try:
        with urllib.request.urlopen(f"{scheme}://127.0.0.1:{port}{path}", timeout=30, **options) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers


@serve.deployment(**LIGHT)
class Hello:
    def __call__(self, request: Any = None) -> str:
        return "hello"


def test_run_says_where_to_listen(port: int) -> None:
    serve.run(Hello.bind(), host="127.0.0.1", port=port)
    assert get(port)[:2] == (200, "hello")


def test_a_taken_port_is_an_error_at_once(port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(RuntimeError, match=f"127.0.0.1:{port}"):
            serve.start(http_options={"port": port})


def test_serve_10_the_cause_of_a_failed_constructor(port: int) -> None:
    @serve.deployment(**LIGHT)
    class Broken:
        def __init__(self) -> None:
            raise FileNotFoundError("no weights in /models")

        def __call__(self) -> None: ...

    with pytest.raises(RuntimeError, match="'Broken'.*no weights in /models") as caught:
        serve.run(Broken.bind(), port=port)
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    status = serve.status().applications["default"]
    assert status.status == "DEPLOY_FAILED" and "no weights in /models" in status.message


def test_a_missing_constructor_argument_is_named(port: int) -> None:
    @serve.deployment(**LIGHT)
    class Needs:
        def __init__(self, model: str) -> None: ...

    with pytest.raises(RuntimeError, match="model"):
        serve.run(Needs.bind(), port=port)


def test_serve_11_too_small_a_cluster(port: int) -> None:
    with pytest.raises(RuntimeError, match="9 CPU are needed and the cluster has 4"):
        serve.run(Hello.options(num_replicas=3, ray_actor_options={"num_cpus": 3}).bind(), port=port)


def test_no_gpu(port: int) -> None:
    with pytest.raises(RuntimeError, match="1 GPU are needed"):
        serve.run(Hello.options(ray_actor_options={"num_gpus": 1}).bind(), port=port)


def test_a_failed_update_leaves_the_old_version_serving(port: int) -> None:
    handle = serve.run(Hello.bind(), port=port)

    @serve.deployment(name="Hello", **LIGHT)
    class Worse:
        def __init__(self) -> None:
            raise ValueError("worse")

    with pytest.raises(RuntimeError, match="worse"):
        serve.run(Worse.bind())
    assert handle.remote().result() == "hello" and get(port)[1] == "hello"


def test_a_client_that_goes_takes_its_work_along(port: int, tmp_path: Path) -> None:
    began, ended = tmp_path / "began", tmp_path / "ended"

    @serve.deployment(**LIGHT)
    class Inner:
        async def __call__(self) -> None:
            began.touch()
            try:
                await asyncio.sleep(60)  # the work itself
            except asyncio.CancelledError:
                ended.touch()
                raise

    @serve.deployment(**LIGHT)
    class Outer:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def __call__(self, request: Any) -> str:
            await self.inner.remote()
            return "never"

    serve.run(Outer.bind(Inner.bind()), port=port)
    client = http.client.HTTPConnection("127.0.0.1", port)
    client.request("GET", "/")
    wait_for(began.exists, "the work to begin")
    client.close()
    wait_for(ended.exists, "the work to be cancelled, in the deployment behind the one that was asked")


def test_a_request_that_takes_too_long(port: int, tmp_path: Path) -> None:
    ended = tmp_path / "ended"

    @serve.deployment(**LIGHT)
    class Slow:
        async def __call__(self, request: Any) -> str:
            try:
                await asyncio.sleep(60)  # the work itself
            finally:
                ended.touch()
            return "never"

    serve.start(http_options={"port": port, "request_timeout_s": 0.3})
    serve.run(Slow.bind())
    assert get(port)[0] == 408
    wait_for(ended.exists, "the work to be cancelled")


def test_a_refused_request_says_when_to_come_again(port: int) -> None:
    @serve.deployment(max_ongoing_requests=1, max_queued_requests=0, **LIGHT)
    class One:
        async def __call__(self, request: Any) -> str:
            await asyncio.sleep(0.5)  # the work itself
            return "done"

    serve.run(One.bind(), port=port)
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(get(port))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    refused = [headers for status, _, headers in answers if status == 503]
    assert refused and all(int(headers["retry-after"]) >= 1 for headers in refused)
    assert any(status == 200 for status, _, _ in answers)


def test_full_replicas_pass_connections_on_to_those_with_room(port: int) -> None:
    @serve.deployment(num_replicas=3, max_ongoing_requests=1, **LIGHT)
    class One:
        async def __call__(self, request: Any) -> str:
            await asyncio.sleep(0.5)  # the work itself
            return serve.get_replica_context().replica_tag

    serve.run(One.bind(), port=port)
    tags: list[str] = []
    threads = [threading.Thread(target=lambda: tags.append(get(port)[1])) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(tags)) == 3


SCALED = {"min_replicas": 0, "max_replicas": 2, "downscale_delay_s": 0.2, "look_back_period_s": 0.2}


def states() -> Any:
    return serve.status().applications["default"].deployments["Hello"].replica_states


def test_from_zero_by_http_and_by_handle(port: int) -> None:
    serve.run(Hello.options(autoscaling_config=SCALED).bind(), port=port)
    handle = serve.get_app_handle("default")
    assert handle.remote().result() == "hello"
    wait_for(lambda: not states(), "no replica to be left without requests")
    assert get(port)[1] == "hello"
    wait_for(lambda: not states(), "no replica to be left without requests")
    assert handle.remote().result(timeout_s=30) == "hello"


def test_load_starts_replicas(port: int) -> None:
    @serve.deployment(
        autoscaling_config={
            "min_replicas": 1,
            "max_replicas": 3,
            "upscale_delay_s": 0.1,
            "downscale_delay_s": 0.5,
            "look_back_period_s": 0.3,
            "target_ongoing_requests": 1,
        },
        **LIGHT,
    )
    class Busy:
        async def __call__(self) -> str:
            await asyncio.sleep(0.2)  # the work itself
            return serve.get_replica_context().replica_tag

    handle = serve.run(Busy.bind(), port=port)

    def running() -> int:
        found = serve.status().applications["default"].deployments["Busy"].replica_states
        return int(found.get("RUNNING", 0))

    seen: set[str] = set()
    deadline = time.monotonic() + 30
    while running() < 3:
        assert time.monotonic() < deadline, f"three replicas under load; there are {running()}"
        seen |= {each.result() for each in [handle.remote() for _ in range(10)]}
    wait_for(lambda: running() == 1, "the replicas that are not needed to end")


def test_an_application_that_is_being_deployed_is_503(port: int, tmp_path: Path) -> None:
    go = tmp_path / "go"

    @serve.deployment(**LIGHT)
    class Slow:
        async def __init__(self) -> None:
            while not go.exists():
                await asyncio.sleep(0.01)  # the work itself

        def __call__(self, request: Any) -> str:
            return "ready"

    serve.start(http_options={"port": port})
    thread = threading.Thread(target=lambda: serve.run(Slow.bind()))
    thread.start()
    status, text, headers = wait_for(
        lambda: (got := get(port))[0] == 503 and got, "the application to be known, and not ready"
    )
    assert "being deployed" in text and headers["retry-after"]
    go.touch()
    thread.join()
    assert get(port)[:2] == (200, "ready")


def test_https_for_two_applications(port: int, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    options = {"port": port, "ssl_keyfile": str(key), "ssl_certfile": str(certificate)}
    serve.start(http_options=options)
    serve.run(Hello.bind(), name="one", route_prefix="/one")
    serve.run(Hello.bind(), name="two", route_prefix="/two")
    trusted = ssl.create_default_context(cafile=str(certificate))
    client = http.client.HTTPSConnection("127.0.0.1", port, context=trusted, timeout=30)
    for path in ("/one", "/two", "/one", "/two"):
        client.request("GET", path)
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (200, b"hello"), path
    client.close()


def test_metrics_that_prometheus_reads(port: int) -> None:
    parser = pytest.importorskip("prometheus_client.parser")

    serve.run(Hello.options(num_replicas=2).bind(), port=port)
    for _ in range(5):
        get(port)
    families = {each.name: each for each in parser.text_string_to_metric_families(get(port, "/-/metrics")[1])}
    requests = families["ray_serve_num_http_requests"].samples
    assert sum(each.value for each in requests) == 5
    assert {each.labels["status_code"] for each in requests} == {"200"}
    latency = families["ray_serve_http_request_latency_ms"].samples
    assert sum(each.value for each in latency if each.name.endswith("_count")) == 5
    assert len(families["ray_serve_deployment_replica_healthy"].samples) == 2


def test_importing_serve_loads_no_web_framework() -> None:
    program = "import sys, skate.serve; print([m for m in ('fastapi', 'uvicorn', 'starlette', 'grpc') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_local_testing_mode_needs_no_session() -> None:
    @serve.deployment
    class Outer:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def __call__(self) -> str:
            return "outer " + await self.inner.remote()

    handle = serve.run(Outer.bind(Hello.bind()), _local_testing_mode=True)
    assert handle.remote().result() == "outer hello"
    serve.shutdown()
