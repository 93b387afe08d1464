"""Calls that wait at an actor: how many may, and how they are cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
import ray
from ray.exceptions import PendingCallsLimitExceeded, TaskCancelledError
from waiting import Gate, wait_for

pytestmark = pytest.mark.usefixtures("cluster")


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
    id="D-cancel-dependent",
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
    "a call cancelled right after it was sent always ends; in Ray its get may wait forever",
    id="D-cancel-sent",
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
    # The error may come at once, or only when the actor is free. The request must reach it before the gate opens.
    ray.wait([queued], timeout=2)
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
    # The error may come at once, or only when the actor is free. The request must reach it before the gate opens.
    ray.wait([queued], timeout=2)
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
