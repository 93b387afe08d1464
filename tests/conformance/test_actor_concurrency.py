"""How many calls an actor runs at once, in which order, and how many may wait."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import ray
from waiting import Gate, Tally, wait_for

pytestmark = pytest.mark.usefixtures("cluster")


def meter_class() -> Any:
    """An actor class whose threads say how many of them are inside ``enter`` at once."""

    @ray.remote
    class Meter:
        def __init__(self) -> None:
            self.lock = threading.Lock()
            self.inside = 0
            self.most = 0

        def enter(self, arrived: Tally, release: Gate) -> None:
            with self.lock:
                self.inside += 1
                self.most = max(self.most, self.inside)
            arrived.add()
            release.wait()
            with self.lock:
                self.inside -= 1

        def get_most(self) -> int:
            return self.most

    return Meter


def loop_class() -> Any:
    """An asyncio actor whose calls meet at an event."""

    @ray.remote
    class Loop:
        def __init__(self) -> None:
            self.opened = asyncio.Event()
            self.inside = 0
            self.most = 0

        async def enter(self) -> int:
            self.inside += 1
            self.most = max(self.most, self.inside)
            await self.opened.wait()
            self.inside -= 1
            return self.most

        async def meet(self, how_many: int) -> int:
            self.inside += 1
            if self.inside == how_many:
                self.opened.set()
            await self.opened.wait()
            return self.inside

        async def get_inside(self) -> int:
            return self.inside

        async def open(self) -> None:
            self.opened.set()

    return Loop


def test_core_20_a_sync_actor_runs_one_call_at_a_time(gate: Any, tally: Any) -> None:
    meter, arrived, release = meter_class().remote(), tally("arrived"), gate("release")
    calls = [meter.enter.remote(arrived, release) for _ in range(3)]
    wait_for(lambda: arrived.count() == 1, what="the first call to start")
    release.open()
    ray.get(calls)
    assert ray.get(meter.get_most.remote()) == 1


def test_core_20_max_concurrency_runs_that_many_threads(gate: Any, tally: Any) -> None:
    meter = meter_class().options(max_concurrency=4).remote()
    arrived, release = tally("arrived"), gate("release")
    calls = [meter.enter.remote(arrived, release) for _ in range(4)]
    wait_for(lambda: arrived.count() == 4, what="four calls to be inside at once")
    release.open()
    ray.get(calls)
    assert ray.get(meter.get_most.remote()) == 4


def test_core_20_max_concurrency_is_an_upper_bound(gate: Any, tally: Any) -> None:
    meter = meter_class().options(max_concurrency=2).remote()
    arrived, release = tally("arrived"), gate("release")
    calls = [meter.enter.remote(arrived, release) for _ in range(6)]
    wait_for(lambda: arrived.count() == 2, what="two calls to be inside")
    release.open()
    ray.get(calls)
    assert arrived.count() == 6
    assert ray.get(meter.get_most.remote()) == 2


def test_core_20_max_concurrency_in_the_decorator() -> None:
    @ray.remote(max_concurrency=2)
    class Pair:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(2)

        def meet(self) -> bool:
            self.barrier.wait(timeout=30)
            return True

    pair = Pair.remote()
    assert ray.get([pair.meet.remote(), pair.meet.remote()], timeout=40) == [True, True]


def test_core_20_threads_of_an_actor_share_its_state() -> None:
    @ray.remote(max_concurrency=3)
    class Shares:
        def __init__(self) -> None:
            self.event = threading.Event()

        def block(self) -> bool:
            return self.event.wait(timeout=30)

        def unblock(self) -> None:
            self.event.set()

    actor = Shares.remote()
    blocked = [actor.block.remote(), actor.block.remote()]
    ray.get(actor.unblock.remote())
    assert ray.get(blocked) == [True, True]


def test_core_20_one_async_method_makes_an_asyncio_actor() -> None:
    loop = loop_class().remote()
    assert ray.get([loop.meet.remote(50) for _ in range(50)], timeout=60) == [50] * 50


def test_core_20_max_concurrency_bounds_an_asyncio_actor() -> None:
    loop = loop_class().options(max_concurrency=2).remote()
    calls = [loop.meet.remote(3) for _ in range(3)]
    # Two wait for a third that may not come in while they are there.
    ready, _ = ray.wait(calls, num_returns=1, timeout=1)
    assert ready == []
    ray.kill(loop)


def test_core_20_sync_methods_of_an_asyncio_actor_share_its_thread() -> None:
    @ray.remote
    class Mixed:
        async def of_async(self) -> int:
            return threading.get_ident()

        def of_sync(self) -> int:
            return threading.get_ident()

    mixed = Mixed.remote()
    assert len(set(ray.get([mixed.of_async.remote(), mixed.of_sync.remote(), mixed.of_async.remote()]))) == 1


def test_core_20_async_method_awaits_refs() -> None:
    @ray.remote
    def double(n: int) -> int:
        return 2 * n

    @ray.remote
    class Awaits:
        async def one(self, n: int) -> int:
            return await double.remote(n)

        async def many(self, n: int) -> list[int]:
            return await asyncio.gather(*[double.remote(i) for i in range(n)])

        async def wrapped(self, boxed: list[Any]) -> int:
            return await boxed[0]

    actor = Awaits.remote()
    assert ray.get(actor.one.remote(2)) == 4
    assert ray.get(actor.many.remote(3)) == [0, 2, 4]
    assert ray.get(actor.wrapped.remote([ray.put(7)])) == 7


def test_core_20_async_actor_may_await_a_call_to_itself() -> None:
    @ray.remote
    class Selfish:
        async def outer(self) -> int:
            return await ray.get_runtime_context().current_actor.inner.remote() + 1

        async def inner(self) -> int:
            return 1

    assert ray.get(Selfish.remote().outer.remote(), timeout=30) == 2


def test_core_20_error_in_an_async_method() -> None:
    @ray.remote
    class Fails:
        async def fail(self) -> None:
            await asyncio.sleep(0)
            raise KeyError("async boom")

        async def fine(self) -> int:
            return 1

    actor = Fails.remote()
    with pytest.raises(KeyError, match="async boom"):
        ray.get(actor.fail.remote())
    assert ray.get(actor.fine.remote()) == 1


@pytest.mark.chosen_difference(
    "async calls of one caller start in the order of submission; Ray's may start in any", id="D-async-order"
)
def test_core_20_async_calls_start_in_order() -> None:
    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.seen: list[int] = []

        async def add(self, n: int) -> None:
            self.seen.append(n)
            await asyncio.sleep(0)

        async def read(self) -> list[int]:
            return self.seen

    log = Log.remote()
    ray.get([log.add.remote(n) for n in range(50)])
    assert ray.get(log.read.remote()) == list(range(50))


def test_core_20_driver_awaits_actor_results() -> None:
    loop = loop_class().remote()

    async def drive() -> list[int]:
        entering = [loop.enter.remote() for _ in range(3)]
        await loop.open.remote()
        return list(await asyncio.gather(*entering))

    assert len(asyncio.run(drive())) == 3


def test_core_20_each_callers_calls_keep_their_order() -> None:
    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.seen: list[tuple[str, int]] = []

        def add(self, who: str, n: int) -> None:
            self.seen.append((who, n))

        def read(self) -> list[tuple[str, int]]:
            return self.seen

    @ray.remote(num_cpus=0.5)
    def call(log: Any, who: str) -> None:
        ray.get([log.add.remote(who, n) for n in range(30)])

    log = Log.remote()
    ray.get([call.remote(log, "a"), call.remote(log, "b")])
    seen = ray.get(log.read.remote())
    for who in "ab":
        assert [n for caller, n in seen if caller == who] == list(range(30))


def test_core_20_a_call_waits_for_an_earlier_one_that_lacks_its_argument(gate: Any) -> None:
    go = gate("go")

    @ray.remote
    def slow(signal: Gate) -> str:
        signal.wait()
        return "slow"

    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def add(self, what: str) -> list[str]:
            self.seen.append(what)
            return list(self.seen)

    log = Log.remote()
    ray.get(log.__ray_ready__.remote())
    first = log.add.remote(slow.remote(go))
    second = log.add.remote("fast")
    assert ray.wait([second], timeout=0.3)[0] == []
    go.open()
    assert ray.get(first) == ["slow"]
    assert ray.get(second) == ["slow", "fast"]


def test_core_20_out_of_order_execution_lets_ready_calls_overtake(gate: Any) -> None:
    go = gate("go")

    @ray.remote
    def slow(signal: Gate) -> str:
        signal.wait()
        return "slow"

    @ray.remote(allow_out_of_order_execution=True)
    class Log:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def add(self, what: str) -> list[str]:
            self.seen.append(what)
            return list(self.seen)

    log = Log.remote()
    first = log.add.remote(slow.remote(go))
    assert ray.get(log.add.remote("fast"), timeout=30) == ["fast"]
    go.open()
    assert ray.get(first) == ["fast", "slow"]
