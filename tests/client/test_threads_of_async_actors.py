"""Threads of an async actor can wait for values, although the actor's event loop reads its channel."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import skate


@pytest.fixture
def session() -> Iterator[None]:
    skate.init(num_cpus=2, log_to_driver=False)
    yield
    skate.shutdown()


@skate.remote(num_cpus=0)
class Echo:
    async def echo(self, value: int) -> int:
        return value


@skate.remote(num_cpus=0)
class Asks:
    async def ask(self, other: Any, count: int) -> list[int]:
        loop = asyncio.get_running_loop()

        def one(i: int) -> int:
            found: int = skate.get(other.echo.remote(i))
            return found

        return [await loop.run_in_executor(None, one, i) for i in range(count)]


def test_a_thread_is_told_of_what_the_loop_has_read(session: None) -> None:
    other, asks = Echo.remote(), Asks.remote()
    # When the loop did not notify the thread, each of these waited for the next message, which never arrived.
    assert skate.get(asks.ask.remote(other, 200), timeout=30) == list(range(200))
