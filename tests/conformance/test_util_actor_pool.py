"""ray.util.ActorPool: a few actors, many values."""

from __future__ import annotations

from typing import Any

import pytest
import ray
from ray.util import ActorPool
from waiting import Gate

pytestmark = pytest.mark.usefixtures("cluster")


def double(actor: Any, value: int) -> Any:
    return actor.double.remote(value)


def workers(count: int = 2) -> list[Any]:
    @ray.remote
    class Worker:
        def double(self, value: int) -> int:
            return 2 * value

        def gated(self, value: int, gates: dict[int, Gate]) -> int:
            if value in gates:
                gates[value].wait()
            return value

        def fail(self, value: int) -> None:
            raise ValueError(value)

    return [Worker.remote() for _ in range(count)]


def test_util_pool_map_keeps_order() -> None:
    assert list(ActorPool(workers()).map(double, range(6))) == [0, 2, 4, 6, 8, 10]


def test_util_pool_map_keeps_order_when_the_first_is_slow(gate: Any) -> None:
    go = gate("go")
    pool = ActorPool(workers())
    results = pool.map(lambda actor, value: actor.gated.remote(value, {0: go}), range(3))
    go.open()
    assert list(results) == [0, 1, 2]


def test_util_pool_map_unordered_yields_what_is_done(gate: Any) -> None:
    go = gate("go")
    pool = ActorPool(workers())
    results = pool.map_unordered(lambda actor, value: actor.gated.remote(value, {0: go}), range(4))
    first = [next(results) for _ in range(3)]
    go.open()
    assert first == [1, 2, 3]
    assert list(results) == [0]


@pytest.mark.parametrize("how", ["map", "map_unordered"])
def test_util_pool_of_nothing(how: str) -> None:
    assert list(getattr(ActorPool(workers(1)), how)(double, [])) == []


def test_util_pool_can_be_used_again() -> None:
    pool = ActorPool(workers())
    for _ in range(2):
        assert list(pool.map(double, [1, 2, 3])) == [2, 4, 6]


def test_util_pool_get_next_in_order_of_submission() -> None:
    pool = ActorPool(workers())
    for value in (3, 1, 2):
        pool.submit(double, value)
    assert [pool.get_next() for _ in range(3)] == [6, 2, 4]


def test_util_pool_get_next_unordered(gate: Any) -> None:
    go = gate("go")
    pool = ActorPool(workers())
    for value in (0, 1):
        pool.submit(lambda actor, value: actor.gated.remote(value, {0: go}), value)
    assert pool.get_next_unordered() == 1
    go.open()
    assert pool.get_next_unordered() == 0


@pytest.mark.parametrize("how", ["get_next", "get_next_unordered"])
def test_util_pool_without_results(how: str) -> None:
    with pytest.raises(StopIteration):
        getattr(ActorPool(workers(1)), how)()


@pytest.mark.parametrize("how", ["get_next", "get_next_unordered"])
def test_util_pool_get_next_times_out(how: str, gate: Any) -> None:
    go = gate("go")
    pool = ActorPool(workers(1))
    pool.submit(lambda actor, value: actor.gated.remote(value, {0: go}), 0)
    with pytest.raises(TimeoutError):
        getattr(pool, how)(timeout=0.05)
    go.open()
    assert getattr(pool, how)(timeout=30) == 0


def test_util_pool_has_next_and_has_free() -> None:
    pool = ActorPool(workers(1))
    assert (pool.has_next(), pool.has_free()) == (False, True)
    pool.submit(double, 1)
    assert (pool.has_next(), pool.has_free()) == (True, False)
    pool.get_next()
    assert (pool.has_next(), pool.has_free()) == (False, True)


def test_util_pool_queues_more_than_it_has_actors() -> None:
    pool = ActorPool(workers(1))
    for value in range(4):
        pool.submit(double, value)
    assert [pool.get_next() for _ in range(4)] == [0, 2, 4, 6]


def test_util_pool_push_and_pop_idle() -> None:
    first, second = workers(2)
    pool = ActorPool([first])
    pool.push(second)
    assert pool.has_free()
    assert {pool.pop_idle(), pool.pop_idle()} == {first, second}
    assert pool.pop_idle() is None
    assert not pool.has_free()


def test_util_pool_push_of_a_member_is_refused() -> None:
    (actor,) = workers(1)
    with pytest.raises(ValueError):
        ActorPool([actor]).push(actor)


def test_util_pool_pushed_actor_takes_queued_work(gate: Any) -> None:
    go = gate("go")
    first, second = workers(2)
    pool = ActorPool([first])
    for value in (0, 1):
        pool.submit(lambda actor, value: actor.gated.remote(value, {0: go}), value)
    pool.push(second)
    assert pool.get_next_unordered(timeout=30) == 1
    go.open()
    assert pool.get_next_unordered(timeout=30) == 0


def test_util_pool_error_of_an_actor_reaches_the_caller() -> None:
    pool = ActorPool(workers(1))
    pool.submit(lambda actor, value: actor.fail.remote(value), 7)
    with pytest.raises(ValueError, match="7"):
        pool.get_next()


def test_util_pool_works_on_after_an_error() -> None:
    pool = ActorPool(workers(1))
    pool.submit(lambda actor, value: actor.fail.remote(value), 7)
    with pytest.raises(ValueError):
        pool.get_next()
    assert list(pool.map(double, [1, 2])) == [2, 4]
