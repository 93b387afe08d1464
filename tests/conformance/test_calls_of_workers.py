"""Calls by a worker are sent immediately, regardless of what the caller does next."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
import ray
from waiting import Gate, wait_for

pytestmark = pytest.mark.usefixtures("cluster")

#: How long a caller may compute before it looks for the effect of its call; longer than any pause of a loop.
PAUSES = pytest.mark.parametrize("pause_s", [0, 0.1], ids=["at_once", "after_a_while"])


def opener_class() -> Any:
    @ray.remote(num_cpus=0)
    class Opener:
        def open(self, gate: Gate) -> None:
            gate.open()

    return Opener


def busy_until(gate: Gate, timeout_s: float = 10.0) -> bool:
    """Compute, without a call into ray, until the gate is open."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if gate.is_open():
            return True
        time.sleep(0.002)  # this is the work of the task under test, which must not call into ray
    return False


@pytest.fixture
def opener() -> Any:
    actor = opener_class().remote()
    ray.get(actor.__ray_ready__.remote())
    return actor


@PAUSES
@pytest.mark.parametrize("calls", [1, 3, 40])
def test_call_of_a_task_runs_while_the_task_computes(
    opener: Any, gate: Any, pause_s: float, calls: int
) -> None:
    @ray.remote
    def caller(target: Any, gates: list[Gate]) -> bool:
        time.sleep(pause_s)
        for each in gates:
            target.open.remote(each)
        return all(busy_until(each) for each in gates)

    assert ray.get(caller.remote(opener, [gate(f"g{n}") for n in range(calls)]), timeout=60)


@PAUSES
def test_task_started_by_a_task_runs_while_that_computes(gate: Any, pause_s: float) -> None:
    @ray.remote(num_cpus=0)
    def child(signal: Gate) -> None:
        signal.open()

    @ray.remote
    def parent(signal: Gate) -> bool:
        time.sleep(pause_s)
        ref = child.remote(signal)
        return busy_until(signal) and ref is not None

    assert ray.get(parent.remote(gate("ran")), timeout=60)


@PAUSES
def test_call_of_an_actor_runs_while_its_method_computes(opener: Any, gate: Any, pause_s: float) -> None:
    @ray.remote
    class Caller:
        def call(self, target: Any, signal: Gate) -> bool:
            time.sleep(pause_s)
            target.open.remote(signal)
            return busy_until(signal)

    assert ray.get(Caller.remote().call.remote(opener, gate("ran")), timeout=60)


@PAUSES
def test_call_of_a_threaded_actor_runs_while_its_method_computes(
    opener: Any, gate: Any, pause_s: float
) -> None:
    @ray.remote(max_concurrency=2)
    class Caller:
        def call(self, target: Any, signal: Gate) -> bool:
            time.sleep(pause_s)
            target.open.remote(signal)
            return busy_until(signal)

    assert ray.get(Caller.remote().call.remote(opener, gate("ran")), timeout=60)


@PAUSES
@pytest.mark.parametrize("blocking", [True, False], ids=["blocks_the_loop", "awaits"])
@pytest.mark.parametrize("calls", [1, 3])
def test_call_of_an_async_actor_runs_while_its_method_goes_on(
    opener: Any, gate: Any, pause_s: float, blocking: bool, calls: int
) -> None:
    @ray.remote
    class Caller:
        async def call(self, target: Any, gates: list[Gate]) -> bool:
            await asyncio.sleep(pause_s)
            for each in gates:
                target.open.remote(each)
            if blocking:
                return all(busy_until(each) for each in gates)
            loop = asyncio.get_running_loop()
            deadline = loop.time() + 10
            while loop.time() < deadline and not all(each.is_open() for each in gates):
                await asyncio.sleep(0.3)
            return all(each.is_open() for each in gates)

    gates = [gate(f"g{n}") for n in range(calls)]
    assert ray.get(Caller.remote().call.remote(opener, gates), timeout=60)


@PAUSES
def test_call_of_a_thread_of_a_task_runs(opener: Any, gate: Any, pause_s: float) -> None:
    @ray.remote
    def caller(target: Any, signal: Gate) -> bool:
        def run() -> None:
            time.sleep(pause_s)
            target.open.remote(signal)

        thread = threading.Thread(target=run)
        thread.start()
        seen = busy_until(signal)
        thread.join()
        return seen

    assert ray.get(caller.remote(opener, gate("ran")), timeout=60)


@PAUSES
def test_call_of_a_constructor_runs_while_it_computes(opener: Any, gate: Any, pause_s: float) -> None:
    @ray.remote
    class Caller:
        def __init__(self, target: Any, signal: Gate) -> None:
            time.sleep(pause_s)
            target.open.remote(signal)
            self.seen = busy_until(signal)

        def get_seen(self) -> bool:
            return self.seen

    assert ray.get(Caller.remote(opener, gate("ran")).get_seen.remote(), timeout=60)


@PAUSES
def test_actor_started_by_a_task_runs_while_that_computes(gate: Any, pause_s: float) -> None:
    opener = opener_class()

    @ray.remote
    def parent(signal: Gate) -> bool:
        time.sleep(pause_s)
        actor = opener.remote()
        actor.open.remote(signal)
        return busy_until(signal)

    assert ray.get(parent.remote(gate("ran")), timeout=60)


@PAUSES
def test_cancel_by_a_task_is_heard_while_that_computes(gate: Any, pause_s: float) -> None:
    started, ended = gate("started"), gate("ended")

    @ray.remote(num_cpus=0, max_retries=0)
    def endless() -> None:
        started.open()
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.open()

    @ray.remote(num_cpus=0)
    def canceller(boxed: list[Any]) -> bool:
        time.sleep(pause_s)
        ray.cancel(boxed[0])
        return busy_until(ended)

    ref = endless.remote()
    started.wait()
    assert ray.get(canceller.remote([ref]), timeout=60)
    wait_for(ended.is_open, what="the cancelled task to end")


@PAUSES
def test_ref_dropped_by_a_computing_task_lets_its_actor_end(gate: Any, pause_s: float) -> None:
    ended = gate("ended")

    @ray.remote(num_cpus=0)
    class Mortal:
        def __init__(self) -> None:
            import atexit

            atexit.register(ended.open)

    @ray.remote
    def maker() -> bool:
        actor = Mortal.remote()
        ray.get(actor.__ray_ready__.remote())
        time.sleep(pause_s)
        del actor
        return busy_until(ended)

    assert ray.get(maker.remote(), timeout=60)
