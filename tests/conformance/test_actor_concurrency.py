"""How many calls an actor runs at once, in which order, and how many may wait."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest
import ray
from ray.exceptions import PendingCallsLimitExceeded, TaskCancelledError
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


# concurrency groups


def grouped_class() -> Any:
    @ray.remote(concurrency_groups={"io": 2, "compute": 1})
    class Grouped:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(2)

        @ray.method(concurrency_group="io")
        def meet(self) -> bool:
            self.barrier.wait(timeout=30)
            return True

        @ray.method(concurrency_group="compute")
        def hold(self, started: Gate, release: Gate) -> str:
            started.open()
            release.wait()
            return "held"

        @ray.method(concurrency_group="compute")
        def compute(self) -> str:
            return "computed"

        def plain(self) -> str:
            return "plain"

    return Grouped


def test_core_21_methods_of_a_group_run_at_once() -> None:
    grouped = grouped_class().remote()
    assert ray.get([grouped.meet.remote(), grouped.meet.remote()], timeout=40) == [True, True]


def test_core_21_a_busy_group_does_not_block_the_others(gate: Any) -> None:
    grouped = grouped_class().remote()
    started, release = gate("started"), gate("release")
    held = grouped.hold.remote(started, release)
    started.wait()
    assert ray.get(grouped.plain.remote(), timeout=30) == "plain"
    assert ray.get([grouped.meet.remote(), grouped.meet.remote()], timeout=40) == [True, True]
    release.open()
    assert ray.get(held) == "held"


def test_core_21_a_group_of_one_runs_its_methods_one_by_one(gate: Any) -> None:
    grouped = grouped_class().remote()
    started, release = gate("started"), gate("release")
    held = grouped.hold.remote(started, release)
    started.wait()
    queued = grouped.compute.remote()
    assert ray.wait([queued], timeout=0.3)[0] == []
    release.open()
    assert ray.get([held, queued]) == ["held", "computed"]


def test_core_21_group_chosen_per_call(gate: Any) -> None:
    grouped = grouped_class().remote()
    started, release = gate("started"), gate("release")
    held = grouped.hold.remote(started, release)
    started.wait()
    assert ray.get(grouped.compute.options(concurrency_group="io").remote(), timeout=30) == "computed"
    release.open()
    assert ray.get(held) == "held"


def test_core_21_groups_of_an_asyncio_actor() -> None:
    @ray.remote(concurrency_groups={"io": 1})
    class Loop:
        def __init__(self) -> None:
            self.opened = asyncio.Event()

        @ray.method(concurrency_group="io")
        async def block(self) -> str:
            await self.opened.wait()
            return "open"

        @ray.method(concurrency_group="io")
        async def behind(self) -> str:
            return "behind"

        async def unblock(self) -> None:
            self.opened.set()

    loop = Loop.remote()
    blocked, behind = loop.block.remote(), loop.behind.remote()
    assert ray.wait([behind], timeout=0.3)[0] == []
    ray.get(loop.unblock.remote(), timeout=30)
    assert ray.get([blocked, behind], timeout=30) == ["open", "behind"]


def test_core_21_default_group_keeps_max_concurrency() -> None:
    @ray.remote(concurrency_groups={"io": 1}, max_concurrency=2)
    class Pair:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(2)

        def meet(self) -> bool:
            self.barrier.wait(timeout=30)
            return True

    pair = Pair.remote()
    assert ray.get([pair.meet.remote(), pair.meet.remote()], timeout=40) == [True, True]


@pytest.mark.parametrize(
    "groups", [{"io": 0}, {"io": -1}, {"io": "two"}, ["io"]], ids=["zero", "negative", "text", "list"]
)
@pytest.mark.chosen_difference(
    "a group that could run nothing, or is no group, is refused where it is written", id="D-concurrency-group"
)
def test_core_21_bad_groups_are_refused(groups: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="concurrency_groups"):

        @ray.remote(concurrency_groups=groups)
        class Never:
            pass

        Never.remote()


@pytest.mark.chosen_difference(
    "an unknown group is refused at the call; in Ray it ends the actor's process", id="D-concurrency-group"
)
def test_core_21_unknown_group_is_refused_at_the_call() -> None:
    grouped = grouped_class().remote()
    with pytest.raises(ValueError, match="nothing"):
        grouped.plain.options(concurrency_group="nothing").remote()
    assert ray.get(grouped.plain.remote()) == "plain"


# pending calls


def test_core_28_max_pending_calls_refuses_the_call_above_it(gate: Any) -> None:
    release = gate("release")

    @ray.remote(max_pending_calls=3)
    class Busy:
        def hold(self, signal: Gate) -> int:
            signal.wait()
            return 1

    busy = Busy.remote()
    accepted = [busy.hold.remote(release) for _ in range(3)]
    with pytest.raises(PendingCallsLimitExceeded):
        busy.hold.remote(release)
    release.open()
    assert ray.get(accepted) == [1, 1, 1]


def test_core_28_max_pending_calls_counts_unfinished_calls_only() -> None:
    @ray.remote
    class Quick:
        def one(self) -> int:
            return 1

    quick = Quick.options(max_pending_calls=2).remote()
    for _ in range(6):
        assert ray.get(quick.one.remote()) == 1


def test_core_28_pending_calls_are_unlimited_by_default(gate: Any) -> None:
    release = gate("release")

    @ray.remote
    class Busy:
        def hold(self, signal: Gate) -> int:
            signal.wait()
            return 1

    busy = Busy.remote()
    calls = [busy.hold.remote(release) for _ in range(300)]
    release.open()
    assert sum(ray.get(calls)) == 300


# cancelling


def test_core_18_cancel_of_an_async_call_is_an_asyncio_cancel(gate: Any) -> None:
    started, cancelled = gate("started"), gate("cancelled")

    @ray.remote
    class Sleeper:
        async def sleep(self, began: Gate, ended: Gate) -> None:
            began.open()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.open()
                raise

        async def hi(self) -> str:
            return "hi"

    sleeper = Sleeper.remote()
    sleeping = sleeper.sleep.remote(started, cancelled)
    started.wait()
    ray.cancel(sleeping)
    with pytest.raises(TaskCancelledError):
        ray.get(sleeping, timeout=30)
    wait_for(cancelled.is_open, what="the coroutine to see the cancellation")
    assert ray.get(sleeper.hi.remote(), timeout=30) == "hi"


@pytest.mark.chosen_difference(
    "a call cancelled before its argument is there ends at once; in Ray it waits for the argument",
    id="D-cancel-sent",
)
def test_core_18_cancel_of_an_actor_call_that_lacks_its_argument(gate: Any) -> None:
    go = gate("go")

    @ray.remote
    def slow(signal: Gate) -> str:
        signal.wait()
        return "slow"

    @ray.remote
    class Echo:
        def echo(self, what: str) -> str:
            return what

    echo = Echo.remote()
    ray.get(echo.__ray_ready__.remote())
    waiting = echo.echo.remote(slow.remote(go))
    ray.cancel(waiting)
    with pytest.raises(TaskCancelledError):
        ray.get(waiting, timeout=30)
    go.open()
    assert ray.get(echo.echo.remote("next"), timeout=30) == "next"


@pytest.mark.chosen_difference(
    "a call cancelled right after it was sent always ends; in Ray its get may wait for ever", id="D-cancel-sent"
)
def test_core_18_cancel_right_after_the_call(gate: Any) -> None:
    started, release = gate("started"), gate("release")

    @ray.remote
    class Busy:
        def hold(self, began: Gate, signal: Gate) -> str:
            began.open()
            signal.wait()
            return "held"

        def hi(self) -> str:
            return "hi"

    busy = Busy.remote()
    held = busy.hold.remote(started, release)
    started.wait()
    queued = busy.hi.remote()
    ray.cancel(queued)
    release.open()
    with pytest.raises(TaskCancelledError):
        ray.get(queued, timeout=30)
    assert ray.get([held, busy.hi.remote()], timeout=30) == ["held", "hi"]


def test_core_18_cancel_of_a_queued_actor_call(gate: Any) -> None:
    started, release = gate("started"), gate("release")

    @ray.remote
    class Busy:
        def hold(self, began: Gate, signal: Gate) -> str:
            began.open()
            signal.wait()
            return "held"

        def hi(self) -> str:
            return "hi"

    busy = Busy.remote()
    held = busy.hold.remote(started, release)
    started.wait()
    queued = busy.hi.remote()
    # Give the call the time to be queued at the actor; one on its way there is another test's.
    assert ray.wait([queued], timeout=0.5)[0] == []
    ray.cancel(queued)
    release.open()
    with pytest.raises(TaskCancelledError):
        ray.get(queued, timeout=30)
    assert ray.get([held, busy.hi.remote()], timeout=30) == ["held", "hi"]


def test_core_18_force_is_refused_for_actor_calls(gate: Any) -> None:
    release = gate("release")

    @ray.remote
    class Busy:
        def hold(self, signal: Gate) -> str:
            signal.wait()
            return "held"

    busy = Busy.remote()
    held = busy.hold.remote(release)
    with pytest.raises(ValueError, match="force"):
        ray.cancel(held, force=True)
    release.open()
    assert ray.get(held) == "held"


def test_core_18_cancelling_a_finished_call_changes_nothing() -> None:
    loop = loop_class().remote()
    done = loop.get_inside.remote()
    assert ray.get(done) == 0
    with contextlib.suppress(TaskCancelledError):
        ray.cancel(done)
    assert ray.get(done) == 0
