"""Responses of handles: cancelling, waiting, passing on, and rejected uses; handles before and after their
first use."""

from __future__ import annotations

import asyncio
import concurrent.futures
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import ray
from ray import serve
from ray.serve.exceptions import RequestCancelledError
from ray.serve.handle import DeploymentHandle, DeploymentResponse, DeploymentResponseGenerator
from waiting import wait_for

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


class Box:
    """An object of one's own that has something in it."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __repr__(self) -> str:
        return f"Box({self.thing!r})"


@serve.deployment(max_ongoing_requests=20, **LIGHT)
class Leaf:
    def __init__(self, word: str = "leaf") -> None:
        self.word = word
        self.gate = asyncio.Event()
        self.held = 0
        self.cancelled = 0

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self.word, *args, *sorted(kwargs.items()))

    async def hold(self) -> str:
        self.held += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "let go"

    async def look(self) -> tuple[int, int]:
        return self.held, self.cancelled

    async def count(self, number: int) -> Any:
        for each in range(number):
            yield each

    async def forever(self) -> Any:
        number = 0
        while True:
            yield number
            number += 1
            await asyncio.sleep(0.001)  # the work of the stream

    async def fail(self) -> None:
        raise ValueError("as asked")

    async def _private(self, number: int) -> int:
        return -number

    async def cancel_itself(self) -> None:
        raise asyncio.CancelledError


@serve.deployment(max_ongoing_requests=20, **LIGHT)
class Front:
    """Runs in a replica what a test gives it, with the handles that it was bound with."""

    def __init__(self, leaf: DeploymentHandle, boxed: Box, *rest: Any, **named: Any) -> None:
        self.leaf = leaf
        self.boxed = boxed
        self.rest = rest
        self.named = named

    async def run(self, function: Any, *args: Any) -> Any:
        return await function(self, *args)

    async def __call__(self) -> str:
        return "front"


@pytest.fixture(scope="module")
def front(server: str) -> Iterator[Any]:
    leaf = Leaf.bind()
    other = Leaf.options(name="Other").bind("other")
    app = Front.bind(leaf, Box(other), [Box([leaf])], {"key": (other,)}, named=Box({"deep": Box(leaf)}))
    yield serve.run(app, name="responses", route_prefix="/responses")
    serve.delete("responses")


@pytest.fixture(scope="module")
def leaf(front: Any) -> Any:
    return serve.get_deployment_handle("Leaf", "responses")


def run(front: Any, function: Callable[..., Any], *args: Any) -> Any:
    return front.run.remote(function, *args).result(timeout_s=30)


# -- applications among the arguments


def test_an_application_inside_an_object_of_ones_own(front: Any) -> None:
    async def look(self: Any) -> Any:
        return type(self.boxed).__name__, await self.boxed.thing.remote(1)

    assert run(front, look) == ("Box", ("other", 1))


def test_applications_deep_in_the_arguments(front: Any) -> None:
    async def look(self: Any) -> Any:
        handles = [self.rest[0][0].thing[0], self.rest[1]["key"][0], self.named["named"].thing["deep"].thing]
        return [(await each.remote())[0] for each in handles]

    assert run(front, look) == ["leaf", "other", "leaf"]


def test_an_application_that_is_named_twice_is_one_deployment(front: Any) -> None:
    assert sorted(serve.status().applications["responses"].deployments) == ["Front", "Leaf", "Other"]


# -- cancelling


def test_awaiting_a_cancelled_response(front: Any) -> None:
    async def cancel(self: Any) -> Any:
        response = self.leaf.hold.remote()
        while (await self.leaf.look.remote())[0] == 0:
            await asyncio.sleep(0.01)  # in a replica, where there is no wait_for
        response.cancel()
        try:
            await response
        except Exception as error:  # which CancelledError is not
            return type(error).__name__, isinstance(error, RequestCancelledError), response.cancelled()

    assert run(front, cancel)[1:] == (True, True)


def test_awaiting_a_response_that_was_cancelled_at_once(front: Any) -> None:
    async def cancel(self: Any) -> Any:
        response = self.leaf.hold.remote()
        response.cancel()
        try:
            await response
        except Exception as error:  # as above
            return isinstance(error, RequestCancelledError), response.request_id in str(error)

    assert run(front, cancel) == (True, True)


def test_the_next_value_of_a_cancelled_stream(front: Any) -> None:
    async def cancel(self: Any) -> Any:
        stream = self.leaf.options(stream=True).forever.remote()
        first = await stream.__anext__()
        stream.cancel()
        try:
            while True:
                await stream.__anext__()
        except Exception as error:  # whatever it is, but for CancelledError
            return first, isinstance(error, RequestCancelledError)

    assert run(front, cancel) == (0, True)


def test_cancelling_who_awaits_cancels_with_cancelled_error(front: Any) -> None:
    async def cancel(self: Any) -> Any:
        response = self.leaf.hold.remote()

        async def wait() -> Any:
            return await response

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0.05)  # in a replica, until the request is on its way
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert run(front, cancel) is True


def test_result_of_a_cancelled_response(leaf: Any) -> None:
    before = leaf.look.remote().result()
    response = leaf.hold.remote()
    wait_for(lambda: leaf.look.remote().result()[0] > before[0], what="the request to run")
    response.cancel()
    with pytest.raises(RequestCancelledError):
        response.result(timeout_s=20)
    wait_for(lambda: leaf.look.remote().result()[1] > before[1], what="CancelledError in the replica")
    assert response.cancelled()


def test_a_cancelled_response_is_also_a_cancelled_task(leaf: Any) -> None:
    response = leaf.hold.remote()
    response.cancel()
    with pytest.raises(ray.exceptions.TaskCancelledError):
        response.result(timeout_s=20)


def test_cancelling_twice(leaf: Any) -> None:
    response = leaf.hold.remote()
    response.cancel()
    response.cancel()
    assert response.cancelled()


def test_cancelling_what_has_ended(leaf: Any) -> None:
    response = leaf.remote()
    assert response.result() == ("leaf",)
    response.cancel()
    assert response.cancelled()


def test_not_cancelled(leaf: Any) -> None:
    assert not leaf.remote().cancelled()


# -- waiting


def test_result_in_async_code(leaf: Any) -> None:
    async def main() -> None:
        leaf.remote().result()

    with pytest.raises(
        RuntimeError, match="Sync methods should not be called from within an `asyncio` event"
    ):
        asyncio.run(main())


def test_next_in_async_code(leaf: Any) -> None:
    async def main() -> None:
        next(leaf.options(stream=True).count.remote(1))

    with pytest.raises(
        RuntimeError, match="Sync methods should not be called from within an `asyncio` event"
    ):
        asyncio.run(main())


def test_awaiting_a_stream(leaf: Any) -> None:
    async def main() -> None:
        await leaf.options(stream=True).count.remote(1)

    with pytest.raises(TypeError, match="cannot be awaited directly"):
        asyncio.run(main())


def test_result_of_a_stream(leaf: Any) -> None:
    with pytest.raises(TypeError, match="doesn't support `.result"):
        leaf.options(stream=True).count.remote(1).result()


def test_a_timeout_keeps_the_request(leaf: Any) -> None:
    response = leaf.hold.remote()
    with pytest.raises(TimeoutError):
        response.result(timeout_s=0.05)
    assert not response.cancelled()
    response.cancel()


def test_a_timeout_of_zero(leaf: Any) -> None:
    response = leaf.hold.remote()
    with pytest.raises(TimeoutError):
        response.result(timeout_s=0)
    response.cancel()


def test_timeout_by_keyword_alone(leaf: Any) -> None:
    with pytest.raises(TypeError):
        leaf.remote().result(5)


def test_results_in_many_threads(leaf: Any) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: leaf.remote(number).result(), range(40)))
    assert answers == [("leaf", number) for number in range(40)]


def test_a_response_can_be_awaited_twice(front: Any) -> None:
    async def twice(self: Any) -> Any:
        response = self.leaf.remote(1)
        return await response, await response

    assert run(front, twice) == (("leaf", 1), ("leaf", 1))


def test_gather(front: Any) -> None:
    async def gather(self: Any) -> Any:
        return await asyncio.gather(*(self.leaf.remote(number) for number in range(5)))

    assert run(front, gather) == [("leaf", number) for number in range(5)]


def test_wait_for_of_a_response(front: Any) -> None:
    async def late(self: Any) -> Any:
        try:
            await asyncio.wait_for(self.leaf.hold.remote(), 0.05)
        except asyncio.TimeoutError:
            return "late"

    assert run(front, late) == "late"


def test_an_exception_through_two_deployments(front: Any) -> None:
    async def fail(self: Any) -> Any:
        await self.leaf.fail.remote()

    with pytest.raises(ValueError, match="as asked"):
        run(front, fail)


def test_an_exception_can_be_caught_in_between(front: Any) -> None:
    async def caught(self: Any) -> Any:
        try:
            await self.leaf.fail.remote()
        except ValueError as error:
            return str(error.args[0]) if error.args else "", isinstance(error, ray.exceptions.RayTaskError)

    assert run(front, caught)[1] is True


# -- object refs


def test_to_object_ref_sync(leaf: Any) -> None:
    ref = leaf.remote(3)._to_object_ref_sync()
    assert isinstance(ref, ray.ObjectRef) and ray.get(ref) == ("leaf", 3)


def test_to_object_ref(front: Any) -> None:
    async def convert(self: Any) -> Any:
        ref = await self.leaf.remote(4)._to_object_ref()
        return isinstance(ref, ray.ObjectRef), await ref

    assert run(front, convert) == (True, ("leaf", 4))


def test_a_ref_of_a_response_as_argument_of_a_task(leaf: Any) -> None:
    @ray.remote(num_cpus=0)
    def size(value: Any) -> int:
        return len(value)

    assert ray.get(size.remote(leaf.remote(1, 2)._to_object_ref_sync())) == 3


def test_a_ref_as_argument_is_its_value(leaf: Any) -> None:
    assert leaf.remote(ray.put(7), key=ray.put("x")).result() == ("leaf", 7, ("key", "x"))


# -- passing responses on


def test_a_response_in_a_list_is_refused(leaf: Any) -> None:
    with pytest.raises(serve.exceptions.RayServeException, match="`DeploymentResponse` is not serializable"):
        leaf.remote([leaf.remote()]).result(timeout_s=20)


def test_a_response_is_not_pickled(leaf: Any) -> None:
    with pytest.raises(serve.exceptions.RayServeException, match="is not serializable"):
        pickle.dumps(leaf.remote())


def test_a_stream_is_not_passed_on(leaf: Any) -> None:
    with pytest.raises(RuntimeError, match="cannot be passed to downstream handle calls"):
        leaf.remote(leaf.options(stream=True).count.remote(1)).result(timeout_s=20)


def test_a_response_passed_on_in_a_replica(front: Any) -> None:
    async def chain(self: Any) -> Any:
        first = self.leaf.remote(1)
        return await self.boxed.thing.remote(first, again=first)

    assert run(front, chain) == ("other", ("leaf", 1), ("again", ("leaf", 1)))


def test_a_stream_passed_on_value_by_value(front: Any) -> None:
    async def collect(self: Any) -> Any:
        return [each async for each in self.leaf.options(stream=True).count.remote(4)]

    assert run(front, collect) == [0, 1, 2, 3]


# -- types and names


def test_types(leaf: Any) -> None:
    response, stream = leaf.remote(), leaf.options(stream=True).count.remote(1)
    assert isinstance(response, DeploymentResponse) and isinstance(stream, DeploymentResponseGenerator)
    assert isinstance(leaf, DeploymentHandle) and list(stream) == [0]


def test_a_response_has_a_request_id(leaf: Any) -> None:
    ids = {leaf.remote().request_id for _ in range(3)}
    assert len(ids) == 3 and all(isinstance(each, str) and each for each in ids)


def test_a_response_is_by_reference(leaf: Any) -> None:
    assert leaf.remote().by_reference is True


def test_a_private_method(leaf: Any) -> None:
    assert leaf._private.remote(3).result() == -3


def test_handles_before_their_first_use(front: Any) -> None:
    handle = serve.get_deployment_handle("Leaf", "responses")
    made = pickle.loads(pickle.dumps(handle))
    assert not made.is_initialized and not made.running_replicas_populated()
    made.options(method_name="look")
    assert made.is_initialized


def test_init_is_for_unused_handles(front: Any) -> None:
    made = pickle.loads(pickle.dumps(serve.get_deployment_handle("Leaf", "responses")))
    made._init(_prefer_local_routing=True)
    assert made.is_initialized
    with pytest.raises(RuntimeError, match="Handle has already been initialized"):
        made._init()
    with pytest.raises(TypeError):
        pickle.loads(pickle.dumps(made))._init(_unknown=True)


def test_a_used_handle_knows_its_replicas(leaf: Any) -> None:
    made = pickle.loads(pickle.dumps(leaf))
    assert made.remote().result() == ("leaf",) and made.running_replicas_populated()


def test_settings_go_with_a_pickled_handle(leaf: Any) -> None:
    made = pickle.loads(pickle.dumps(leaf.options(method_name="count", stream=True)))
    assert list(made.remote(2)) == [0, 1]


@pytest.mark.parametrize("option", ["use_new_handle_api", "retries", "name"])
def test_options_that_there_are_not(leaf: Any, option: str) -> None:
    with pytest.raises(TypeError):
        leaf.options(**{option: True})


def test_options_by_keyword_alone(leaf: Any) -> None:
    with pytest.raises(TypeError):
        leaf.options("count")


def test_options_keep_those_of_before(leaf: Any) -> None:
    changed = leaf.options(stream=True).options(method_name="count")
    assert list(changed.remote(2)) == [0, 1]


@pytest.mark.parametrize("option", ["_prefer_local_routing", "_by_reference"])
def test_private_options_are_taken(leaf: Any, option: str) -> None:
    made = pickle.loads(pickle.dumps(leaf))
    assert made.options(**{option: True}).remote().result() == ("leaf",)


# -- the exceptions themselves


def test_request_cancelled_error() -> None:
    assert str(RequestCancelledError("abc")) == "Request abc was cancelled."
    assert str(RequestCancelledError()) == "Request was cancelled."
    assert issubclass(RequestCancelledError, (serve.exceptions.RayServeException,))
    assert issubclass(RequestCancelledError, ray.exceptions.TaskCancelledError)


def test_back_pressure_error() -> None:
    error = serve.exceptions.BackPressureError(num_queued_requests=3, max_queued_requests=2)
    start = "Request dropped due to backpressure (num_queued_requests=3, max_queued_requests=2)."
    assert str(error).startswith(start) and error.message == str(error)
    assert (error.status_code, error.retry_after_s) == (503, None)
    again = pickle.loads(pickle.dumps(serve.exceptions.BackPressureError(3, 2, 429, 1.5)))
    assert (again.status_code, again.retry_after_s) == (429, 1.5) and str(again).startswith(start)


def test_unavailable_errors() -> None:
    error: Any = serve.exceptions.DeploymentUnavailableError("x")
    assert "x is unavailable because it failed to deploy." in error.message
    assert "Replica r is no longer available." in serve.exceptions.ReplicaUnavailableError("r").message


def test_grpc_status_error() -> None:
    error = serve.exceptions.gRPCStatusError(ValueError("why"), code="code", details="more")
    assert (str(error), error.grpc_code, error.grpc_details) == ("why", "code", "more")
    assert isinstance(error.original_exception, ValueError)
