"""Mistakes of users: each is reported immediately, with the expected and the given value, and the remedy."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import skate
from skate import serve
from skate.serve.exceptions import DeploymentUnavailableError, RayServeException

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        number = sock.getsockname()[1]
    skate.init(num_cpus=2, log_to_driver=False, preload=["skate.serve.replica.preload"])
    serve.start(http_options={"port": number})
    yield number
    serve.shutdown()
    skate.shutdown()


@serve.deployment(**LIGHT)
class Configured:
    """A deployment that rejects a bad user_config."""

    def __init__(self) -> None:
        self.word = ""

    def reconfigure(self, config: dict[str, str]) -> None:
        self.word = config["word"]

    def __call__(self) -> str:
        return self.word


@serve.deployment(**LIGHT)
class Plain:
    def __call__(self, request: Any = None) -> Any:
        return object() if request is not None else "plain"

    def lock(self) -> Any:
        return threading.Lock()

    def locks(self) -> Any:
        yield 1
        yield threading.Lock()

    def numbers(self) -> Any:
        yield from range(3)

    def double(self, x: int) -> int:
        return x * 2

    async def endless(self) -> Any:
        while True:
            yield 1
            await asyncio.sleep(0.01)  # the work itself


@pytest.fixture(scope="module")
def plain(port: int) -> Any:
    return serve.run(Plain.bind(), name="plain", route_prefix="/plain")


def run_with(config: Any) -> Any:
    return serve.run(Configured.options(user_config=config).bind(), name="told", route_prefix="/told")


def test_a_user_config_that_is_refused(port: int) -> None:
    with pytest.raises(RuntimeError, match="'Configured'.*KeyError: 'word'") as caught:
        run_with({"wrd": "x"})
    assert isinstance(caught.value.__cause__, KeyError)
    assert run_with({"word": "good"}).remote().result() == "good"
    # Reconfigured in place: the replica continues with its old user_config, and reports the error.
    with pytest.raises(RuntimeError, match="'Configured': reconfigure failed: KeyError: 'word'"):
        run_with({"wrd": "x"})
    app = serve.status().applications["told"]
    assert app.status == "UNHEALTHY" and "reconfigure failed" in app.deployments["Configured"].message
    assert run_with({"word": "mended"}).remote().result() == "mended"
    assert serve.status().applications["told"].status == "RUNNING"
    serve.delete("told")


def test_a_user_config_that_nobody_takes(port: int) -> None:
    with pytest.raises(RuntimeError, match="deployment Plain missing reconfigure method"):
        serve.run(Plain.options(user_config={"a": 1}).bind(), name="nobody", route_prefix="/nobody")
    serve.delete("nobody")


def test_a_replica_that_is_ill_from_the_beginning(port: int) -> None:
    @serve.deployment(**LIGHT)
    class Ill:
        def check_health(self) -> None:
            raise RuntimeError("no weights are mounted")

        def __call__(self) -> None: ...

    with pytest.raises(RuntimeError, match="'Ill'.*no weights are mounted"):
        serve.run(Ill.bind(), name="ill", route_prefix="/ill")
    serve.delete("ill")


def test_constructor_arguments_that_cannot_be_sent(port: int) -> None:
    with pytest.raises(TypeError, match="Could not serialize the deployment init args of 'Plain'.*lock"):
        serve.run(Plain.bind(threading.Lock()), name="lock", route_prefix="/lock")


def test_arguments_that_cannot_be_sent(plain: Any) -> None:
    with pytest.raises(TypeError, match=r"argument 2 of Plain.double cannot be sent to a replica.*lock"):
        plain.double.remote(1, threading.Lock()).result()
    with pytest.raises(TypeError, match=r"argument 'x' of Plain.double cannot be sent"):
        plain.double.remote(x=threading.Lock()).result()


def test_results_that_cannot_be_sent(plain: Any) -> None:
    with pytest.raises(TypeError, match="lock") as caught:
        plain.lock.remote().result()
    assert "return value" in str(caught.value) and "'Plain' in application 'plain'" in str(caught.value)


def test_a_stream_with_a_value_that_cannot_be_sent_takes_no_place_for_ever(port: int) -> None:
    app = Plain.options(max_ongoing_requests=1, graceful_shutdown_timeout_s=20).bind()
    handle = serve.run(app, name="places", route_prefix="/places")
    with pytest.raises(TypeError, match="lock"):
        list(handle.options(stream=True).locks.remote())
    assert handle.double.remote(2).result(timeout_s=20) == 4
    began = time.monotonic()
    serve.delete("places")
    assert time.monotonic() - began < 10, "the broken stream counted as under way"


@pytest.mark.parametrize(
    ("call", "kind", "complaint"),
    [
        (
            lambda h: h.doubble.remote(1).result(),
            AttributeError,
            "a method 'doubble' that does not exist.*Did you mean 'double'",
        ),
        (lambda h: h.double.remote().result(), TypeError, "missing 1 required positional argument: 'x'"),
        (lambda h: h.numbers.remote().result(), TypeError, r"options\(stream=True\)"),
        (lambda h: list(h.options(stream=True).double.remote(1)), TypeError, "did not return a generator"),
        (lambda h: h.options(stream=True).numbers.remote().result(), TypeError, "Iterate over it"),
        (
            lambda h: h.double.remote(h.options(stream=True).numbers.remote()),
            RuntimeError,
            "Collect the values",
        ),
        (
            lambda h: skate.put(h.double.remote(1)),
            RayServeException,
            "Pass it as an argument of another handle call",
        ),
        (lambda h: h.options(stream="yes"), TypeError, "True or False, got 'yes'"),
        (
            lambda h: serve.get_app_handle("plan"),
            RayServeException,
            "Application 'plan' does not exist; the applications are: .*plain",
        ),
        (
            lambda h: serve.get_deployment_handle("Pain", "plain"),
            RayServeException,
            "'Pain'.*its deployments are: Plain",
        ),
        (
            lambda h: serve.get_deployment_handle("Plain", "no"),
            RayServeException,
            "'Plain' of the application 'no' does not exist; there is no such application",
        ),
        (
            lambda h: serve.get_deployment_handle("Plain"),
            RayServeException,
            "Please specify an application name",
        ),
        (lambda h: serve.run(None), TypeError, "expects an `Application` returned by"),
        (lambda h: serve.run(Plain), TypeError, r"call serve.run\(Plain.bind"),
        (lambda h: serve.start(http_option={}), TypeError, "no argument named 'http_option'"),
        (lambda h: serve.start(http_options={"prt": 1}), ValueError, "no field 'prt'; did you mean 'port'"),
        (lambda h: serve.start(http_options={"port": 99999}), ValueError, "from 0 to 65535, got 99999"),
    ],
)
def test_mistakes(plain: Any, call: Callable[[Any], Any], kind: type[Exception], complaint: str) -> None:
    with pytest.raises(kind, match=complaint):
        call(plain)


def test_results_in_a_loop_of_async_code(plain: Any) -> None:
    async def wrong() -> list[Any]:
        return [plain.double.remote(number).result() for number in range(3)]

    async def wrong_too() -> list[Any]:
        return list(plain.options(stream=True).numbers.remote())

    for each in (wrong, wrong_too):
        with pytest.raises(RuntimeError, match="from within an `asyncio` event loop. Use `await response`"):
            asyncio.run(each())


def test_a_stream_that_is_left_ends(plain: Any) -> None:
    stream = plain.options(stream=True).endless.remote()
    assert next(stream) == 1
    stream.cancel()
    assert plain.double.remote(2).result(timeout_s=20) == 4


def ask(port: int, path: str, method: str = "GET", **more: Any) -> tuple[int, str]:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    client.request(method, path, **more)
    answer = client.getresponse()
    answered = answer.status, answer.read().decode()
    client.close()
    return answered


def test_http_answers_that_are_no_json(plain: Any, port: int) -> None:
    assert ask(port, "/plain") == (500, "Internal Server Error")
    assert ask(port, "/-/healthz") == (200, "success")


def test_paths_that_lead_nowhere(plain: Any, port: int) -> None:
    status, text = ask(port, "/nowhere")
    assert status == 404 and "/nowhere" in text and "/-/routes" in text
    status, text = ask(port, "/-/metrix")
    assert status == 404 and "/-/metrics" in text


def test_bytes_that_are_no_http(plain: Any, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(b"\x16\x03\x01 this is no request\r\n\r\n")
        assert b"400" in client.recv(1000).split(b"\r\n")[0]
    assert ask(port, "/-/healthz")[0] == 200


def test_handles_of_what_has_gone(port: int) -> None:
    handle = serve.run(Plain.bind(), name="gone", route_prefix="/gone")
    assert handle.remote().result() == "plain"
    serve.delete("gone")
    with pytest.raises(DeploymentUnavailableError, match="'Plain'.*'gone'"):
        handle.remote().result(timeout_s=20)
    assert ask(port, "/gone")[0] == 404


def test_without_serve(port: int) -> None:
    """Must run last in this module, because it ends Serve."""
    handle = serve.run(Plain.bind(), name="last", route_prefix="/last")
    assert handle.remote().result() == "plain"
    serve.shutdown()
    for wrong in (
        lambda: handle.remote().result(timeout_s=20),
        lambda: serve.get_app_handle("last"),
        lambda: serve.delete("last"),
    ):
        with pytest.raises(RayServeException, match=r"Serve is not running.*serve.run\(app\)"):
            wrong()
    assert not serve.status().applications
