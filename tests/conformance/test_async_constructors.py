"""Actors whose constructor is a coroutine function."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
import ray
from mortals import answers

pytestmark = pytest.mark.usefixtures("cluster")


class Patient:
    async def __init__(self, value: Any = 1) -> None:
        self.loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # lets the loop run other steps
        self.value = value

    def read(self) -> Any:
        return self.value


def test_methods_see_what_the_constructor_set_after_it_waited() -> None:
    actor = ray.remote(num_cpus=0)(Patient).remote(value=ray.put(4))
    assert ray.get([actor.read.remote(), actor.read.remote()], timeout=60) == [4, 4]


def test_constructor_is_inherited() -> None:
    class Heir(Patient):
        async def same_loop(self) -> bool:
            return self.loop is asyncio.get_running_loop()

    assert ray.get(ray.remote(num_cpus=0)(Heir).remote().same_loop.remote(), timeout=60)


def test_constructor_awaits_another_actor_and_starts_a_task() -> None:
    @ray.remote(num_cpus=0)
    class Follower:
        async def __init__(self, other: Any) -> None:
            self.value = await other.read.remote()
            self.done = asyncio.Event()
            self.task = asyncio.get_running_loop().create_task(self.work())

        async def work(self) -> None:
            self.value += 1
            self.done.set()

        async def read(self) -> Any:
            await self.done.wait()
            return self.value

    actor = Follower.remote(ray.remote(num_cpus=0)(Patient).remote(6))
    assert ray.get(actor.read.remote(), timeout=60) == 7


def test_constructor_of_an_actor_with_concurrency_groups() -> None:
    @ray.remote(num_cpus=0, concurrency_groups={"io": 2})
    class Grouped(Patient):
        @ray.method(concurrency_group="io")
        async def read_in_group(self) -> Any:
            return self.value

    actor = Grouped.remote(5)
    assert ray.get([actor.read.remote(), actor.read_in_group.remote()], timeout=60) == [5, 5]


def test_error_after_a_wait_ends_the_actor() -> None:
    @ray.remote(num_cpus=0)
    class Fails(Patient):
        async def __init__(self) -> None:
            await asyncio.sleep(0)  # lets the loop run other steps
            raise ValueError("it cannot start")

    with pytest.raises(ray.exceptions.ActorDiedError, match="it cannot start"):
        ray.get(Fails.remote().read.remote(), timeout=60)


def test_constructor_runs_again_after_a_crash() -> None:
    @ray.remote(num_cpus=0, max_restarts=1)
    class Mortal(Patient):
        async def __init__(self) -> None:
            await asyncio.sleep(0)  # lets the loop run other steps
            self.value = ray.get_runtime_context().was_current_actor_reconstructed

        async def crash(self) -> None:
            os._exit(1)

    actor = Mortal.remote()
    assert ray.get(actor.read.remote(), timeout=60) is False
    with pytest.raises(ray.exceptions.ActorUnavailableError):
        ray.get(actor.crash.remote(), timeout=60)
    assert answers(actor.read.remote) is True
