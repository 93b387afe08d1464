"""Compiled graphs awaited, and graphs that an actor compiles."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import ray
from dag.stages import Stage
from ray.dag import InputNode, MultiOutputNode
from ray.exceptions import RayCgraphCapacityExceeded


@pytest.fixture(scope="module")
def run(node: None) -> Any:
    """Runs a coroutine in the thread's own event loop, which outlives the graphs."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop.run_until_complete
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture(scope="module")
def one() -> Any:
    actor = Stage.remote()
    ray.get(actor.pid.remote())
    return actor


def plain(actor: Any, method: str = "echo") -> Any:
    with InputNode() as given:
        return getattr(actor, method).bind(given)


@pytest.mark.parametrize("value", [1, "text", None, [1, 2], {"k": 1}, b"x" * 200_000])
def test_a_value_is_awaited(compile_: Any, run: Any, one: Any, value: Any) -> None:
    graph = compile_(plain(one), enable_asyncio=True)

    async def main() -> Any:
        return await (await graph.execute_async(value))

    assert run(main()) == value


def test_many_at_once(compile_: Any, run: Any, one: Any) -> None:
    graph = compile_(plain(one), enable_asyncio=True)

    async def each(number: int) -> Any:
        found = await (await graph.execute_async(np.ones(100) * number))
        return float(found[0])

    async def main() -> Any:
        return await asyncio.gather(*[each(number) for number in range(10)])

    assert run(main()) == list(range(10))


def test_awaited_in_another_order(compile_: Any, run: Any) -> None:
    graph = compile_(plain(Stage.remote(), "keep"), enable_asyncio=True)

    async def main() -> Any:
        first = await graph.execute_async("a")
        second = await graph.execute_async("b")
        return await second, await first

    assert run(main()) == (["a", "b"], ["a"])


@pytest.mark.parametrize("gather", [True, False])
def test_several_outputs(compile_: Any, run: Any, one: Any, gather: bool) -> None:
    other = Stage.remote()
    with InputNode() as given:
        graph = compile_(MultiOutputNode([one.echo.bind(given), other.echo.bind(given)]), enable_asyncio=True)

    async def main() -> Any:
        futures = await graph.execute_async(5)
        assert len(futures) == 2
        return await asyncio.gather(*futures) if gather else [await future for future in futures]

    assert run(main()) == [5, 5]


@pytest.mark.parametrize(
    ("choose", "args", "kwargs", "expected"),
    [
        (lambda g: (g[0], g[1]), (1, 2), {}, (1, 2)),
        (lambda g: (g.x, g.y), (), {"x": 1, "y": 2}, (1, 2)),
        (lambda g: (g[0], g.y), (1,), {"y": 2}, (1, 2)),
    ],
)
def test_parts_of_the_input(
    compile_: Any, run: Any, one: Any, choose: Any, args: Any, kwargs: Any, expected: Any
) -> None:
    with InputNode() as given:
        graph = compile_(one.pair.bind(*choose(given)), enable_asyncio=True)

    async def main() -> Any:
        return await (await graph.execute_async(*args, **kwargs))

    assert run(main()) == expected


def test_an_exception_is_awaited(compile_: Any, run: Any, one: Any) -> None:
    graph = compile_(plain(one, "fail_if_even"), enable_asyncio=True)

    async def main() -> None:
        for _ in range(2):
            assert await (await graph.execute_async(1)) == 1
            future = await graph.execute_async(2)
            with pytest.raises(ValueError, match="2 is even"):
                await future

    run(main())


@pytest.mark.parametrize("which", ["all", "another"])
def test_an_await_raises_as_soon_as_one_output_has_failed(
    compile_: Any, run: Any, one: Any, gate: Any, which: str
) -> None:
    waiting, hold = Stage.remote(), gate("hold")
    with InputNode() as given:
        graph = compile_(
            MultiOutputNode([waiting.wait_for_file.bind(given), one.fail.bind(given)]), enable_asyncio=True
        )

    async def main() -> None:
        futures = await graph.execute_async(str(hold.path))
        with pytest.raises(ValueError, match="cannot take"):
            await (asyncio.gather(*futures) if which == "all" else futures[0])
        hold.open()

    run(main())


def test_two_results_that_fail(compile_: Any, run: Any, one: Any) -> None:
    with InputNode() as given:
        graph = compile_(MultiOutputNode(list(one.two_or_fail.bind(given))), enable_asyncio=True)

    async def main() -> None:
        for _ in range(3):
            for future in await graph.execute_async(1):
                with pytest.raises(RuntimeError, match="no two of 1"):
                    await future

    run(main())


