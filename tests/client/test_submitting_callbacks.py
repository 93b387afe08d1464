"""Callbacks of results that submit tasks: their messages are sent although the node is processing effects."""

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
class Finish:
    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def wait(self) -> bool:
        return await self.event.wait()

    async def come(self) -> None:
        self.event.set()


def test_a_chain_of_calls_each_submitted_by_the_callback_of_the_last(session: None) -> None:
    echoes = [Echo.remote() for _ in range(2)]
    skate.get([each.echo.remote(0) for each in echoes])
    finish = Finish.remote()
    finished = finish.wait.remote()
    seen: list[int] = []

    def answered(future: Any) -> None:
        seen.append(future.result())
        if len(seen) == 400:
            others.append(finish.come.remote())
            return
        # Two calls: one continues the chain, and one goes to the other actor, whose channel was once not flushed.
        others.append(echoes[1].echo.remote(len(seen)))
        echoes[0].echo.remote(len(seen)).future().add_done_callback(answered)

    others: list[Any] = []
    echoes[0].echo.remote(0).future().add_done_callback(answered)
    assert skate.get(finished, timeout=30), f"the chain stopped after {len(seen)} calls"
    assert skate.get(others, timeout=10) == [*range(1, 400), None]
