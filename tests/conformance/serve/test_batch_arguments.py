"""`@serve.batch` and `@serve.multiplexed`: models in a batch, several arguments, return values, settings and
rejected values."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from ray import serve
from waiting import wait_for

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@serve.deployment(max_ongoing_requests=40, **LIGHT)
class Batches:
    """Each method answers with what its batch was, so that the caller sees it."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.running = 0
        self.most = 0

    @serve.multiplexed(max_num_models_per_replica=3)
    async def model(self, name: str) -> str:
        return f"<{name}>"

    @serve.batch(max_batch_size=10, batch_wait_timeout_s=0.3)
    async def predicted(self, values: list[Any]) -> list[Any]:
        name = serve.get_multiplexed_model_id()
        model = await self.model(name) if name else "none"
        return [(model, value, sorted(values)) for value in values]

    async def predict(self, value: Any) -> Any:
        return await self.predicted(value)

    @serve.batch(max_batch_size=2, batch_wait_timeout_s=5)
    async def pair(self, left: list[Any], right: list[Any]) -> list[Any]:
        return [(len(left), one, other) for one, other in zip(left, right, strict=True)]

    async def paired(self, left: Any, right: Any) -> Any:
        return await self.pair(left, right=right)

    async def paired_by_name(self, left: Any, right: Any) -> Any:
        return await self.pair(right=right, left=left)

    @serve.batch(max_batch_size=3, batch_wait_timeout_s=0.01)
    async def errors(self, values: list[Any]) -> list[Any]:
        return [ValueError(value) for value in values]

    async def returned_error(self, value: Any) -> str:
        return repr(await self.errors(value))

    @serve.batch(max_batch_size=3, batch_wait_timeout_s=0.01)
    async def short(self, values: list[Any]) -> list[Any]:
        return [*values, 1]

    async def too_many(self, value: Any) -> Any:
        return await self.short(value)

    @serve.batch(max_batch_size=3, batch_wait_timeout_s=0.01)
    async def tuples(self, values: list[Any]) -> tuple[Any, ...]:
        return tuple(type(values).__name__ for _ in values)

    async def returned_tuple(self, value: Any) -> Any:
        return await self.tuples(value)

    @serve.batch(max_batch_size=10, batch_wait_timeout_s=0.05, batch_size_fn=sum)
    async def weighed(self, values: list[int]) -> list[Any]:
        return [sorted(values) for _ in values]

    async def weigh(self, value: int) -> Any:
        return await self.weighed(value)

    @serve.batch(max_batch_size=4, batch_wait_timeout_s=0.3)
    async def counted(self, values: list[int]) -> Any:
        for turn in range(max(values)):
            yield [turn if turn < value else StopIteration for value in values]

    async def count(self, value: int) -> Any:
        async for each in self.counted(value):
            yield each

    @serve.batch(max_batch_size=1, max_concurrent_batches=3)
    async def side_by_side(self, values: list[int]) -> list[int]:
        self.running += 1
        self.most = max(self.most, self.running)
        await self.gate.wait()
        self.running -= 1
        return values

    async def beside(self, value: int) -> int:
        return await self.side_by_side(value)

    async def look(self) -> int:
        return self.running

    async def release(self) -> int:
        self.gate.set()
        return self.most

    async def settings(self, size: int | None = None, wait: float | None = None) -> Any:
        if size is not None:
            self.predicted.set_max_batch_size(size)
        if wait is not None:
            self.predicted.set_batch_wait_timeout_s(wait)
        return self.predicted._get_max_batch_size(), self.predicted._get_batch_wait_timeout_s()

    async def ask_for(self, name: Any) -> str:
        return await self.model(name)

    async def own_model(self) -> str:
        return serve.get_multiplexed_model_id()


@pytest.fixture(scope="module")
def batches(server: str) -> Iterator[Any]:
    yield serve.run(Batches.bind(), name="batches", route_prefix="/batches")
    serve.delete("batches")


