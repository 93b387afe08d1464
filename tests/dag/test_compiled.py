"""Compiled graphs: checked once, executed many times, each result fetched once."""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Any

import numpy as np
import pytest

import skate as ray
from skate.dag import CompiledDAG, InputNode, MultiOutputNode
from skate.exceptions import (
    ActorDiedError,
    RayCgraphCapacityExceeded,
    RayChannelError,
    RayChannelTimeoutError,
    RayTaskError,
)


@ray.remote
class Stage:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def times(self, value: int) -> int:
        return value * self.factor

    def sum(self, left: int, right: int) -> int:
        return left + right

    def fail(self, value: int) -> int:
        raise ValueError(f"cannot take {value}")

    async def never(self, value: int) -> int:
        await asyncio.Event().wait()
        return value


def pipeline(**options: Any) -> CompiledDAG:
    with InputNode() as given:
        output = Stage.remote(10).times.bind(Stage.remote(2).times.bind(given))
    compiled: CompiledDAG = output.experimental_compile(**options)
    return compiled


def test_executed_many_times() -> None:
    compiled = pipeline()
    refs = [compiled.execute(n) for n in range(4)]
    assert ray.get(refs) == [0, 20, 40, 60]


def test_several_outputs_and_parts_of_the_input() -> None:
    stage = Stage.remote(3)
    with InputNode() as given:
        output = MultiOutputNode([stage.times.bind(given[0]), stage.sum.bind(given[0], given.right)])
    compiled = output.experimental_compile()
    assert ray.get(compiled.execute(2, right=5)) == [6, 7]
    with pytest.raises(ValueError, match="1 positional"):
        compiled.execute(1, 2, right=3)
    with pytest.raises(ValueError, match="right"):
        compiled.execute(1)


def test_a_result_is_fetched_once_and_stays_here() -> None:
    ref = pipeline().execute(1)
    assert ref.get() == 20
    with pytest.raises(ValueError, match="already"):
        ray.get(ref)
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ValueError, match="cannot be"):
            act(ref)


def test_errors_come_through() -> None:
    with InputNode() as given:
        output = Stage.remote(1).times.bind(Stage.remote(1).fail.bind(given))
    with pytest.raises(ValueError, match="cannot take 5") as caught:
        ray.get(output.experimental_compile().execute(5))
    assert isinstance(caught.value, RayTaskError)


def test_a_timeout() -> None:
    with InputNode() as given:
        output = Stage.remote(1).never.bind(given)
    ref = output.experimental_compile().execute(5)
    with pytest.raises(RayChannelTimeoutError):
        ray.get(ref, timeout=0.01)


def test_awaited() -> None:
    compiled = pipeline(enable_asyncio=True)

    async def main() -> Any:
        future = await compiled.execute_async(1)
        value = await future
        with pytest.raises(ValueError, match="already"):
            await future
        return value

    assert asyncio.run(main()) == 20
    with pytest.raises(ValueError, match="execute_async"):
        compiled.execute(1)
    with pytest.raises(ValueError, match="enable_asyncio"):
        asyncio.run(pipeline().execute_async(1))


def test_a_limit_of_unfetched_results() -> None:
    compiled = pipeline(_max_inflight_executions=2)
    refs = [compiled.execute(1), compiled.execute(2)]
    with pytest.raises(RayCgraphCapacityExceeded, match="2"):
        compiled.execute(3)
    ray.get(refs[0])
    assert ray.get(compiled.execute(3)) == 60


def test_teardown() -> None:
    stage = Stage.remote(2)
    with InputNode() as given:
        compiled = stage.times.bind(given).experimental_compile()
    compiled.teardown()
    with pytest.raises(RayChannelError, match="Channel closed."):
        compiled.execute(1)
    assert ray.get(stage.times.remote(1)) == 2
    compiled.teardown(kill_actors=True)
    with pytest.raises(ActorDiedError):
        ray.get(stage.times.remote(1))


def test_a_graph_that_is_forgotten_frees_its_actors() -> None:
    stage = Stage.remote(2)
    for _ in range(2):
        with InputNode() as given:
            compiled = stage.times.bind(given).experimental_compile()
        assert ray.get(compiled.execute(1)) == 2
        del compiled


@pytest.mark.parametrize("limit", [0, -1, "many", True])
@pytest.mark.parametrize("name", ["_max_inflight_executions", "_buffer_size_bytes"])
def test_limits_are_positive(name: str, limit: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a positive integer"):
        pipeline(**{name: limit})


def test_values_that_are_held_do_not_stop_the_graph() -> None:
    stage = Stage.remote(2)
    with InputNode() as given:
        compiled = stage.times.bind(given).experimental_compile(_max_inflight_executions=2)
    held = [ray.get(compiled.execute(np.full(100_000, number))) for number in range(20)]
    assert [int(array[0]) for array in held] == [2 * number for number in range(20)]
    compiled.teardown()
    assert [int(array[-1]) for array in held] == [2 * number for number in range(20)]
