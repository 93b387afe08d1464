"""`serve.run(..., _local_testing_mode=True)`: an application in this very process, for unit tests."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray import serve
from ray.serve.exceptions import RequestCancelledError
from ray.serve.handle import DeploymentHandle, DeploymentResponse, DeploymentResponseGenerator


class Box:
    def __init__(self, thing: Any) -> None:
        self.thing = thing


@serve.deployment(user_config={"word": "configured"})
class Leaf:
    def __init__(self, word: str = "leaf") -> None:
        self.word = word
        self.configured = ""
        self.calls = 0

    def reconfigure(self, config: dict[str, str]) -> None:
        self.configured = config["word"]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return (self.word, *args, *sorted(kwargs.items()))

    async def later(self, value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    def configured_word(self) -> str:
        return self.configured

    def fail(self) -> None:
        raise ValueError("as asked")

    async def hold(self) -> None:
        await asyncio.Event().wait()

    def count(self, number: int) -> Any:
        yield from range(number)

    async def count_later(self, number: int) -> Any:
        for each in range(number):
            yield each

    def broken_count(self) -> Any:
        yield 1
        raise KeyError("broken")

    def pid(self) -> int:
        return os.getpid()

    def changed(self, values: list[int]) -> list[int]:
        values.append(4)
        return values


@serve.deployment
class Front:
    def __init__(self, leaf: DeploymentHandle, *rest: Any, boxed: Any = None) -> None:
        self.leaf = leaf
        self.rest = rest
        self.boxed = boxed

    async def __call__(self, value: Any) -> Any:
        return await self.leaf.remote(value)

    async def chain(self) -> Any:
        first = self.leaf.later.remote(1)
        return await self.leaf.remote(first)

    async def others(self) -> list[Any]:
        handles = [self.rest[0][0], self.rest[1]["key"], self.boxed.thing]
        return [(await each.remote())[0] for each in handles]

    async def collect(self, number: int) -> list[int]:
        return [each async for each in self.leaf.options(stream=True).count_later.remote(number)]

    async def cancelled(self) -> str:
        response = self.leaf.hold.remote()
        response.cancel()
        try:
            await response
        except RequestCancelledError:
            return "RequestCancelledError"
        return "nothing"


@serve.deployment
def function(value: Any = "nothing") -> str:
    return f"function of {value}"


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """Ends what a test has run; real Ray would start a session for it."""
    yield
    gc.collect()
    if os.environ.get("SKATE_CONFORMANCE_TARGET") != "ray":
        serve.shutdown()


@pytest.fixture
def handle() -> DeploymentHandle:
    other = Leaf.options(name="Other").bind("other")
    app = Front.bind(Leaf.bind(), [other], {"key": other}, boxed=Box(other))
    return serve.run(app, name="local", _local_testing_mode=True)


@pytest.fixture
def leaf() -> DeploymentHandle:
    return serve.run(Leaf.bind(), name="leaf", _local_testing_mode=True)


def test_no_session_is_started(leaf: DeploymentHandle) -> None:
    assert leaf.pid.remote().result() == os.getpid() and not ray.is_initialized()


def test_types(leaf: DeploymentHandle) -> None:
    assert isinstance(leaf, DeploymentHandle) and isinstance(leaf.remote(), DeploymentResponse)
    assert isinstance(leaf.options(stream=True).count.remote(1), DeploymentResponseGenerator)
    assert (leaf.deployment_name, leaf.app_name) == ("Leaf", "leaf")


def test_calls(leaf: DeploymentHandle) -> None:
    assert leaf.remote(1, a=2).result() == ("leaf", 1, ("a", 2))
    assert leaf.later.remote("x").result() == "x"
    assert leaf.options(method_name="later").remote("y").result() == "y"


def test_user_config(leaf: DeploymentHandle) -> None:
    assert leaf.configured_word.remote().result() == "configured"


def test_a_function() -> None:
    made = serve.run(function.bind(), name="function", _local_testing_mode=True)
    assert made.remote().result() == "function of nothing" and made.remote(5).result() == "function of 5"


def test_exceptions_come_bare(leaf: DeploymentHandle) -> None:
    with pytest.raises(ValueError, match="as asked"):
        leaf.fail.remote().result()


def test_methods_that_there_are_not(leaf: DeploymentHandle) -> None:
    with pytest.raises(Exception, match="missing"):
        leaf.missing.remote().result()


def test_streams(leaf: DeploymentHandle) -> None:
    assert list(leaf.options(stream=True).count.remote(3)) == [0, 1, 2]
    assert list(leaf.options(stream=True).count_later.remote(2)) == [0, 1]


def test_a_stream_that_breaks(leaf: DeploymentHandle) -> None:
    stream = leaf.options(stream=True).broken_count.remote()
    assert next(stream) == 1
    with pytest.raises(KeyError):
        next(stream)


def test_a_stream_in_async_code(leaf: DeploymentHandle) -> None:
    async def main() -> list[int]:
        return [each async for each in leaf.options(stream=True).count.remote(3)]

    assert asyncio.run(main()) == [0, 1, 2]


def test_a_stream_has_no_result(leaf: DeploymentHandle) -> None:
    with pytest.raises(TypeError, match="doesn't support `.result"):
        leaf.options(stream=True).count.remote(1).result()


def test_await_in_a_loop_of_ones_own(leaf: DeploymentHandle) -> None:
    async def main() -> Any:
        return await leaf.later.remote(3)

    assert asyncio.run(main()) == 3


def test_result_in_async_code(leaf: DeploymentHandle) -> None:
    async def main() -> Any:
        return leaf.later.remote(3).result()

    with pytest.raises(
        RuntimeError, match="Sync methods should not be called from within an `asyncio` event"
    ):
        asyncio.run(main())


def test_a_timeout(leaf: DeploymentHandle) -> None:
    response = leaf.hold.remote()
    with pytest.raises(TimeoutError):
        response.result(timeout_s=0.05)
    response.cancel()


def test_cancelling(leaf: DeploymentHandle) -> None:
    response = leaf.hold.remote()
    assert not response.cancelled()
    response.cancel()
    assert response.cancelled()
    with pytest.raises(RequestCancelledError):
        response.result(timeout_s=5)


def test_cancelling_in_a_deployment(handle: DeploymentHandle) -> None:
    assert handle.cancelled.remote().result() == "RequestCancelledError"


def test_arguments_are_copied(leaf: DeploymentHandle) -> None:
    values = [1, 2, 3]
    assert leaf.changed.remote(values).result() == [1, 2, 3, 4] and values == [1, 2, 3]


def test_arguments_that_cannot_be_sent(leaf: DeploymentHandle) -> None:
    with pytest.raises(TypeError):
        leaf.remote(x for x in ()).result()


def test_there_are_no_refs(leaf: DeploymentHandle) -> None:
    with pytest.raises(RuntimeError, match="not supported in local testing mode"):
        leaf.remote()._to_object_ref_sync()


def test_composition(handle: DeploymentHandle) -> None:
    assert handle.remote(1).result() == ("leaf", 1)
    assert handle.chain.remote().result() == ("leaf", 1)


def test_handles_deep_in_the_arguments(handle: DeploymentHandle) -> None:
    assert handle.others.remote().result() == ["other", "other", "other"]


def test_a_stream_between_deployments(handle: DeploymentHandle) -> None:
    assert handle.collect.remote(3).result() == [0, 1, 2]


def test_a_response_as_argument(leaf: DeploymentHandle) -> None:
    assert leaf.remote(leaf.later.remote(7)).result() == ("leaf", 7)


def test_a_stream_is_not_passed_on(leaf: DeploymentHandle) -> None:
    with pytest.raises(RuntimeError, match="cannot be passed to downstream handle calls"):
        leaf.remote(leaf.options(stream=True).count.remote(1)).result()


def test_requests_have_ids(leaf: DeploymentHandle) -> None:
    ids = {leaf.remote().request_id for _ in range(3)}
    assert len(ids) == 3 and all(ids)


def test_a_constructor_that_fails() -> None:
    @serve.deployment
    class Broken:
        def __init__(self) -> None:
            raise FileNotFoundError("no weights")

    with pytest.raises(FileNotFoundError, match="no weights"):
        serve.run(Broken.bind(), name="broken", _local_testing_mode=True)


def test_a_route_prefix_without_a_slash() -> None:
    with pytest.raises(ValueError, match="Invalid route_prefix 'x', must start with a forward slash"):
        serve.run(Leaf.bind(), route_prefix="x", _local_testing_mode=True)


def test_an_async_constructor() -> None:
    @serve.deployment
    class Later:
        async def __init__(self) -> None:  # type: ignore[misc]
            await asyncio.sleep(0)
            self.made = True

        def __call__(self) -> bool:
            return self.made

    assert serve.run(Later.bind(), name="later", _local_testing_mode=True).remote().result() is True


def test_an_ingress_by_its_methods() -> None:
    from fastapi import FastAPI

    app = FastAPI()

    @serve.deployment
    @serve.ingress(app)
    class Web:
        @app.get("/double")
        def double(self, number: int) -> int:
            return 2 * number

    handle = serve.run(Web.bind(), name="web", _local_testing_mode=True)
    assert handle.double.remote(4).result() == 8


def test_many_applications() -> None:
    targets = [
        serve.RunTarget(Leaf.bind(word), name=word, route_prefix=f"/{word}") for word in ("one", "two")
    ]
    handles = serve.run_many(targets, _local_testing_mode=True)
    assert [each.remote().result() for each in handles] == [("one",), ("two",)]


@pytest.mark.parametrize("target", [Leaf, "app", None])
def test_what_is_no_application(target: Any) -> None:
    with pytest.raises(TypeError, match="`serve.run` expects an `Application` returned by `Deployment.bind"):
        serve.run(target, _local_testing_mode=True)


def test_the_level_of_the_log() -> None:
    @serve.deployment
    class Level:
        def __call__(self) -> int:
            return logging.getLogger("ray.serve").level

    logger = logging.getLogger("ray.serve")
    before = logger.level
    try:
        settings = {"log_level": "WARNING"}
        handle = serve.run(Level.bind(), logging_config=settings, _local_testing_mode=True)
        assert handle.remote().result() == logging.WARNING
    finally:
        logger.setLevel(before)


@pytest.mark.skipif(
    os.environ.get("SKATE_CONFORMANCE_TARGET") == "ray", reason="Ray reads the variable when it is imported"
)
def test_the_environment_may_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_SERVE_FORCE_LOCAL_TESTING_MODE", "1")
    assert serve.run(Leaf.bind("here"), name="forced").remote().result() == ("here",)
    assert not ray.is_initialized()