def test_a_batch_is_of_one_model(batches: Any) -> None:
    handles = [batches.predict.options(multiplexed_model_id=name) for name in "abab"]
    sent = [handle.remote(number) for number, handle in enumerate(handles)]
    assert [each.result()[:2] for each in sent] == [("<a>", 0), ("<b>", 1), ("<a>", 2), ("<b>", 3)]


def test_requests_of_one_model_come_in_one_batch(batches: Any) -> None:
    handles = [batches.predict.options(multiplexed_model_id=name) for name in ("c", "d", "c", "d")]
    sent = [handle.remote(number) for number, handle in enumerate(handles)]
    assert [each.result()[2] for each in sent] == [[0, 2], [1, 3], [0, 2], [1, 3]]


def test_requests_without_a_model_are_a_batch_of_their_own(batches: Any) -> None:
    sent = [
        batches.predict.remote(1),
        batches.predict.options(multiplexed_model_id="e").remote(2),
        batches.predict.remote(3),
    ]
    assert [each.result() for each in sent] == [("none", 1, [1, 3]), ("<e>", 2, [2]), ("none", 3, [1, 3])]


@pytest.mark.parametrize("method", ["paired", "paired_by_name"])
def test_a_batched_method_of_two_arguments(batches: Any, method: str) -> None:
    call = getattr(batches, method)
    sent = [call.remote(1, "x"), call.remote(2, "y")]
    assert [each.result() for each in sent] == [(2, 1, "x"), (2, 2, "y")]


def test_an_exception_that_is_returned_is_a_value(batches: Any) -> None:
    assert batches.returned_error.remote("odd").result() == "ValueError('odd')"


def test_results_that_do_not_match_the_batch(batches: Any) -> None:
    with pytest.raises(serve.exceptions.RayServeException, match="doesn't preserve batch size"):
        batches.too_many.remote(1).result()


def test_a_tuple_of_results(batches: Any) -> None:
    assert batches.returned_tuple.remote(1).result() == "list"


def test_values_are_measured(batches: Any) -> None:
    sent = [batches.weigh.remote(value) for value in (6, 4, 10)]
    assert sorted(each.result() for each in sent) == [[4, 6], [4, 6], [10]]


def test_a_value_that_alone_is_too_large(batches: Any) -> None:
    with pytest.raises(RuntimeError, match="Size of item is greater than max_batch_size"):
        batches.weigh.remote(11).result()


def test_streams_of_different_lengths_in_one_batch(batches: Any) -> None:
    call = batches.count.options(stream=True)
    sent = [call.remote(length) for length in (1, 3, 2)]
    assert [list(each) for each in sent] == [[0], [0, 1, 2], [0, 1]]


def test_several_batches_at_once(batches: Any) -> None:
    sent = [batches.beside.remote(number) for number in range(5)]
    wait_for(lambda: batches.look.remote().result() == 3, what="three batches to run")
    assert batches.release.remote().result() == 3
    assert sorted(each.result() for each in sent) == [0, 1, 2, 3, 4]


def test_settings_can_be_changed(batches: Any) -> None:
    assert batches.settings.remote().result() == (10, 0.3)
    assert batches.settings.remote(4, 0.1).result() == (4, 0.1)
    assert batches.settings.remote(10, 0.3).result() == (10, 0.3)


