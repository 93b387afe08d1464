"""Calls of actors: methods passed to other processes, returned refs, groups with separate loops, workers that
own a GPU."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

import pytest
import ray
from mortals import alive, gone
from ray.exceptions import ActorDiedError
from waiting import Gate

pytestmark = pytest.mark.usefixtures("cluster")


def test_handle_to_itself_that_an_actor_gives_away_does_not_keep_it() -> None:
    @ray.remote(num_cpus=0)
    class Holder:
        def keep(self, boxed: list[Any]) -> None:
            self.kept = boxed

    @ray.remote(num_cpus=0)
    class Gives:
        def pid(self) -> int:
            return os.getpid()

        def give(self, holder: Any) -> None:
            ray.get(holder.keep.remote([ray.get_runtime_context().current_actor]))

    holder, actor = Holder.remote(), Gives.remote()
    pid = ray.get(actor.pid.remote())
    ray.get(actor.give.remote(holder))
    del actor
    gone(pid)


# methods and groups


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
@pytest.mark.parametrize("options", [{}, {"name": "mine"}], ids=["plain", "with_options"])
def test_method_of_a_handle_can_be_passed_on(used: bool, options: dict[str, Any]) -> None:
    @ray.remote(num_cpus=0)
    class Echo:
        def echo(self, value: int) -> tuple[int, str]:
            return value, ray.get_runtime_context().get_task_name()

    @ray.remote(num_cpus=0)
    def call(method: Any) -> tuple[int, str]:
        return ray.get(method.remote(2))

    method = Echo.remote().echo
    if options:
        method = method.options(**options)
    if used:
        assert ray.get(method.remote(1))[0] == 1
    value, name = ray.get(call.remote(method), timeout=30)
    assert value == 2
    assert (name == "mine") is bool(options)


def test_sync_method_of_an_async_actor_returns_a_ref_as_it_is() -> None:
    @ray.remote(num_cpus=0)
    class Async:
        async def start(self) -> None:
            self.ref = ray.put(1)

        def get_ref(self) -> Any:
            return self.ref

        async def get_ref_async(self) -> Any:
            return self.ref

    actor = Async.remote()
    ray.get(actor.start.remote())
    for ref in (actor.get_ref.remote(), actor.get_ref_async.remote()):
        inner = ray.get(ref)
        assert isinstance(inner, ray.ObjectRef)
        assert ray.get(inner) == 1


def grouped() -> Any:
    @ray.remote(num_cpus=0, concurrency_groups={"io": 1, "other": 2})
    class Grouped:
        def block(self, started: Gate, release: Gate) -> int:
            started.open()
            release.wait()
            return threading.get_ident()

        async def thread(self) -> int:
            return threading.get_ident()

        @ray.method(concurrency_group="io")
        async def ping(self) -> int:
            return threading.get_ident()

        @ray.method(concurrency_group="io")
        def block_io(self, started: Gate, release: Gate) -> int:
            return self.block(started, release)

        @ray.method(concurrency_group="other")
        async def stream(self, count: int) -> Any:
            for n in range(count):
                await asyncio.sleep(0)
                yield n

        @ray.method(concurrency_group="other")
        async def forever(self, started: Gate) -> None:
            started.open()
            await asyncio.sleep(100)

        @ray.method(concurrency_group="other")
        async def leave(self) -> None:
            ray.actor.exit_actor()

    return Grouped.remote()


@pytest.mark.parametrize(("blocked", "free"), [("block", "ping"), ("block_io", "thread")])
def test_blocked_group_of_an_async_actor_leaves_the_others_alone(blocked: str, free: str, gate: Any) -> None:
    actor, started, release = grouped(), gate("started"), gate("release")
    held = getattr(actor, blocked).remote(started, release)
    started.wait()
    other = ray.get(getattr(actor, free).remote(), timeout=15)
    release.open()
    assert ray.get(held, timeout=15) != other


def test_groups_of_an_async_actor_stream_fail_and_cancel(gate: Any) -> None:
    actor, started = grouped(), gate("started")
    assert [ray.get(ref) for ref in actor.stream.remote(3)] == [0, 1, 2]
    endless = actor.forever.remote(started)
    started.wait()
    ray.cancel(endless)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(endless, timeout=15)
    assert ray.get(actor.ping.remote(), timeout=15) == ray.get(actor.ping.remote())
    with pytest.raises(ActorDiedError):
        ray.get(actor.leave.remote(), timeout=15)


def test_workers_of_gpu_tasks_end_after_each_task(gpus: None) -> None:
    @ray.remote(num_gpus=0.1, num_cpus=0)
    def pid() -> int:
        return os.getpid()

    gone(ray.get(pid.remote()))
    gone(ray.get(pid.options(num_gpus=0.2).remote()))


@pytest.mark.parametrize("how", ["max_calls", "options"])
def test_workers_of_gpu_tasks_stay_if_asked_to(how: str, gpus: None) -> None:
    def pid() -> int:
        return os.getpid()

    if how == "max_calls":
        task: Any = ray.remote(num_gpus=0.1, num_cpus=0, max_calls=0)(pid)
    else:
        task = ray.remote(num_cpus=0)(pid).options(num_gpus=0.1)
    found = ray.get(task.remote())
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        assert alive(found)
