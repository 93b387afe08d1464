"""`handle.broadcast`: a call of a method in every replica, and its results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from ray import serve

#: A call that never returns runs in each replica at the end, so the end does not wait for it.
LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}, "graceful_shutdown_timeout_s": 0.1}


@serve.deployment(num_replicas=2, **LIGHT)
class Each:
    def add(self, a: int, b: int = 0) -> int:
        return a + b

    def fail(self) -> None:
        raise ValueError("each fails")

    async def late(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture(scope="module")
def handle(server: str) -> Iterator[Any]:
    made = serve.run(Each.bind(), name="each", route_prefix=None)
    assert made.add.remote(1).result(timeout_s=30) == 1
    yield made
    serve.delete("each")


def test_every_replica_answers(handle: Any) -> None:
    assert handle.broadcast("add", 1, b=2).results(timeout_s=30) == [3, 3]


def test_the_first_failure_is_raised(handle: Any) -> None:
    with pytest.raises(ValueError, match="each fails"):
        handle.broadcast("fail").results(timeout_s=30)


def test_failures_among_the_answers(handle: Any) -> None:
    found = handle.broadcast("fail").results(timeout_s=30, return_exceptions=True)
    assert len(found) == 2 and all("each fails" in str(each) for each in found)


def test_answers_that_are_late(handle: Any) -> None:
    with pytest.raises(TimeoutError):
        handle.broadcast("late").results(timeout_s=0.2)


def test_a_time_below_zero(handle: Any) -> None:
    with pytest.raises(ValueError, match="timeout_s must be None or non-negative"):
        handle.broadcast("add", 1).results(timeout_s=-1)


def test_in_async_code(handle: Any) -> None:
    async def ask() -> list[Any]:
        with pytest.raises(RuntimeError, match="Sync methods should not be called"):
            handle.broadcast("add", 1).results()
        return [
            *await handle.broadcast("add", 4).results_async(timeout_s=30),
            *await handle.broadcast("fail").results_async(timeout_s=30, return_exceptions=True),
        ]

    found = asyncio.run(ask())
    assert found[:2] == [4, 4] and len(found) == 4
