"""The models of `@serve.multiplexed`: loading, unloading and waiting."""

from __future__ import annotations

import asyncio
import gc
from collections import OrderedDict
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve.virtual import run

from skate import serve
from skate.serve.multiplex import close_all

ids = st.sampled_from(["a", "b", "c", "d", "e"])


@settings(max_examples=150)
@given(st.lists(ids, max_size=40), st.sampled_from([-1, 1, 2, 3]))
def test_those_used_last_stay(requests: list[str], limit: int) -> None:
    loads: list[str] = []

    @serve.multiplexed(max_num_models_per_replica=limit)
    async def load(model: str) -> str:
        loads.append(model)
        return f"model {model}"

    expected: list[str] = []
    kept: OrderedDict[str, None] = OrderedDict()
    for model in requests:
        if model not in kept:
            expected.append(model)
            if limit > 0 and len(kept) >= limit:
                kept.popitem(last=False)
        kept[model] = None
        kept.move_to_end(model)

    async def main() -> None:
        for model in requests:
            assert await load(model) == f"model {model}"

    run(main())
    assert loads == expected


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=100)
@given(
    st.lists(st.tuples(ids, st.sampled_from([0.0, 0.3, 2.0]), st.booleans()), min_size=1, max_size=20),
    st.sampled_from([1, 2, 3]),
    st.sets(ids, max_size=2),
)
def test_whoever_asks_at_the_same_time(
    requests: list[tuple[str, float, bool]], limit: int, broken: set[str]
) -> None:
    """Requests arrive, and some are cancelled, while models load for a second. The models in memory stay within the limit."""
    held = most = loading = 0

    class Model:
        def __init__(self, name: str) -> None:
            nonlocal held, most
            self.name = name
            held += 1
            most = max(most, held)

        async def __del__(self) -> None:
            nonlocal held
            held -= 1

    @serve.multiplexed(max_num_models_per_replica=limit)
    async def load(model: str) -> Model:
        nonlocal loading
        loading += 1
        assert loading == 1, "two models load at the same time"
        try:
            await asyncio.sleep(1)  # the work itself
            if model in broken:
                raise ValueError(f"{model} is broken")
            return Model(model)
        finally:
            loading -= 1

    async def main() -> list[Any]:
        calls = []
        loop = asyncio.get_running_loop()
        for model, pause, goes in requests:
            await asyncio.sleep(pause)  # until the next request comes
            calls.append(loop.create_task(load(model)))
            if goes:
                loop.call_later(0.5, calls[-1].cancel)
        return await asyncio.gather(*calls, return_exceptions=True)

    for (model, _, goes), answer in zip(requests, run(main()), strict=True):
        if goes and isinstance(answer, asyncio.CancelledError):
            continue
        if model in broken:
            assert isinstance(answer, ValueError) and model in str(answer)
        else:
            assert isinstance(answer, Model) and answer.name == model
    assert most <= limit


def test_a_request_that_goes_leaves_the_others_their_model() -> None:
    loads: list[str] = []

    @serve.multiplexed
    async def load(model: str) -> str:
        loads.append(model)
        await asyncio.sleep(1)  # the work itself
        return model

    async def main() -> Any:
        first = asyncio.ensure_future(load("m"))
        second = asyncio.ensure_future(load("m"))
        await asyncio.sleep(0.5)  # both wait for the same model
        first.cancel()
        return await asyncio.gather(first, second, return_exceptions=True)

    gone, got = run(main())
    assert isinstance(gone, asyncio.CancelledError) and got == "m" and loads == ["m"]


def test_every_model_that_goes_is_finalized_once() -> None:
    ended: list[str] = []

    class Model:
        def __init__(self, name: str) -> None:
            self.name = name

        async def __del__(self) -> None:
            await asyncio.sleep(0.1)  # the work itself
            ended.append(self.name)
            if self.name == "b":
                raise RuntimeError("it goes all the same")

    @serve.multiplexed(max_num_models_per_replica=1)
    async def load(model: str) -> Model:
        return Model(model)

    async def main() -> None:
        for name in "abcd":
            assert (await load(name)).name == name

        await close_all(load)  # like a replica that ends

    run(main())
    gc.collect()
    assert ended == ["a", "b", "c", "d"]
