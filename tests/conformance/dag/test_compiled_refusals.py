"""Graphs that cannot be compiled or bound are rejected with Ray's phrases."""

from __future__ import annotations

from typing import Any

import pytest
import ray
from dag.stages import Stage
from ray.dag import InputNode, MultiOutputNode


@pytest.fixture(scope="module")
def one() -> Any:
    return Stage.remote()


def test_a_graph_without_an_input(one: Any) -> None:
    with pytest.raises(
        ValueError,
        match="No InputNode found in the DAG: when traversing upwards, no upstream node was found for",
    ):
        one.echo.bind(1).experimental_compile()


def test_a_call_that_takes_no_node(one: Any) -> None:
    with InputNode() as given:
        node = MultiOutputNode([one.echo.bind(given), Stage.remote().echo.bind(1)])
    with pytest.raises(
        ValueError,
        match="Compiled DAGs require each task to take a ray.dag.InputNode or at least one other DAGNode as an input",
    ):
        node.experimental_compile()


def test_a_function_in_a_graph() -> None:
    function = ray.remote(lambda value: value)
    with InputNode() as given:
        node = function.bind(given)
    with pytest.raises(NotImplementedError, match="Compiled DAGs currently only support actor method nodes"):
        node.experimental_compile()


def test_an_actor_that_the_graph_would_start() -> None:
    actor = Stage.bind()
    with InputNode() as given:
        node = actor.echo.bind(given)
    with pytest.raises(
        ValueError,
        match=r"Compiled DAGs can only bind methods to an actor that is already created with Actor.remote\(\)",
    ):
        node.experimental_compile()


@pytest.mark.parametrize("of_a_call", [False, True])
def test_a_node_as_a_keyword_argument(one: Any, of_a_call: bool) -> None:
    with InputNode() as given:
        source = one.echo.bind(given) if of_a_call else given
        node = one.keywords.bind(1, scale=source)
    with pytest.raises(
        ValueError, match="Compiled DAG currently does not support binding to other DAG nodes as kwargs"
    ):
        node.experimental_compile()


class Box:
    def __init__(self, content: Any) -> None:
        self.content = content


@pytest.mark.parametrize(
    "wrap",
    [
        lambda node: [node],
        lambda node: (node,),
        lambda node: {"k": node},
        lambda node: [node, node],
        lambda node: [[node]],
        Box,
    ],
    ids=["list", "tuple", "dict", "two", "nested", "object"],
)
def test_a_node_inside_something(one: Any, wrap: Any) -> None:
    with pytest.raises(
        ValueError, match=r"Found \d+ DAGNodes from the arg (.|\n)*? in (.|\n)*?\. Please ensure"
    ):
        with InputNode() as given:
            node = one.echo.bind(wrap(given))
        node.experimental_compile()


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("torn_down", [False, True])
def test_a_graph_is_compiled_once(compile_: Any, one: Any, multi: bool, torn_down: bool) -> None:
    with InputNode() as given:
        node: Any = one.echo.bind(given)
        node = MultiOutputNode([node]) if multi else node
    graph = compile_(node)
    if torn_down:
        graph.teardown()
    with pytest.raises(
        ValueError,
        match="It is not allowed to call `experimental_compile` on the same DAG object multiple times no matter whether "
        "`teardown` is called or not. Please reuse the existing compiled DAG or create a new one.",
    ):
        node.experimental_compile()


def test_a_node_is_in_one_compiled_graph(compile_: Any, one: Any) -> None:
    other = Stage.remote()
    with InputNode() as given:
        left, right = one.echo.bind(given), other.echo.bind(given)
        node = MultiOutputNode([left, right])
    compile_(node).teardown()
    with pytest.raises(
        ValueError,
        match="The DAG was compiled more than once. The following two nodes call `experimental_compile`: ",
    ):
        right.experimental_compile()


LEAVES = (
    "Compiled DAG doesn't support leaf nodes, i.e., nodes that don't have downstream nodes and are not output nodes. "
    "There are {} leaf nodes in the DAG. Please add the outputs of"
)