def test_as_many_as_may_be_under_way(compile_: Any, run: Any, gate: Any) -> None:
    hold = gate("hold")
    graph = compile_(plain(Stage.remote(), "wait_for_file"), enable_asyncio=True, _max_inflight_executions=2)

    async def main() -> Any:
        futures = [await graph.execute_async(str(hold.path)) for _ in range(2)]
        with pytest.raises(RayCgraphCapacityExceeded, match="more than 2 in-flight executions"):
            await graph.execute_async("third")
        hold.open()
        return [await future for future in futures]

    assert run(main()) == [str(hold.path)] * 2


def test_each_way_has_its_graphs(compile_: Any, run: Any, one: Any) -> None:
    awaited = compile_(plain(one), enable_asyncio=True)
    with pytest.raises(ValueError, match="Use execute_async if enable_asyncio=True"):
        awaited.execute(1)
    fetched = compile_(plain(Stage.remote()))

    async def main() -> None:
        with pytest.raises(ValueError, match="Use execute if enable_asyncio=False"):
            await fetched.execute_async(1)

    run(main())


# -- graphs of actors


@ray.remote(num_cpus=0)
class Replica:
    """Compiles a graph of its own workers."""

    def __init__(self, shape: str) -> None:
        first, second = Stage.remote(), Stage.remote(10)
        with InputNode() as given:
            if shape == "one":
                node: Any = first.add.bind(given)
            elif shape == "chain":
                node = first.add.bind(first.add.bind(given))
            elif shape == "two":
                node = second.add.bind(first.add.bind(given))
            elif shape == "fan":
                node = MultiOutputNode([first.add.bind(given), second.add.bind(given)])
            else:
                shared = first.add.bind(given)
                node = MultiOutputNode([shared, first.add.bind(shared), second.add.bind(shared)])
        self.graph = node.experimental_compile()
        self.workers = first, second

    def call(self, value: int) -> Any:
        return ray.get(self.graph.execute(value))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("one", [1, 2]),
        ("chain", [2, 6]),
        ("two", [11, 13]),
        ("fan", [[1, 11], [2, 12]]),
        ("all", [[1, 2, 11], [3, 6, 14]]),
    ],
)
def test_an_actor_compiles_a_graph(shape: str, expected: Any) -> None:
    replica = Replica.remote(shape)
    assert [ray.get(replica.call.remote(1)) for _ in range(2)] == expected


# -- drawings


def lines(graph: Any) -> list[str]:
    return [line.rstrip() for line in graph.visualize(format="ascii").splitlines()]


def test_a_drawing_in_letters(compile_: Any, one: Any) -> None:
    graph = compile_(plain(one))
    found = lines(graph)
    nodes = found[found.index("Nodes Information:") + 1 : found.index("Edges Information:")]
    assert nodes[0] == '0 [label="Task 0  InputNode"]'
    assert nodes[1].startswith('1 [label="Task 1  Actor: ')
    assert nodes[1].endswith('... Method: echo"]')
    assert nodes[2] == '2 [label="Task 2  MultiOutputNode"]'
    edges = found[found.index("Edges Information:") + 1 : found.index("Legend:")]
    assert [line for line in edges if line] == ["0 ---> 1", "1 ---> 2"]
    assert "---> : Represents Shared Memory data channels" in found
    assert "0:InputNode" in found
    assert "2:MultiOutputNode" in found


def test_a_drawing_of_several_results(compile_: Any, one: Any) -> None:
    other = Stage.remote()
    with InputNode() as given:
        left, right, last = one.three_parts.bind(given)
        pair = other.two.bind(last)
        graph = compile_(MultiOutputNode([other.echo.bind(left), other.echo.bind(right), *pair]))
    found = lines(graph)
    edges = [line for line in found[found.index("Edges Information:") + 1 : found.index("Legend:")] if line]
    assert set(edges) == {
        f"{one} ---> {two}"
        for one, two in [
            (0, 1), (1, 2), (1, 3), (1, 4), (2, 5), (3, 6), (4, 7), (5, 8), (6, 8), (9, 8), (10, 8), (7, 9), (7, 10),
        ]
    }  # fmt: skip
    assert '2 [label="Task 2  ClassMethodOutputNode[0]"]' in found


def test_what_a_drawing_in_letters_has_not(compile_: Any, one: Any) -> None:
    graph = compile_(plain(one))
    with pytest.raises(
        ValueError, match="Parameters 'channel_details' are not compatible with 'ascii' format."
    ):
        graph.visualize(format="ascii", channel_details=True)