@pytest.mark.parametrize(
    ("name", "kind", "message"), [(5, TypeError, "must be a string"), ("", ValueError, "cannot be empty")]
)
def test_ids_of_models_that_cannot_be(batches: Any, name: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        batches.ask_for.remote(name).result()


def test_the_model_of_a_request(batches: Any) -> None:
    assert batches.own_model.remote().result() == ""
    assert batches.options(multiplexed_model_id="m").own_model.remote().result() == "m"


# -- what the decorators refuse


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"max_batch_size": 0}, ValueError, "max_batch_size must be an integer >= 1, got 0"),
        ({"max_batch_size": -1}, ValueError, "max_batch_size must be an integer >= 1, got -1"),
        ({"max_batch_size": 2.5}, TypeError, "max_batch_size must be integer >= 1, got 2.5"),
        ({"max_batch_size": "2"}, TypeError, "max_batch_size must be integer >= 1, got"),
        ({"batch_wait_timeout_s": -0.1}, ValueError, "batch_wait_timeout_s must be a float >= 0, got -0.1"),
        ({"batch_wait_timeout_s": "1"}, TypeError, "batch_wait_timeout_s must be a float >= 0, got"),
        ({"max_concurrent_batches": 0}, TypeError, "max_concurrent_batches must be an integer >= 1, got 0"),
        (
            {"max_concurrent_batches": 1.5},
            TypeError,
            "max_concurrent_batches must be an integer >= 1, got 1.5",
        ),
        ({"max_concurrent_batches": "1"}, TypeError, "max_concurrent_batches must be an integer >= 1, got"),
        ({"batch_size_fn": "len"}, TypeError, "batch_size_fn must be a callable or None, got <class 'str'>"),
        ({"batch_size_fn": 3}, TypeError, "batch_size_fn must be a callable or None, got <class 'int'>"),
    ],
)
def test_settings_of_batches_that_cannot_be(
    settings: dict[str, Any], kind: type[Exception], message: str
) -> None:
    async def function(values: list[Any]) -> list[Any]:
        return values

    with pytest.raises(kind, match=message):
        serve.batch(**settings)(function)


@pytest.mark.parametrize("size", [1, 7, 3.0])
def test_sizes_of_batches_that_can_be(size: Any) -> None:
    async def function(values: list[Any]) -> list[Any]:
        return values

    assert serve.batch(max_batch_size=size)(function)._get_max_batch_size() == size


def test_defaults_of_batches() -> None:
    @serve.batch
    async def function(values: list[Any]) -> list[Any]:
        """Some text."""
        return values

    assert (function._get_max_batch_size(), function._get_batch_wait_timeout_s()) == (10, 0.01)
    assert function.__name__ == "function" and function.__doc__ == "Some text."


def test_a_batched_function_is_async() -> None:
    with pytest.raises(TypeError, match="must be 'async def'"):

        @serve.batch
        def function(values: list[Any]) -> list[Any]:
            return values


@pytest.mark.parametrize("value", [5, "f", [1]])
def test_batch_of_what_is_no_function(value: Any) -> None:
    with pytest.raises(TypeError, match="can only be used to decorate functions or methods"):
        serve.batch(value)


@pytest.mark.parametrize(
    ("limit", "kind", "message"),
    [
        (0, ValueError, "max_num_models_per_replica must be positive"),
        (-2, ValueError, "max_num_models_per_replica must be positive"),
        (1.5, TypeError, "max_num_models_per_replica must be an integer"),
        ("1", TypeError, "max_num_models_per_replica must be an integer"),
        (None, TypeError, "max_num_models_per_replica must be an integer"),
    ],
)
def test_numbers_of_models_that_cannot_be(limit: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        serve.multiplexed(max_num_models_per_replica=limit)


@pytest.mark.parametrize("limit", [1, 20, -1])
def test_numbers_of_models_that_can_be(limit: int) -> None:
    async def load(model: str) -> str:
        return model

    assert callable(serve.multiplexed(max_num_models_per_replica=limit)(load))


def test_a_multiplexed_function_is_async() -> None:
    with pytest.raises(TypeError, match="can only be used to decorate async functions or methods"):

        @serve.multiplexed
        def load(model: str) -> str:
            return model


def test_a_multiplexed_function_takes_an_id() -> None:
    with pytest.raises(TypeError, match="with at least one 'model_id: str' argument"):

        @serve.multiplexed
        async def load() -> str:
            return ""


def test_a_multiplexed_method_takes_an_id_alone() -> None:
    with pytest.raises(TypeError, match="with at least one 'model_id: str' argument"):

        @serve.multiplexed
        async def load(self: Any, model: str, other: str) -> str:
            return ""


@pytest.mark.parametrize("value", [5, "f"])
def test_multiplexed_of_what_is_no_function(value: Any) -> None:
    with pytest.raises(TypeError, match="must be used with a function or method"):
        serve.multiplexed(value)
