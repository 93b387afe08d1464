"""Declarations, results and inheritance of methods, and mistakes in calls."""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import ray
from ray.exceptions import RayTaskError
from waiting import Gate

pytestmark = pytest.mark.usefixtures("cluster")


def many_class() -> Any:
    @ray.remote
    class Many:
        @ray.method(num_returns=2)
        def pair(self) -> tuple[int, int]:
            return 1, 2

        @ray.method(num_returns=2)
        def wrong(self) -> tuple[int, int, int]:
            return 1, 2, 3

        @ray.method(num_returns=0)
        def nothing(self) -> None:
            return None

        def plain(self) -> tuple[int, int, int]:
            return 1, 2, 3

    return Many


def test_core_6_method_with_num_returns_gives_a_list_of_refs() -> None:
    first, second = many_class().remote().pair.remote()
    assert ray.get(first) == 1
    assert ray.get(second) == 2


def test_core_6_num_returns_per_call() -> None:
    refs = many_class().remote().plain.options(num_returns=3).remote()
    assert isinstance(refs, list)
    assert ray.get(refs) == [1, 2, 3]


def test_core_6_num_returns_per_call_overrides_the_decorator() -> None:
    assert ray.get(many_class().remote().pair.options(num_returns=1).remote()) == (1, 2)


def test_core_6_wrong_number_of_returns_fails_every_ref() -> None:
    actor = many_class().remote()
    for ref in actor.wrong.remote():
        with pytest.raises(ValueError, match="2"):
            ray.get(ref)


def test_core_6_no_returns_gives_none() -> None:
    assert many_class().remote().nothing.remote() is None


def test_core_6_negative_num_returns_is_refused() -> None:
    with pytest.raises(ValueError, match="num_returns"):
        many_class().remote().plain.options(num_returns=-1).remote()


# arguments


def signature_class() -> Any:
    @ray.remote
    class Signature:
        def default(self, a: int, b: int = 2) -> Any:
            return a, b

        def keyword_only(self, *, a: int, b: int = 2) -> Any:
            return a, b

        def positional_only(self, a: int, /, b: int = 2) -> Any:
            return a, b

        def anything(self, *args: int, **kwargs: int) -> Any:
            return args, kwargs

    return Signature


@pytest.mark.parametrize(
    ("method", "args", "kwargs", "expected"),
    [
        ("default", (1,), {}, (1, 2)),
        ("default", (), {"b": 5, "a": 4}, (4, 5)),
        ("keyword_only", (), {"a": 1}, (1, 2)),
        ("positional_only", (1,), {"b": 3}, (1, 3)),
        ("anything", (1, 2), {"x": 3}, ((1, 2), {"x": 3})),
    ],
    ids=["default", "by_name", "keyword_only", "positional_only", "varargs"],
)
def test_core_2_arguments_bind_as_in_a_plain_call(method: str, args: Any, kwargs: Any, expected: Any) -> None:
    actor = signature_class().remote()
    assert ray.get(getattr(actor, method).remote(*args, **kwargs)) == expected


@pytest.mark.parametrize(
    ("method", "args", "kwargs"),
    [
        ("default", (), {}),
        ("default", (1, 2, 3), {}),
        ("default", (1,), {"c": 3}),
        ("default", (1,), {"a": 1}),
        ("keyword_only", (1,), {}),
        ("positional_only", (), {"a": 1}),
    ],
    ids=["missing", "too_many", "unknown_keyword", "twice", "keyword_only", "positional_only"],
)
def test_core_2_wrong_arguments_are_refused_at_the_call(method: str, args: Any, kwargs: Any) -> None:
    actor = signature_class().remote()
    with pytest.raises(TypeError):
        getattr(actor, method).remote(*args, **kwargs)


@pytest.mark.chosen_difference(
    "the error names the method; Ray's says only that there are too many arguments", id="D-call-names"
)
def test_core_2_wrong_arguments_name_the_method() -> None:
    actor = signature_class().remote()
    with pytest.raises(TypeError, match="default"):
        actor.default.remote(1, 2, 3)


