"""Deployments with `in_process=True`: calls are coroutines of the same loop, with all other guarantees of calls."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import skate
from skate import serve
from skate.exceptions import RayTaskError
from skate.serve.exceptions import BackPressureError

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        free: int = sock.getsockname()[1]
    skate.init(num_cpus=4, log_to_driver=False)
    serve.start(http_options={"port": free})
    yield free
    serve.shutdown()
    skate.shutdown()


@serve.deployment(in_process=True, max_ongoing_requests=100)
class Inner:
    def __init__(self, start: int = 0) -> None:
        self.value = start
        self.config: Any = None
        self.cancelled = 0
        self.active = self.most = 0
        self.release = asyncio.Event()

    def reconfigure(self, config: Any) -> None:
        self.config = config

    async def __call__(self, x: Any = None) -> Any:
        return x

    def plain(self, x: Any) -> Any:
        return x, threading.current_thread() is threading.main_thread()

    async def add(self, a: int, b: int) -> int:
        return a + b + self.value

    async def fail(self, x: Any = None) -> None:
        raise ValueError(f"no {x}")

    async def where(self) -> Any:
        here = serve.get_replica_context()
        around = serve.context.request.get()
        model = serve.get_multiplexed_model_id()
        return (
            os.getpid(),
            here.deployment,
            here.app_name,
            around.request_id,
            model,
            here.servable_object is self,
        )

    async def hold(self) -> None:
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.active -= 1

    async def let_go(self) -> None:
        self.release.set()
        self.release = asyncio.Event()

    async def state(self) -> tuple[int, int, int]:
        return self.active, self.most, self.cancelled

    async def count(self, n: int) -> Any:
        for i in range(n):
            yield i
        if n == 3:
            raise KeyError("three")

    def count_in_thread(self, n: int) -> Any:
        yield from range(n)

    async def endless(self) -> Any:
        self.active += 1
        try:
            i = 0
            while True:
                yield i
                i += 1
        finally:
            self.active -= 1
            self.cancelled += 1


@serve.deployment(max_ongoing_requests=100, **LIGHT)
class Outer:
    """A deployment that runs functions of a test with its inner deployments."""

    def __init__(self, *inner: Any, **named: Any) -> None:
        self.inner = inner
        self.named = named

    async def __call__(self, request: Any) -> Any:
        return str(await getattr(self.inner[0], request.query_params["call"]).remote())

    async def run(self, function: Callable[..., Any]) -> Any:
        return await function(self)

    def run_in_thread(self, function: Callable[..., Any]) -> Any:
        return function(self)


@pytest.fixture(scope="module")
def outer(port: int) -> Any:
    return serve.run(Outer.bind(Inner.bind(10)), name="outer", route_prefix="/outer")


def run(outer: Any, function: Callable[..., Any]) -> Any:
    return outer.run.remote(function).result(timeout_s=30)


async def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = asyncio.get_running_loop().time() + 20
    while True:
        value = await condition()
        if value:
            return value
        assert asyncio.get_running_loop().time() < deadline, f"waited 20 s for {what}"
        await asyncio.sleep(0.005)  # a replica waits for the condition in its own loop


def test_a_call_is_a_function_call_of_the_same_process(outer: Any) -> None:
    async def check(self: Any) -> Any:
        marked = object()
        pid, name, app, *_, own = await self.inner[0].where.remote()
        return (await self.inner[0].remote(marked)) is marked, pid == os.getpid(), name, app, own

    assert run(outer, check) == (True, True, "Inner", "outer", True)


def test_what_is_not_async_runs_in_a_thread(outer: Any) -> None:
    async def check(self: Any) -> Any:
        return await self.inner[0].plain.remote(5)

    assert run(outer, check) == (5, False)


def test_a_thread_may_wait_for_the_result(outer: Any) -> None:
    def check(self: Any) -> Any:
        values = list(self.inner[0].options(method_name="count", stream=True).remote(200))
        held = self.inner[0].hold.remote()
        with pytest.raises(TimeoutError):
            held.result(timeout_s=0.01)
        held.cancel()
        return self.inner[0].add.remote(1, 2).result(timeout_s=20), values == list(range(200))

    assert outer.run_in_thread.remote(check).result(timeout_s=30) == (13, True)


def test_an_error_is_that_of_a_task(outer: Any) -> None:
    async def check(self: Any) -> None:
        try:
            await self.inner[0].fail.remote("luck")
        except RayTaskError as error:
            assert isinstance(error, ValueError)
            assert "no luck" in str(error)
            return "caught"

    assert run(outer, check) == "caught"

    async def leaves(self: Any) -> None:
        await self.inner[0].fail.remote("luck")

    with pytest.raises(ValueError, match="no luck"):
        run(outer, leaves)


def test_a_method_that_is_not_there_is_named(outer: Any) -> None:
    async def check(self: Any) -> None:
        await self.inner[0].wher.remote()

    with pytest.raises(AttributeError, match="where"):
        run(outer, check)


def test_answers_are_passed_on_as_their_values(outer: Any, port: int) -> None:
    @serve.deployment(**LIGHT)
    class Apart:
        async def double(self, x: int) -> int:
            return 2 * x

    both = serve.run(Outer.bind(Inner.bind(0), Apart.bind()), name="both", route_prefix="/both")

    async def check(self: Any) -> Any:
        inner, apart = self.inner
        inside = inner.add.remote(inner.add.remote(1, 2), 3)
        return (
            await inside,
            await apart.double.remote(inner.add.remote(1, 2)),
            await inner.add.remote(apart.double.remote(5), b=1),
        )

    assert run(both, check) == (6, 6, 11)

    async def fails(self: Any) -> Any:
        return await self.inner[1].double.remote(self.inner[0].fail.remote("more"))

    with pytest.raises(ValueError, match="no more"):
        run(both, fails)
    serve.delete("both")


def test_the_request_goes_along(outer: Any) -> None:
    async def check(self: Any) -> Any:
        mine = serve.context.request.get().request_id
        inner_result = await self.inner[0].options(method_name="where", multiplexed_model_id="m1").remote()
        return mine and inner_result[3] == mine, inner_result[4]

    assert run(outer, check) == (True, "m1")


def test_no_more_than_max_ongoing_requests_work_at_once(port: int) -> None:
    limited = Inner.options(max_ongoing_requests=2, max_queued_requests=3).bind()
    outer = serve.run(Outer.bind(limited), name="limited", route_prefix="/limited")

    async def check(self: Any) -> Any:
        inner = self.inner[0]
        object_of = next(each for each in _inner_objects() if each.key[0] == "limited").servable.object
        calls = [inner.hold.remote() for _ in range(5)]
        await until(lambda: _soon(object_of.active == 2), "two requests at work")
        try:
            await inner.hold.remote()
        except BackPressureError as error:
            refused = str(error)
        while object_of.active:
            await object_of.let_go()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.gather(*(each._wait() for each in calls))
        return object_of.most, "num_queued_requests=3" in refused

    assert run(outer, check) == (2, True)
    serve.delete("limited")


def _inner_objects() -> Any:
    from skate.serve.routing import local_deployments as inside

    return inside._inside.values()


async def _soon(value: Any) -> Any:
    return value


def test_a_full_inner_deployment_is_503_with_retry_after(port: int) -> None:
    outer = serve.run(
        Outer.options(graceful_shutdown_timeout_s=0.1).bind(
            Inner.options(max_ongoing_requests=1, max_queued_requests=0).bind()
        ),
        name="full",
        route_prefix="/full",
    )

    async def fill(self: Any) -> Any:
        self.kept = self.inner[0].hold.remote()
        await until(
            lambda: _soon(any(each.limiter.full for each in _inner_objects())), "a full inner deployment"
        )

    run(outer, fill)
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/full?call=hold", timeout=20)
    with raised.value as answer:
        assert answer.code == 503
        assert answer.headers["retry-after"] == "1"
    serve.delete("full")


def test_streams(outer: Any) -> None:
    async def check(self: Any) -> Any:
        def of(method: str) -> Any:
            return self.inner[0].options(method_name=method, stream=True)

        values: list[Any] = []
        first = [each async for each in of("count").remote(300)]
        second = [each async for each in of("count_in_thread").remote(300)]
        try:
            async for each in of("count").remote(3):
                values.append(each)
        except KeyError as error:
            values.append(isinstance(error, RayTaskError))
        return [each == list(range(300)) for each in (first, second)], values

    assert run(outer, check) == ([True, True], [0, 1, 2, True])


def test_a_stream_that_nobody_reads_waits_and_ends_with_its_request(outer: Any) -> None:
    async def begin(self: Any) -> Any:
        before = await self.inner[0].state.remote()
        stream = self.inner[0].options(method_name="endless", stream=True).remote()
        assert await stream.__anext__() == 0
        ahead = len(stream._call.values._values)
        return before[2], (await self.inner[0].state.remote())[0] - before[0], ahead < 100

    cancelled_before, begun, waits = run(outer, begin)
    assert (begun, waits) == (1, True)

    async def ended(self: Any) -> Any:
        async def over() -> bool:
            active, _, cancelled = await self.inner[0].state.remote()
            return active == 0 and cancelled == cancelled_before + 1

        return await until(over, "the end of the generator")

    assert run(outer, ended)


def test_cancelling_an_answer_cancels_the_work(outer: Any) -> None:
    async def check(self: Any) -> Any:
        inner = self.inner[0]
        before = (await inner.state.remote())[2]
        call = inner.hold.remote()
        await until(lambda: _active(inner), "work under way")
        call.cancel()
        try:
            await call
        except serve.exceptions.RequestCancelledError:
            pass
        else:
            return "not cancelled"
        waiting = asyncio.ensure_future(inner.hold.remote()._wait())
        await until(lambda: _active(inner), "work under way")
        waiting.cancel()  # the waiter is cancelled, and the call with it
        await asyncio.wait([waiting])
        return waiting.cancelled(), call.cancelled(), (await inner.state.remote())[2] - before

    assert run(outer, check) == (True, True, 2)


async def _active(inner: Any) -> bool:
    return bool((await inner.state.remote())[0])


def test_a_client_that_goes_cancels_the_inner_work(outer: Any, port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    async def state(self: Any) -> Any:
        return await self.inner[0].state.remote()

    before = run(outer, state)
    connection.request("GET", "/outer?call=hold")

    async def begun(self: Any) -> Any:
        await until(lambda: _active(self.inner[0]), "the request at work")

    run(outer, begun)
    connection.close()

    async def over(self: Any) -> Any:
        async def cancelled() -> bool:
            return (await self.inner[0].state.remote())[2] == before[2] + 1

        return await until(cancelled, "the inner work to be cancelled")

    assert run(outer, over)


@pytest.mark.parametrize("near", [True, False])
def test_a_request_that_makes_many_calls_keeps_few_answers(outer: Any, port: int, near: bool) -> None:
    async def check(self: Any) -> Any:
        for i in range(300):
            await self.inner[0].remote(i)
        return len(serve.context.request.get().children)

    app = outer
    if not near:
        apart = Inner.options(in_process=False, **LIGHT).bind()
        app = serve.run(Outer.bind(apart), name="apart", route_prefix="/apart")
    assert 0 < run(app, check) < 130
    if not near:
        serve.delete("apart")


def test_one_inside_another_and_in_two_parents(port: int) -> None:
    @serve.deployment(in_process=True)
    class Middle:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def add(self, a: int) -> Any:
            return os.getpid(), await self.inner.add.remote(a, 100)

    shared = Inner.bind(1)

    @serve.deployment(**LIGHT)
    class Second:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def add(self) -> Any:
            return os.getpid(), await self.inner.add.remote(0, 0), (await self.inner.where.remote())[0]

    app = Outer.bind(Middle.bind(shared), shared, second=Second.bind(shared))
    outer = serve.run(app, name="nested", route_prefix="/nested")

    async def check(self: Any) -> Any:
        pid, value = await self.inner[0].add.remote(5)
        other, one, inside = await self.named["second"].add.remote()
        by_name = serve.get_deployment_handle("Inner")
        return pid == os.getpid(), value, other != pid, one, inside == other, await by_name.add.remote(1, 1)

    assert run(outer, check) == (True, 106, True, 1, True, 3)
    assert set(serve.status().applications["nested"].deployments) == {"Outer", "Second"}
    serve.delete("nested")


def test_user_config_and_broadcast(port: int) -> None:
    outer = serve.run(
        Outer.bind(Inner.options(user_config={"a": 1}).bind()), name="told", route_prefix="/told"
    )

    async def check(self: Any) -> Any:
        return next(
            e for e in _inner_objects() if e.key[0] == "told"
        ).servable.object.config, await self.inner[0].broadcast("add", 1, 2)

    assert run(outer, check) == ({"a": 1}, [3])
    outer = serve.run(
        Outer.bind(Inner.options(user_config={"a": 2}).bind()), name="told", route_prefix="/told"
    )
    assert run(outer, check)[0] == {"a": 2}
    serve.delete("told")


def test_metrics_have_the_inner_deployment(outer: Any, port: int) -> None:
    async def call(self: Any) -> None:
        await self.inner[0].remote(1)

    run(outer, call)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if "request_counter_total" in line and 'deployment="Inner"' in line]
    assert found
    assert float(found[0].rpartition(" ")[2]) >= 1


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="in_process"):
        Inner.options(num_replicas=2)
    with pytest.raises(ValueError, match="in_process"):
        serve.deployment(in_process=True, autoscaling_config={"max_replicas": 3})


def test_a_constructor_that_raises_is_the_cause(port: int) -> None:
    with pytest.raises(RuntimeError) as raised:
        serve.run(Outer.bind(Inner.bind(1, 2, 3)), name="broken", route_prefix="/broken")
    assert isinstance(raised.value.__cause__, TypeError)
    serve.delete("broken")
