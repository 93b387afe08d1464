"""Compiled graphs: executed many times, each result fetched once, methods in the order of their binding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import ray
from dag.stages import Stage
from ray.dag import InputNode, MultiOutputNode


@pytest.fixture(scope="module")
def one() -> Any:
    return Stage.remote()


VALUES = [
    1,
    -1.5,
    "text",
    b"bytes",
    None,
    True,
    (1, 2),
    [1, [2, [3]]],
    {"a": 1, "b": {"c": [1, 2]}},
    {1, 2},
    range(3),
    "é" * 10_000,
    b"x" * 3_000_000,
    ["y" * 1000] * 2000,
    2**100,
    complex(1, 2),
    ...,
    NotImplemented,
    frozenset({1}),
    (),
    [],
    {},
    "",
    b"",
]


@pytest.fixture(scope="module")
def echo() -> Any:
    stage = Stage.remote()
    with InputNode() as given:
        graph = stage.echo.bind(given).experimental_compile()
    yield graph
    graph.teardown()


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:12])
def test_a_value_goes_through(echo: Any, value: Any) -> None:
    assert ray.get(echo.execute(value)) == value


@pytest.mark.parametrize("size", [0, 1, 100, 5_000, 100_000, 1_000_001, 4_000_000])
@pytest.mark.parametrize("kind", ["int8", "float64"])
def test_an_array_goes_through_and_is_read_only(echo: Any, size: int, kind: str) -> None:
    for number in range(3):
        value = np.full(size, number, dtype=kind)
        found = ray.get(echo.execute(value))
        assert found.dtype == value.dtype
        assert (found == value).all()
        assert not size or not found.flags.writeable
        del found


def test_an_array_is_read_only_in_the_actor(compile_: Any, one: Any) -> None:
    with InputNode() as given:
        graph = compile_(one.is_writeable.bind(given))
    assert ray.get(graph.execute(np.zeros(100_000))) is False


def test_an_exception_as_a_value_is_a_value(echo: Any) -> None:
    found = ray.get(echo.execute([ValueError("no failure")]))
    assert isinstance(found[0], ValueError)


def test_a_ref_inside_a_value_stays_a_ref(echo: Any) -> None:
    ref = ray.put("value")
    assert ray.get(ray.get(echo.execute([ref]))[0]) == "value"


def test_a_handle_inside_a_value_stays_a_handle(echo: Any, one: Any) -> None:
    found = ray.get(echo.execute({"actor": one}))["actor"]
    assert ray.get(found.echo.remote(3)) == 3


def test_a_ref_says_what_it_is(echo: Any) -> None:
    ref = echo.execute(1)
    index = int(str(ref).split("execution_index=")[1].split(",")[0])
    assert str(ref) == f"CompiledDAGRef({echo.get_id()}, execution_index={index}, channel_index=None)"
    assert len(echo.get_id()) == 32
    assert ray.get(ref) == 1


def test_get_of_a_ref_itself(echo: Any) -> None:
    assert echo.execute(5).get() == 5
    assert echo.execute(5).get(timeout=5) == 5
    assert ray.get(echo.execute(5), timeout=5) == 5


@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_chain(compile_: Any, length: int) -> None:
    stages = [Stage.remote(number) for number in range(length)]
    with InputNode() as given:
        node: Any = given
        for stage in stages:
            node = stage.add.bind(node)
        graph = compile_(node)
    total = [*range(length)]
    for value in range(1, 4):
        expected = value
        for number in range(length):
            total[number] += expected
            expected = total[number]
        assert ray.get(graph.execute(value)) == expected


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("number", [1, 3])
def test_scatter_and_gather(compile_: Any, number: int, single: bool) -> None:
    stages = [Stage.remote() for _ in range(number)]
    with InputNode() as given:
        graph = compile_(MultiOutputNode([stage.add.bind(given) for stage in stages]))
    for count in range(1, 4):
        refs = graph.execute(1)
        assert isinstance(refs, list)
        found = [ray.get(ref) for ref in refs] if single else ray.get(refs)
        assert found == [count] * number


@pytest.mark.parametrize("single", [True, False])
def test_an_actors_methods_run_in_the_order_of_their_binding(compile_: Any, single: bool) -> None:
    first, second = Stage.remote(), Stage.remote()
    with InputNode() as given:
        left = second.double_and_add.bind(first.add.bind(given))
        right = first.double_and_add.bind(second.add.bind(given))
        graph = compile_(MultiOutputNode([right, left]))
    refs = graph.execute(1)
    assert ([ray.get(ref) for ref in refs] if single else ray.get(refs)) == [4, 1]


def test_a_pipeline_schedule_is_kept(compile_: Any) -> None:
    first, second = Stage.remote(), Stage.remote()
    with InputNode() as given:
        forward = [first.keep.bind(given[number]) for number in range(3)]
        back = [second.keep.bind(node) for node in forward]
        graph = compile_(MultiOutputNode([first.keep.bind(node) for node in back]))
    assert [len(found) for found in ray.get(graph.execute(0, 1, 2))] == [4, 5, 6]
    assert ray.get(first.received.remote())[:3] == [0, 1, 2]
    assert len(ray.get(second.received.remote())) == 3


def test_a_method_bound_twice(compile_: Any) -> None:
    stage = Stage.remote()
    with InputNode() as given:
        graph = compile_(stage.add.bind(stage.add.bind(given)))
    assert [ray.get(graph.execute(value)) for value in (1, 2, 3)] == [2, 8, 22]


@pytest.mark.parametrize("part", [False, True])
def test_one_input_for_several_calls_of_an_actor(compile_: Any, part: bool) -> None:
    stage = Stage.remote()
    with InputNode() as given:
        source = given[0] if part else given
        graph = compile_(MultiOutputNode([stage.add.bind(source), stage.add.bind(source)]))
    assert [ray.get(graph.execute(value)) for value in range(3)] == [[0, 0], [1, 2], [4, 6]]


def test_one_result_for_several_calls_of_an_actor(compile_: Any) -> None:
    first, second = Stage.remote(), Stage.remote(10)
    with InputNode() as given:
        shared = first.add.bind(given)
        graph = compile_(MultiOutputNode([second.add.bind(shared), second.add.bind(shared)]))
    assert ray.get(graph.execute(1)) == [11, 12]


def test_driver_and_actor_read_the_same_result(compile_: Any) -> None:
    first, second = Stage.remote(), Stage.remote(10)
    with InputNode() as given:
        shared = first.add.bind(given)
        graph = compile_(MultiOutputNode([shared, second.add.bind(shared)]))
    assert ray.get(graph.execute(1)) == [1, 11]


def test_driver_and_the_same_actor_read_a_result(compile_: Any) -> None:
    stage = Stage.remote()
    with InputNode() as given:
        shared = stage.add.bind(given)
        graph = compile_(MultiOutputNode([shared, stage.add.bind(shared)]))
    assert ray.get(graph.execute(1)) == [1, 2]


def test_back_to_the_first_actor(compile_: Any) -> None:
    first, second = Stage.remote(), Stage.remote(100)
    with InputNode() as given:
        graph = compile_(first.add.bind(second.add.bind(first.add.bind(given))))
    assert [ray.get(graph.execute(value)) for value in (1, 2, 3)] == [102, 309, 829]


def test_inside_and_outside(compile_: Any) -> None:
    first, second = Stage.remote(), Stage.remote(100)
    with InputNode() as given:
        shared = first.add.bind(given)
        graph = compile_(MultiOutputNode([first.add.bind(shared), second.add.bind(shared)]))
    assert ray.get(graph.execute(1)) == [2, 101]
    assert ray.get(graph.execute(3)) == [10, 106]


def test_an_object_stays_the_same_object_inside_an_actor(compile_: Any) -> None:
    stage = Stage.remote()
    with InputNode() as given:
        inner = stage.echo.bind(given)
        graph = compile_(MultiOutputNode([stage.echo.bind(inner), stage.echo.bind(inner)]))
    assert ray.get(graph.execute(["x"])) == [["x"], ["x"]]


@pytest.mark.parametrize("constant", [1, "c", [1, 2], {"k": (1,)}])
def test_constants_beside_the_input(compile_: Any, one: Any, constant: Any) -> None:
    with InputNode() as given:
        graph = compile_(one.three.bind(constant, given, constant))
    assert ray.get(graph.execute(7)) == (constant, 7, constant)


def test_keywords_that_are_constants(compile_: Any, one: Any) -> None:
    with InputNode() as given:
        graph = compile_(one.keywords.bind(given, scale=3, offset=1))
    assert ray.get(graph.execute(2)) == 7


# -- several results of a method


@pytest.mark.parametrize("single", [True, False])
def test_two_results_are_two_outputs(compile_: Any, one: Any, single: bool) -> None:
    with InputNode() as given:
        left, right = one.two.bind(given)
        graph = compile_(MultiOutputNode([left, right]))
    for value in range(3):
        refs = graph.execute(value)
        assert ([ray.get(ref) for ref in refs] if single else ray.get(refs)) == [value, value + 1]


@pytest.mark.parametrize("same", [True, False])
def test_two_results_go_to_readers(compile_: Any, one: Any, same: bool) -> None:
    second = Stage.remote()
    third = second if same else Stage.remote()
    with InputNode() as given:
        left, right = one.two.bind(given)
        graph = compile_(MultiOutputNode([second.echo.bind(left), third.echo.bind(right)]))
    assert ray.get(graph.execute(1)) == [1, 2]


def test_two_results_in_another_order(compile_: Any, one: Any) -> None:
    with InputNode() as given:
        left, right = one.two.bind(given)
        graph = compile_(MultiOutputNode([right, left]))
    assert ray.get(graph.execute(1)) == [2, 1]


def test_three_results_meet_again(compile_: Any, one: Any) -> None:
    second = Stage.remote()
    with InputNode() as given:
        graph = compile_(second.three.bind(*one.three_parts.bind(given)))
    assert ray.get(graph.execute(1)) == (1, 2, 3)


def test_a_tuple_as_one_result(compile_: Any, one: Any) -> None:
    with InputNode() as given:
        graph = compile_(one.two_as_one.bind(given))
    assert ray.get(graph.execute(1)) == (1, 2)


# -- parts of the input


def part_cases() -> list[Any]:
    return [
        ("whole", lambda g: g, (1,), {}, 1),
        ("first", lambda g: g[0], (1,), {}, 1),
        ("second alone", lambda g: g[1], (1, 2), {}, 2),
        ("attribute", lambda g: g.x, (), {"x": 3}, 3),
        ("text index", lambda g: g["x"], (), {"x": 4}, 4),
        ("more keywords than used", lambda g: g.x, (), {"x": 5, "z": 1}, 5),
        ("tuple as one argument", lambda g: g[0], ((1, 2),), {}, (1, 2)),
        ("none", lambda g: g[0], (None,), {}, None),
    ]


@pytest.mark.parametrize("case", part_cases(), ids=lambda case: case[0])
def test_a_part_of_the_input(compile_: Any, one: Any, case: Any) -> None:
    _, choose, args, kwargs, expected = case
    with InputNode() as given:
        graph = compile_(one.echo.bind(choose(given)))
    for _ in range(2):
        assert ray.get(graph.execute(*args, **kwargs)) == expected


@pytest.mark.parametrize(
    ("choose", "args", "kwargs", "expected"),
    [
        (lambda g: (g[0], g[1]), (1, 2), {}, (1, 2)),
        (lambda g: (g[1], g[0]), (1, 2), {}, (2, 1)),
        (lambda g: (g[0], g[0]), (1,), {}, (1, 1)),
        (lambda g: (g.x, g.y), (), {"x": 1, "y": 2}, (1, 2)),
        (lambda g: (g[0], g.y), (1,), {"y": 2}, (1, 2)),
        (lambda g: (g.y, 5), (), {"y": 2}, (2, 5)),
    ],
)
@pytest.mark.parametrize("actors", [1, 2])
def test_parts_of_the_input(
    compile_: Any, one: Any, choose: Any, args: Any, kwargs: Any, expected: Any, actors: int
) -> None:
    other = one if actors == 1 else Stage.remote()
    with InputNode() as given:
        left, right = choose(given)
        graph = compile_(other.pair.bind(one.echo.bind(left), right))
    assert ray.get(graph.execute(*args, **kwargs)) == expected
    assert ray.get(graph.execute(*args, **kwargs)) == expected


@pytest.mark.parametrize(
    ("args", "kwargs", "phrase"),
    [
        ((), {}, r"must be called with 2 positional args, got 0"),
        ((1,), {"x": 1}, r"must be called with 2 positional args, got 1"),
        ((1, 2, 3), {"x": 1}, r"must be called with 2 positional args, got 3"),
        (((1, 2),), {"x": 1}, r"must be called with 2 positional args, got 1"),
        ((1, 2), {}, r"must be called with kwarg `x`"),
        ((1, 2), {"y": 1}, r"must be called with kwarg `x`"),
    ],
)
def test_arguments_that_the_graph_does_not_take(
    compile_: Any, one: Any, args: Any, kwargs: Any, phrase: str
) -> None:
    with InputNode() as given:
        graph = compile_(one.three.bind(given[0], given[1], given.x))
    with pytest.raises(ValueError, match=r"dag.execute\(\) or dag.execute_async\(\) " + phrase):
        graph.execute(*args, **kwargs)
    assert ray.get(graph.execute(1, 2, x=3)) == (1, 2, 3)


@pytest.mark.parametrize(("args", "count"), [((), 0), ((1, 2), 2)])
def test_the_whole_input_is_one_argument(compile_: Any, one: Any, args: Any, count: int) -> None:
    with InputNode() as given:
        graph = compile_(one.echo.bind(given))
    with pytest.raises(ValueError, match=f"must be called with 1 positional args, got {count}"):
        graph.execute(*args)


def test_a_part_of_a_part_is_refused() -> None:
    with InputNode() as given:
        with pytest.raises(TypeError, match="'InputAttributeNode' object is not subscriptable"):
            given[0][1]
        with pytest.raises(AttributeError, match="'InputAttributeNode' object has no attribute 'y'"):
            _ = given.x.y