@pytest.mark.parametrize("kind", ["static", "class", "dunder_call", "dunder_len"])
def test_core_20_special_methods_can_be_called(kind: str) -> None:
    @ray.remote
    class Special:
        @staticmethod
        def twice(n: int) -> int:
            return 2 * n

        @classmethod
        def name(cls) -> str:
            return cls.__name__

        def __call__(self, n: int) -> int:
            return n + 1

        def __len__(self) -> int:
            return 3

    actor = Special.remote()
    call = {
        "static": lambda: actor.twice.remote(4),
        "class": lambda: actor.name.remote(),
        "dunder_call": lambda: actor.__call__.remote(4),
        "dunder_len": lambda: actor.__len__.remote(),
    }[kind]
    expected = {"static": 8, "class": "Special", "dunder_call": 5, "dunder_len": 3}[kind]
    assert ray.get(call()) == expected


def test_core_20_private_methods_can_be_called() -> None:
    @ray.remote
    class Private:
        def _hidden(self) -> str:
            return "found"

    assert ray.get(Private.remote()._hidden.remote()) == "found"


def test_core_20_methods_call_each_other_plainly() -> None:
    @ray.remote
    class Chained:
        def outer(self) -> int:
            return self.inner() + 1

        def inner(self) -> int:
            return 1

    assert ray.get(Chained.remote().outer.remote()) == 2


def test_core_20_a_method_is_a_value() -> None:
    method = many_class().remote().plain
    assert [ray.get(method.remote()) for _ in range(2)] == [(1, 2, 3)] * 2


def test_core_3_method_returning_a_ref_gives_a_ref() -> None:
    @ray.remote
    class Puts:
        def put(self) -> Any:
            return ray.put(5)

    inner = ray.get(Puts.remote().put.remote())
    assert isinstance(inner, ray.ObjectRef)
    assert ray.get(inner) == 5


# ray.method


def test_core_21_unknown_key_of_method_is_refused() -> None:
    with pytest.raises(AssertionError, match="frobnicate"):

        class Never:
            @ray.method(frobnicate=1)
            def nothing(self) -> None: ...


def test_core_21_method_leaves_the_plain_class_usable() -> None:
    class Plain:
        @ray.method(num_returns=2)
        def pair(self) -> tuple[int, int]:
            return 1, 2

    assert Plain().pair() == (1, 2)
    assert ray.get(ray.remote(Plain).remote().pair.remote()) == [1, 2]


def test_core_21_unknown_option_of_a_call_is_refused() -> None:
    with pytest.raises((TypeError, ValueError), match="frobnicate"):
        many_class().remote().plain.options(frobnicate=1).remote()


def test_core_21_name_of_a_call_is_its_task_name() -> None:
    @ray.remote
    class Named:
        def names(self) -> tuple[str, str]:
            context = ray.get_runtime_context()
            return context.get_task_name(), context.get_task_function_name()

    actor = Named.remote()
    assert ray.get(actor.names.options(name="mine").remote())[0] == "mine"
    name, function = ray.get(actor.names.remote())
    assert name == "Named.names"
    assert function.endswith("Named.names")


def test_core_21_handle_passed_on_keeps_the_declared_num_returns() -> None:
    @ray.remote
    def use(actor: Any) -> list[int]:
        return ray.get(actor.pair.remote())

    assert ray.get(use.remote(many_class().remote())) == [1, 2]


# generators


def stream_class() -> Any:
    @ray.remote
    class Streams:
        def count(self, n: int) -> Iterator[int]:
            for i in range(n):  # noqa: UP028 (delegating has a test of its own)
                yield i

        def breaks(self) -> Iterator[int]:
            yield 1
            raise ValueError("mid-stream")

        def gated(self, go: Gate) -> Iterator[int]:
            yield 1
            go.wait()
            yield 2

        @ray.method(num_returns=3)
        def three(self) -> Iterator[int]:
            yield 0
            yield 1
            yield 2

        def listed(self) -> list[int]:
            return [1, 2]

    return Streams


def test_core_29_generator_method_streams() -> None:
    stream = stream_class().remote().count.remote(3)
    assert isinstance(stream, ray.ObjectRefGenerator)
    assert [ray.get(ref) for ref in stream] == [0, 1, 2]


@pytest.mark.chosen_difference(
    "a generator may delegate to any iterable; Ray fails unless it has send()", id="D-yield-from"
)
def test_core_29_generator_method_that_delegates() -> None:
    @ray.remote
    class Delegates:
        def count(self, n: int) -> Iterator[int]:
            yield from range(n)

    assert [ray.get(ref) for ref in Delegates.remote().count.remote(3)] == [0, 1, 2]


