"""Handles: calls, results and errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray import serve
from ray.serve.handle import DeploymentHandle, DeploymentResponse, DeploymentResponseGenerator

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


class Odd(Exception):
    pass


@serve.deployment(max_ongoing_requests=100, **LIGHT)
class Everything:
    def __init__(self, start: int = 7, *, word: str = "word") -> None:
        self.start = start
        self.word = word
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return ["called", list(args), kwargs]

    def sync(self, x: int) -> int:
        return x + self.start

    def makes_generator(self) -> Any:
        return (each for each in range(2))

    def stops(self) -> None:
        raise StopIteration

    def makes_ref(self) -> Any:
        return ray.put(5)

    async def makes_ref_later(self) -> Any:
        return ray.put(5)

    async def later(self, x: int) -> int:
        await asyncio.sleep(0.001)  # the work itself
        return x + self.start

    async def named(self, a: int, b: int = 2, *, c: int = 3) -> tuple[int, int, int]:
        return a, b, c

    async def wrong(self) -> None:
        raise ValueError("this is wrong")

    async def odd(self) -> None:
        raise Odd("odd")

    async def echo(self, value: Any) -> Any:
        return value

    async def kind(self, value: Any) -> str:
        return type(value).__name__

    async def numbers(self, count: int) -> Any:
        for i in range(count):
            yield i

    def slow_numbers(self, count: int) -> Any:
        yield from range(count)

    async def breaks(self) -> Any:
        yield 1
        raise KeyError("broken")

    async def sleep(self, seconds: float) -> str:
        await asyncio.sleep(seconds)  # the work itself
        return "slept"

    async def context(self) -> tuple[str, str]:
        here = serve.get_replica_context()
        return here.app_name, here.deployment

    async def model(self) -> str:
        return serve.get_multiplexed_model_id()

    async def count(self) -> int:
        self.calls += 1
        return self.calls

    async def large(self, size: int) -> bytes:
        return b"x" * size

    async def of_word(self) -> str:
        return self.word


@pytest.fixture(scope="module")
def handle(server: str) -> Iterator[DeploymentHandle]:
    made = serve.run(Everything.bind(10, word="other"), name="everything", route_prefix="/everything")
    yield made
    serve.delete("everything")


def test_run_returns_a_handle(handle: DeploymentHandle) -> None:
    assert isinstance(handle, DeploymentHandle)


def test_remote_returns_a_response_at_once(handle: DeploymentHandle) -> None:
    response = handle.sync.remote(1)
    assert isinstance(response, DeploymentResponse)
    assert response.result() == 11


def test_call_without_method(handle: DeploymentHandle) -> None:
    assert handle.remote(1, 2, a=3).result() == ["called", [1, 2], {"a": 3}]


def test_async_method(handle: DeploymentHandle) -> None:
    assert handle.later.remote(5).result() == 15


def test_keyword_arguments_of_the_constructor(handle: DeploymentHandle) -> None:
    assert handle.of_word.remote().result() == "other"


def test_keyword_arguments(handle: DeploymentHandle) -> None:
    assert tuple(handle.named.remote(1, c=9).result()) == (1, 2, 9)


def test_method_by_option(handle: DeploymentHandle) -> None:
    assert handle.options(method_name="sync").remote(2).result() == 12


def test_user_exception_is_raised_as_its_type(handle: DeploymentHandle) -> None:
    with pytest.raises(ValueError, match="this is wrong"):
        handle.wrong.remote().result()


def test_user_exception_is_a_task_error(handle: DeploymentHandle) -> None:
    with pytest.raises(ray.exceptions.RayTaskError):
        handle.wrong.remote().result()


def test_own_exception_class(handle: DeploymentHandle) -> None:
    with pytest.raises(Odd):
        handle.odd.remote().result()


def test_missing_method(handle: DeploymentHandle) -> None:
    phrase = "Tried to call a method 'nothing_like_it' that does not exist. Available methods: .*'numbers'"
    with pytest.raises(serve.exceptions.RayServeException, match=phrase):
        handle.nothing_like_it.remote().result()


def test_wrong_arguments(handle: DeploymentHandle) -> None:
    with pytest.raises(TypeError):
        handle.sync.remote().result()


@pytest.mark.parametrize(
    "value", [None, 1, 2.5, "text", b"bytes", [1, [2]], {"a": {"b": 1}}, (1, 2), {1, 2}, True]
)
def test_values_come_back_as_they_went(handle: DeploymentHandle, value: Any) -> None:
    got = handle.echo.remote(value).result()
    assert got == value and type(got) is type(value)


def test_large_value(handle: DeploymentHandle) -> None:
    assert len(handle.large.remote(3_000_000).result()) == 3_000_000


def test_large_argument(handle: DeploymentHandle) -> None:
    assert len(handle.echo.remote(b"y" * 3_000_000).result()) == 3_000_000


def test_result_with_timeout(handle: DeploymentHandle) -> None:
    with pytest.raises(TimeoutError):
        handle.sleep.remote(5).result(timeout_s=0.1)


def test_result_within_timeout(handle: DeploymentHandle) -> None:
    assert handle.sleep.remote(0.01).result(timeout_s=10) == "slept"


def test_result_twice(handle: DeploymentHandle) -> None:
    response = handle.sync.remote(3)
    assert response.result() == response.result() == 13


def test_many_in_flight(handle: DeploymentHandle) -> None:
    responses = [handle.later.remote(i) for i in range(200)]
    assert [each.result() for each in responses] == [i + 10 for i in range(200)]


def test_calls_run_side_by_side(handle: DeploymentHandle) -> None:
    began = time.monotonic()
    responses = [handle.sleep.remote(0.5) for _ in range(20)]
    assert {each.result() for each in responses} == {"slept"}
    assert time.monotonic() - began < 5


def test_stream(handle: DeploymentHandle) -> None:
    stream = handle.options(stream=True).numbers.remote(5)
    assert isinstance(stream, DeploymentResponseGenerator)
    assert list(stream) == [0, 1, 2, 3, 4]


def test_stream_of_a_sync_generator(handle: DeploymentHandle) -> None:
    assert list(handle.options(stream=True).slow_numbers.remote(4)) == [0, 1, 2, 3]


def test_empty_stream(handle: DeploymentHandle) -> None:
    assert list(handle.options(stream=True).numbers.remote(0)) == []


def test_stream_that_breaks(handle: DeploymentHandle) -> None:
    stream = handle.options(stream=True, method_name="breaks").remote()
    assert next(stream) == 1
    with pytest.raises(KeyError):
        next(stream)


def test_stream_of_many(handle: DeploymentHandle) -> None:
    assert list(handle.options(stream=True).numbers.remote(1000)) == list(range(1000))


def test_generator_without_stream(handle: DeploymentHandle) -> None:
    with pytest.raises(TypeError, match="Method 'numbers' returned a generator. You must use"):
        handle.numbers.remote(3).result()


def test_a_method_that_returns_a_generator(handle: DeploymentHandle) -> None:
    with pytest.raises(TypeError, match="Method 'makes_generator' returned a generator"):
        handle.makes_generator.remote().result()


def test_stop_iteration_is_an_error_like_any(handle: DeploymentHandle) -> None:
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        handle.stops.remote().result(timeout_s=30)


@pytest.mark.parametrize("method", ["makes_ref", "makes_ref_later"])
def test_a_ref_as_a_result_is_a_ref(handle: DeploymentHandle, method: str) -> None:
    found = getattr(handle, method).remote().result()
    assert isinstance(found, ray.ObjectRef)
    assert ray.get(found) == 5


def test_no_generator_with_stream(handle: DeploymentHandle) -> None:
    with pytest.raises(TypeError, match="Called method 'sync' with .* but it did not return a generator"):
        list(handle.options(stream=True).sync.remote(3))


def test_async_with_a_loop_of_its_own(handle: DeploymentHandle) -> None:
    async def main() -> list[int]:
        return list(await asyncio.gather(*(handle.later.remote(i) for i in range(10))))

    assert asyncio.run(main()) == [i + 10 for i in range(10)]


def test_async_stream(handle: DeploymentHandle) -> None:
    async def main() -> list[int]:
        return [each async for each in handle.options(stream=True).numbers.remote(4)]

    assert asyncio.run(main()) == [0, 1, 2, 3]


def test_async_exception(handle: DeploymentHandle) -> None:
    async def main() -> None:
        await handle.wrong.remote()

    with pytest.raises(ValueError, match="this is wrong"):
        asyncio.run(main())


def test_result_in_async_code_is_refused(handle: DeploymentHandle) -> None:
    async def main() -> None:
        handle.sync.remote(1).result()

    with pytest.raises(RuntimeError):
        asyncio.run(main())


def test_response_as_argument(handle: DeploymentHandle) -> None:
    first = handle.sync.remote(1)
    assert handle.sync.remote(first).result() == 21


def test_response_as_keyword_argument(handle: DeploymentHandle) -> None:
    assert tuple(handle.named.remote(1, b=handle.sync.remote(0)).result()) == (1, 10, 3)


def test_response_as_argument_is_a_value_there(handle: DeploymentHandle) -> None:
    assert handle.kind.remote(handle.sync.remote(1)).result() == "int"


def test_failed_response_as_argument(handle: DeploymentHandle) -> None:
    with pytest.raises(ValueError, match="this is wrong"):
        handle.echo.remote(handle.wrong.remote()).result()


def test_a_chain(handle: DeploymentHandle) -> None:
    response = handle.sync.remote(0)
    for _ in range(5):
        response = handle.sync.remote(response)
    assert response.result() == 60


def test_cancel(handle: DeploymentHandle) -> None:
    response = handle.sleep.remote(60)
    response.cancel()
    with pytest.raises((serve.exceptions.RequestCancelledError, ray.exceptions.TaskCancelledError)):
        response.result(timeout_s=20)


def test_cancelled_tells(handle: DeploymentHandle) -> None:
    response = handle.sleep.remote(60)
    assert not response.cancelled()
    response.cancel()
    assert response.cancelled()


def test_replica_context(handle: DeploymentHandle) -> None:
    assert tuple(handle.context.remote().result()) == ("everything", "Everything")


def test_model_id_is_empty_unless_given(handle: DeploymentHandle) -> None:
    assert handle.model.remote().result() == ""


def test_model_id_by_option(handle: DeploymentHandle) -> None:
    assert handle.options(multiplexed_model_id="m1").model.remote().result() == "m1"


def test_options_leave_the_handle_alone(handle: DeploymentHandle) -> None:
    handle.options(multiplexed_model_id="m1")
    assert handle.model.remote().result() == ""


def test_state_stays_in_the_replica(handle: DeploymentHandle) -> None:
    first = handle.count.remote().result()
    assert handle.count.remote().result() == first + 1


def test_names_of_the_handle(handle: DeploymentHandle) -> None:
    assert (handle.deployment_name, handle.app_name) == ("Everything", "everything")


def test_app_handle(handle: DeploymentHandle) -> None:
    assert serve.get_app_handle("everything").sync.remote(1).result() == 11


def test_deployment_handle(handle: DeploymentHandle) -> None:
    found = serve.get_deployment_handle("Everything", app_name="everything")
    assert found.sync.remote(1).result() == 11


@pytest.mark.parametrize(("name", "app"), [("Nobody", "everything"), ("Everything", "nobody")])
def test_deployment_handle_of_nobody(handle: DeploymentHandle, name: str, app: str) -> None:
    with pytest.raises(KeyError, match="does not exist"):
        serve.get_deployment_handle(name, app_name=app)


def test_deployment_handle_without_an_application(handle: DeploymentHandle) -> None:
    with pytest.raises(serve.exceptions.RayServeException, match="Please specify an application name when"):
        serve.get_deployment_handle("Everything")


def test_app_handle_of_nobody(handle: DeploymentHandle) -> None:
    with pytest.raises(serve.exceptions.RayServeException, match="Application 'nobody' does not exist"):
        serve.get_app_handle("nobody")


def test_handle_in_a_task(handle: DeploymentHandle) -> None:
    @ray.remote(num_cpus=0)
    def ask(inner: DeploymentHandle) -> int:
        return inner.sync.remote(5).result()

    assert ray.get(ask.remote(handle)) == 15


def test_handle_in_an_actor(handle: DeploymentHandle) -> None:
    @ray.remote(num_cpus=0)
    class Asker:
        async def ask(self, inner: DeploymentHandle) -> int:
            return await inner.sync.remote(6)

    asker = Asker.remote()
    assert ray.get(asker.ask.remote(handle)) == 16


def test_unpicklable_argument(handle: DeploymentHandle) -> None:
    import threading

    with pytest.raises(TypeError):
        handle.echo.remote(threading.Lock()).result()


def test_handles_are_equal_by_what_they_call(handle: DeploymentHandle) -> None:
    assert handle.deployment_id == serve.get_app_handle("everything").deployment_id


def test_unknown_option(handle: DeploymentHandle) -> None:
    with pytest.raises(TypeError):
        handle.options(no_such_option=1)