@pytest.mark.parametrize("leaves", [1, 2, 3])
def test_calls_whose_results_nobody_takes(one: Any, leaves: int) -> None:
    other = Stage.remote()
    with InputNode() as given:
        shared = one.echo.bind(given)
        for number in range(leaves):
            (one if number % 2 else other).add.bind(shared if number else given)
        node = MultiOutputNode([one.add.bind(shared)])
    with pytest.raises(ValueError, match=LEAVES.format(leaves)):
        node.experimental_compile()


@pytest.mark.parametrize("chosen", [0, 1])
def test_one_of_two_results_that_nobody_takes(one: Any, chosen: int) -> None:
    with InputNode() as given:
        node = one.two.bind(given)[chosen]
    with pytest.raises(ValueError, match=LEAVES.format(1)):
        node.experimental_compile()


def test_the_input_whole_and_in_parts(one: Any) -> None:
    with InputNode() as given:
        node = one.pair.bind(given, one.echo.bind(given[0]))
    with pytest.raises(
        ValueError,
        match=r"All tasks must either use InputNode\(\) directly, or they must index to specific args or kwargs.",
    ):
        node.experimental_compile()


def test_a_part_of_the_input_that_is_not_used(one: Any) -> None:
    with InputNode() as given:
        parts = [given[number] for number in range(3)]
        one.echo.bind(parts[1])
        node = one.pair.bind(parts[0], parts[2])
    with pytest.raises(
        ValueError,
        match="Compiled Graph expects input to be accessed using all of attributes 0, 1, 2, but 1 is unused. Ensure all "
        "input attributes are used and contribute to the computation of the Compiled Graph output.",
    ):
        node.experimental_compile()


@pytest.mark.parametrize("build", ["input", "outputs"])
def test_the_input_is_no_output(one: Any, build: str) -> None:
    with InputNode() as given:
        node: Any = given if build == "input" else MultiOutputNode([one.echo.bind(given), given])
    with pytest.raises(AssertionError):
        node.experimental_compile()


def test_two_inputs(one: Any) -> None:
    with InputNode() as left, InputNode() as right:
        node = one.pair.bind(left, right)
    with pytest.raises(AssertionError, match="More than one InputNode found"):
        node.experimental_compile()


def test_a_single_node_is_no_list_of_outputs(one: Any) -> None:
    with InputNode() as given, pytest.raises(ValueError):
        MultiOutputNode(one.echo.bind(given))


MISMATCH = (
    r"\. The function `{}` has a signature `\({}\)`, but the given arguments to `bind` doesn't match\. "
)


@pytest.mark.parametrize(
    ("method", "args", "kwargs", "phrase"),
    [
        ("w", 1, {"y": 1}, "got an unexpected keyword argument 'y'" + MISMATCH.format("w", "x")),
        ("w", 2, {}, "too many positional arguments" + MISMATCH.format("w", "x")),
        ("f", 1, {}, r"missing a required (keyword-only )?argument: 'y'" + MISMATCH.format("f", r"x, \*, y")),
        ("g", 1, {}, "missing a required argument: 'y'" + MISMATCH.format("g", "x, y, z=1")),
        ("g", 0, {}, "missing a required argument: 'x'" + MISMATCH.format("g", "x, y, z=1")),
    ],
)
def test_arguments_that_a_method_does_not_take(method: str, args: int, kwargs: Any, phrase: str) -> None:
    class Plain:
        def w(self, x):  # type: ignore[no-untyped-def]
            return 1

        def f(self, x, *, y):  # type: ignore[no-untyped-def]
            pass

        def g(self, x, y, z=1):  # type: ignore[no-untyped-def]
            pass

    actor = ray.remote(num_cpus=0)(Plain).remote()
    with InputNode() as given, pytest.raises(TypeError, match=phrase + ".*args:.*kwargs:"):
        getattr(actor, method).bind(*[given] * args, **kwargs)