def test_core_29_empty_generator_method() -> None:
    assert list(stream_class().remote().count.remote(0)) == []


def test_core_29_items_arrive_before_the_method_ends(gate: Any) -> None:
    go = gate("go")
    stream = stream_class().remote().gated.remote(go)
    assert ray.get(next(stream), timeout=30) == 1
    go.open()
    assert [ray.get(ref) for ref in stream] == [2]


def test_core_29_error_in_mid_stream_is_the_last_ref() -> None:
    stream = stream_class().remote().breaks.remote()
    assert ray.get(next(stream)) == 1
    last = next(stream)
    with pytest.raises(ValueError, match="mid-stream") as raised:
        ray.get(last)
    assert isinstance(raised.value, RayTaskError)
    with pytest.raises(StopIteration):
        next(stream)


def test_core_29_generator_method_with_a_fixed_number_of_returns() -> None:
    actor = stream_class().remote()
    assert ray.get(actor.three.remote()) == [0, 1, 2]
    assert ray.get(actor.count.options(num_returns=2).remote(2)) == [0, 1]


def test_core_29_streaming_can_be_named() -> None:
    stream = stream_class().remote().count.options(num_returns="streaming").remote(2)
    assert [ray.get(ref) for ref in stream] == [0, 1]


def test_core_29_actor_is_free_again_after_a_stream() -> None:
    actor = stream_class().remote()
    streams = [actor.count.remote(2), actor.count.remote(3)]
    assert [[ray.get(ref) for ref in stream] for stream in streams] == [[0, 1], [0, 1, 2]]
    assert ray.get(actor.listed.remote()) == [1, 2]


def test_core_29_async_generator_method() -> None:
    @ray.remote
    class Loop:
        async def count(self, n: int) -> AsyncIterator[int]:
            for i in range(n):
                yield i

    assert [ray.get(ref) for ref in Loop.remote().count.remote(3)] == [0, 1, 2]


def test_core_29_error_in_an_async_generator_method() -> None:
    @ray.remote
    class Loop:
        async def breaks(self) -> AsyncIterator[int]:
            yield 1
            raise KeyError("mid-stream")

    stream = Loop.remote().breaks.remote()
    assert ray.get(next(stream)) == 1
    with pytest.raises(KeyError, match="mid-stream"):
        ray.get(next(stream))


def test_core_29_a_handle_passed_on_knows_that_a_method_streams() -> None:
    @ray.remote
    def use(actor: Any) -> list[int]:
        return [ray.get(ref) for ref in actor.count.remote(2)]

    assert ray.get(use.remote(stream_class().remote())) == [0, 1]


# inheritance


def animals() -> tuple[Callable[..., Any], ...]:
    class Base(abc.ABC):
        def __init__(self, name: str) -> None:
            self.name = name

        @abc.abstractmethod
        def speak(self) -> str: ...

        def describe(self) -> str:
            return f"{self.name}: {self.speak()}"

        @ray.method(num_returns=2)
        def both(self) -> tuple[str, str]:
            return self.name, self.speak()

    class Loud:
        def volume(self) -> int:
            return 11

    class Dog(Loud, Base):
        def __init__(self, name: str, tricks: int = 0) -> None:
            super().__init__(name)
            self.tricks = tricks

        def speak(self) -> str:
            return "wuff"

        def describe(self) -> str:
            return super().describe() + f" ({self.tricks})"

    return Base, Loud, Dog


@pytest.mark.parametrize(
    ("method", "expected"),
    [("describe", "Rex: wuff (2)"), ("speak", "wuff"), ("volume", 11)],
    ids=["super", "overridden", "mixin"],
)
def test_core_20_inherited_methods(method: str, expected: Any) -> None:
    dog = ray.remote(animals()[-1]).remote("Rex", tricks=2)
    assert ray.get(getattr(dog, method).remote()) == expected


def test_core_21_method_options_are_inherited() -> None:
    dog = ray.remote(animals()[-1]).remote("Rex")
    assert ray.get(dog.both.remote()) == ["Rex", "wuff"]


def test_core_22_abstract_class_fails_to_start() -> None:
    with pytest.raises((TypeError, ray.exceptions.RayActorError), match="abstract"):
        ray.get(ray.remote(animals()[0]).remote("Rex").describe.remote())
