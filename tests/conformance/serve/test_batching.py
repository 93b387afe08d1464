"""`@serve.batch` and `@serve.multiplexed`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from ray import serve

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@serve.deployment(**LIGHT)
class Holding:
    @serve.batch(max_batch_size=2, batch_wait_timeout_s=1000)
    async def counted(self, values: list[int]) -> Any:
        for each in range(2):
            yield [(each, value) for value in values]

    async def one_after_the_other(self) -> list[Any]:
        first, second = self.counted(1), self.counted(2)  # a full batch, before anything is read
        return [[each async for each in first], [each async for each in second]]


@serve.deployment(max_ongoing_requests=100, **LIGHT)
class Batches:
    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.loaded: list[str] = []

    @serve.batch(max_batch_size=4, batch_wait_timeout_s=0.3)
    async def four(self, values: list[int]) -> list[int]:
        self.sizes.append(len(values))
        return [value * 10 for value in values]

    @serve.batch(max_batch_size=100, batch_wait_timeout_s=0.05)
    async def hundred(self, values: list[Any]) -> list[Any]:
        self.sizes.append(len(values))
        if "bad" in values:
            raise ValueError("a bad batch")
        return values

    @serve.batch(max_batch_size=2, batch_wait_timeout_s=0.05)
    async def short(self, values: list[int]) -> list[int]:
        return values[:-1]

    @serve.batch(max_batch_size=3, batch_wait_timeout_s=0.2)
    async def streams(self, values: list[int]) -> Any:
        for i in range(3):
            yield [value + i for value in values]

    async def call(self, name: str, value: Any) -> Any:
        return await getattr(self, name)(value)

    async def stream(self, value: int) -> Any:
        async for each in self.streams(value):
            yield each

    async def taken(self) -> list[int]:
        sizes, self.sizes = self.sizes, []
        return sizes

    @serve.multiplexed(max_num_models_per_replica=2)
    async def model(self, name: str) -> str:
        self.loaded.append(name)
        if name == "broken":
            raise ValueError("cannot be loaded")
        return f"model {name}"

    async def ask(self) -> str:
        return await self.model(serve.get_multiplexed_model_id())

    async def loads(self) -> list[str]:
        loaded, self.loaded = self.loaded, []
        return loaded


@pytest.fixture(scope="module")
def batches(server: str) -> Iterator[Any]:
    handle = serve.run(Batches.bind(), name="batches", route_prefix="/batches")
    yield handle
    serve.delete("batches")


def all_of(responses: list[Any]) -> list[Any]:
    return [each.result() for each in responses]


def test_one_value(batches: Any) -> None:
    assert batches.call.remote("four", 3).result() == 30


def test_four_make_one_batch(batches: Any) -> None:
    batches.taken.remote().result()
    assert all_of([batches.call.remote("four", i) for i in range(4)]) == [0, 10, 20, 30]
    assert batches.taken.remote().result() == [4]


def test_no_batch_is_larger(batches: Any) -> None:
    batches.taken.remote().result()
    all_of([batches.call.remote("four", i) for i in range(10)])
    sizes = batches.taken.remote().result()
    assert sum(sizes) == 10 and max(sizes) <= 4


def test_the_rest_goes_after_the_wait(batches: Any) -> None:
    batches.taken.remote().result()
    all_of([batches.call.remote("hundred", i) for i in range(7)])
    assert sum(batches.taken.remote().result()) == 7


def test_everybody_gets_their_own(batches: Any) -> None:
    got = all_of([batches.call.remote("hundred", i) for i in range(50)])
    assert got == list(range(50))


def test_a_failed_batch_fails_for_all_of_it(batches: Any) -> None:
    responses = [batches.call.remote("hundred", value) for value in ("good", "bad")]
    for each in responses:
        with pytest.raises(ValueError, match="a bad batch"):
            each.result()


def test_too_few_results(batches: Any) -> None:
    with pytest.raises(serve.exceptions.RayServeException):
        all_of([batches.call.remote("short", i) for i in range(2)])


def test_batched_streams(batches: Any) -> None:
    streams = [batches.options(stream=True).stream.remote(i * 10) for i in range(3)]
    assert [list(each) for each in streams] == [[0, 1, 2], [10, 11, 12], [20, 21, 22]]


@pytest.mark.chosen_difference("a batched function can be tried without Serve", id="D-serve-batch-alone")
def test_outside_of_a_replica() -> None:
    @serve.batch(max_batch_size=3, batch_wait_timeout_s=0.01)
    async def double(values: list[int]) -> list[int]:
        return [value * 2 for value in values]

    async def main() -> list[int]:
        return list(await asyncio.gather(*(double(i) for i in range(5))))

    assert asyncio.run(main()) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ({"max_batch_size": 0}, ValueError),
        ({"max_batch_size": -1}, ValueError),
        ({"max_batch_size": "two"}, TypeError),
        ({"max_batch_size": 1.5}, TypeError),
        ({"batch_wait_timeout_s": -1}, ValueError),
        ({"batch_wait_timeout_s": "soon"}, TypeError),
    ],
)
def test_settings_that_cannot_be(setting: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):

        @serve.batch(**setting)
        async def function(values: list[int]) -> list[int]:
            return values


def test_batch_needs_async() -> None:
    with pytest.raises(TypeError):

        @serve.batch
        def function(values: list[int]) -> list[int]:
            return values


def test_models_are_kept(batches: Any) -> None:
    batches.loads.remote().result()
    one = batches.options(multiplexed_model_id="one")
    assert one.ask.remote().result() == "model one"
    assert one.ask.remote().result() == "model one"
    assert batches.loads.remote().result() == ["one"]


def test_the_model_used_last_stays(batches: Any) -> None:
    def ask(name: str) -> None:
        batches.options(multiplexed_model_id=name).ask.remote().result()

    for name in ("p", "q"):
        ask(name)
    batches.loads.remote().result()
    for name in ("p", "r", "p", "q"):
        ask(name)
    assert batches.loads.remote().result() == ["r", "q"]


def test_a_model_that_cannot_be_loaded(batches: Any) -> None:
    with pytest.raises(ValueError, match="cannot be loaded"):
        batches.options(multiplexed_model_id="broken").ask.remote().result()


def test_no_model(batches: Any) -> None:
    with pytest.raises(ValueError):
        batches.ask.remote().result()


@pytest.mark.parametrize("limit", [0, -2])
def test_number_of_models_that_cannot_be(limit: int) -> None:
    with pytest.raises(ValueError):
        serve.multiplexed(max_num_models_per_replica=limit)


def test_multiplexed_needs_async() -> None:
    with pytest.raises(TypeError):

        @serve.multiplexed
        def load(name: str) -> str:
            return name


def test_streams_join_a_batch_when_they_are_called(server: str) -> None:
    handle = serve.run(Holding.bind(), name="holding", route_prefix=None)
    try:
        found = handle.one_after_the_other.remote().result(timeout_s=30)
    finally:
        serve.delete("holding")
    assert found == [[(0, 1), (1, 1)], [(0, 2), (1, 2)]]
