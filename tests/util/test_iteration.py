"""as_completed and map_unordered."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from waiting import Gate

import skate as ray
from skate.util import as_completed, map_unordered

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote(num_cpus=0)
def double(value: int) -> int:
    return 2 * value


@ray.remote(num_cpus=0)
def pass_gate(gate: Gate) -> str:
    gate.wait()
    return "late"


def test_as_completed_gives_every_result() -> None:
    refs = [double.remote(value) for value in range(25)]
    assert sorted(as_completed(refs)) == [2 * value for value in range(25)]
    assert list(as_completed([])) == []


def test_as_completed_does_not_wait_for_the_slow_one(gate: Callable[[str], Gate]) -> None:
    slow = gate("slow")
    results = as_completed([pass_gate.remote(slow), double.remote(1)], chunk_size=1)
    assert next(results) == 2
    slow.open()
    assert list(results) == ["late"]


def test_as_completed_can_give_refs() -> None:
    refs = [double.remote(1), double.remote(2)]
    assert set(as_completed(refs, yield_obj_refs=True)) == set(refs)


def test_map_unordered_gives_every_result() -> None:
    assert sorted(map_unordered(double, range(25), backpressure_size=None)) == [
        2 * value for value in range(25)
    ]
    refs = list(map_unordered(double, [3], yield_obj_refs=True))
    assert ray.get(refs) == [6]


def test_map_unordered_takes_items_only_as_fast_as_results() -> None:
    taken: list[int] = []
    results = map_unordered(
        double, (taken.append(item) or item for item in itertools.count()), backpressure_size=3, chunk_size=1
    )
    for count in range(1, 10):
        next(results)
        assert len(taken) <= 3 + count


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="chunk_size"):
        next(as_completed([double.remote(1)], chunk_size=0))
    with pytest.raises(ValueError, match="chunk_size instead"):
        next(as_completed([double.remote(1)], num_returns=2))
    with pytest.raises(ValueError, match="chunk_size"):
        next(map_unordered(double, [1], chunk_size=0))
    with pytest.raises(ValueError, match="backpressure_size"):
        next(map_unordered(double, [1], backpressure_size=0))
