"""ActorPool: order, time-outs, actors that come, go and die."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from waiting import Gate

import skate as ray
from skate.exceptions import ActorDiedError
from skate.util import ActorPool

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote(num_cpus=0)
class Worker:
    def double(self, value: int) -> int:
        return 2 * value

    def pass_gate(self, gate: Gate, value: int) -> int:
        gate.wait()
        return value

    @ray.method(num_returns=2)
    def pair(self, value: int) -> tuple[int, int]:
        return value, -value

    def fail(self, value: int) -> None:
        raise KeyError(value)

    def die(self) -> None:
        os._exit(1)


def double(actor: Any, value: int) -> Any:
    return actor.double.remote(value)


def pool_of(count: int) -> ActorPool:
    return ActorPool([Worker.remote() for _ in range(count)])


def test_map_keeps_the_order_of_the_values() -> None:
    assert list(pool_of(2).map(double, range(7))) == [0, 2, 4, 6, 8, 10, 12]


def test_map_submits_before_it_is_iterated_over() -> None:
    pool = pool_of(2)
    results = pool.map(double, [1, 2, 3])
    assert repr(pool) == "ActorPool(idle=0, busy=2, waiting_values=1)"
    assert list(results) == [2, 4, 6]
    assert repr(pool) == "ActorPool(idle=2, busy=0, waiting_values=0)"


def test_map_gives_up_what_an_earlier_call_left() -> None:
    pool = pool_of(1)
    pool.map(double, [1, 2, 3])
    assert list(pool.map(double, [10, 20])) == [20, 40]
    assert sorted(pool.map_unordered(double, [5, 6])) == [10, 12]


def test_map_on_a_pool_without_actors_says_so() -> None:
    with pytest.raises(RuntimeError, match="2 values wait for an actor"):
        list(ActorPool([]).map(double, [1, 2]))


def test_map_unordered_gives_what_is_ready_first(gate: Callable[[str], Gate]) -> None:
    pool, slow = pool_of(2), gate("slow")
    pool.submit(lambda actor, value: actor.pass_gate.remote(slow, value), 1)
    pool.submit(double, 21)
    assert pool.get_next_unordered() == 42
    slow.open()
    assert pool.get_next_unordered() == 1


def test_get_next_after_a_later_result_was_taken(gate: Callable[[str], Gate]) -> None:
    pool, slow = pool_of(2), gate("slow")
    pool.submit(lambda actor, value: actor.pass_gate.remote(slow, value), 1)
    pool.submit(double, 21)
    assert pool.get_next_unordered() == 42
    with pytest.raises(ValueError, match="get_next_unordered"):
        pool.get_next()
    slow.open()
    assert pool.get_next_unordered() == 1


@pytest.mark.parametrize("take", ["get_next", "get_next_unordered"])
def test_nothing_left_is_a_stop_iteration(take: str) -> None:
    pool = pool_of(1)
    assert not pool.has_next()
    with pytest.raises(StopIteration):
        getattr(pool, take)()


@pytest.mark.parametrize("take", ["get_next", "get_next_unordered"])
def test_a_timed_out_result_can_be_taken_later(take: str, gate: Callable[[str], Gate]) -> None:
    pool, slow = pool_of(1), gate("slow")
    pool.submit(lambda actor, value: actor.pass_gate.remote(slow, value), 7)
    with pytest.raises(TimeoutError):
        getattr(pool, take)(timeout=0.01)
    assert pool.has_next()
    slow.open()
    assert getattr(pool, take)(timeout=20) == 7


@pytest.mark.parametrize("take", ["get_next", "get_next_unordered"])
def test_ignore_if_timedout_gives_the_call_up(take: str, gate: Callable[[str], Gate]) -> None:
    pool, slow = pool_of(1), gate("slow")
    pool.submit(lambda actor, value: actor.pass_gate.remote(slow, value), 7)
    pool.submit(double, 4)
    with pytest.raises(TimeoutError):
        getattr(pool, take)(timeout=0.01, ignore_if_timedout=True)
    slow.open()
    assert getattr(pool, take)() == 8
    assert not pool.has_next()


@pytest.mark.parametrize("take", ["get_next", "get_next_unordered"])
def test_a_call_with_several_returns_gives_their_list(take: str) -> None:
    pool = pool_of(2)
    for value in (1, 2):
        pool.submit(lambda actor, value: actor.pair.remote(value), value)
    taken = [getattr(pool, take)(timeout=20) for _ in range(2)]
    assert sorted(taken) == [[1, -1], [2, -2]]


def test_an_actor_whose_call_raised_stays_in_the_pool() -> None:
    pool = pool_of(1)
    pool.submit(lambda actor, value: actor.fail.remote(value), 1)
    with pytest.raises(KeyError):
        pool.get_next()
    assert pool.has_free()


def test_an_actor_that_died_is_dropped() -> None:
    pool = pool_of(1)
    pool.submit(lambda actor, _: actor.die.remote(), None)
    pool.submit(double, 3)
    with pytest.raises(ActorDiedError):
        pool.get_next()
    with pytest.raises(RuntimeError, match="1 values wait for an actor"):
        pool.get_next()
    pool.push(Worker.remote())
    assert pool.get_next() == 6


def test_a_failing_submission_leaves_the_actor_idle() -> None:
    pool = pool_of(1)
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda actor, value: value / 0, 1)
    assert pool.has_free()


def test_push_and_pop_idle() -> None:
    first, second = Worker.remote(), Worker.remote()
    pool = ActorPool([first])
    with pytest.raises(ValueError, match="already"):
        pool.push(first)
    pool.submit(double, 1)
    with pytest.raises(ValueError, match="already"):
        pool.push(first)
    assert pool.pop_idle() is None
    pool.push(second)
    assert pool.has_free()
    assert pool.pop_idle() == second
    assert pool.get_next() == 2
    assert pool.pop_idle() == first


def test_push_starts_a_value_that_waits(gate: Callable[[str], Gate]) -> None:
    pool, slow = pool_of(1), gate("slow")
    pool.submit(lambda actor, value: actor.pass_gate.remote(slow, value), 1)
    pool.submit(double, 2)
    pool.push(Worker.remote())
    assert pool.get_next_unordered(timeout=20) == 4
    slow.open()
    assert pool.get_next_unordered() == 1
