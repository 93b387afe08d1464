"""Serve needs only the documented interface of an event loop: uvloop's timer handles have no time."""

from __future__ import annotations

import asyncio
from typing import Any

from skate import serve


class Silent:
    """A timer handle that can only be cancelled."""

    _source_traceback = None

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def cancel(self) -> None:
        self._handle.cancel()


class Loop(asyncio.SelectorEventLoop):
    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return Silent(super().call_at(when, callback, *args, context=context))


def test_batches_in_a_loop_whose_handles_say_nothing() -> None:
    sizes = []

    @serve.batch(max_batch_size=4, batch_wait_timeout_s=0.02)
    async def double(values: list[int]) -> list[int]:
        sizes.append(len(values))
        return [2 * value for value in values]

    async def ask() -> list[int]:
        first = await asyncio.gather(*(double(i) for i in range(6)))
        return [*first, await double(50)]

    loop = Loop()
    try:
        assert loop.run_until_complete(ask()) == [0, 2, 4, 6, 8, 10, 100]
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
    assert sizes == [4, 2, 1]
