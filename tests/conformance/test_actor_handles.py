"""Actor handles: passed on, returned, stored, compared."""

from __future__ import annotations

import os
import typing
from typing import Any

import pytest
import ray
from waiting import Gate

pytestmark = pytest.mark.usefixtures("cluster")


def counter_class() -> Any:
    @ray.remote
    class Counter:
        def __init__(self, start: int = 0, *, step: int = 1) -> None:
            self.value = start
            self.step = step

        def add(self, times: int = 1) -> int:
            self.value += self.step * times
            return self.value

        def read(self) -> int:
            return self.value

        def pid(self) -> int:
            return os.getpid()

    return Counter


def test_core_28_handle_as_argument_of_a_task() -> None:
    @ray.remote
    def bump(counter: Any) -> int:
        return ray.get(counter.add.remote())

    counter = counter_class().remote()
    ray.get([bump.remote(counter) for _ in range(4)])
    assert ray.get(counter.read.remote()) == 4


@pytest.mark.parametrize("wrap", ["plain", "list", "dict", "put"])
def test_core_28_handle_travels_to_another_actor(wrap: str) -> None:
    @ray.remote
    class Caller:
        def call(self, given: Any) -> int:
            counter = given[0] if isinstance(given, list) else given
            counter = counter["it"] if isinstance(counter, dict) else counter
            return ray.get(counter.add.remote())

    counter = counter_class().remote(1)
    given = {"plain": counter, "list": [counter], "dict": {"it": counter}, "put": None}[wrap]
    caller = Caller.remote()
    assert ray.get(caller.call.remote(ray.put(counter) if wrap == "put" else given)) == 2


def test_core_28_actor_creates_an_actor_and_returns_its_handle() -> None:
    counter = counter_class()

    @ray.remote
    class Parent:
        def __init__(self) -> None:
            self.child = counter.remote(41)

        def get_child(self) -> Any:
            return self.child

    parent = Parent.remote()
    child = ray.get(parent.get_child.remote())
    assert ray.get(child.add.remote()) == 42


def test_core_28_task_creates_an_actor_and_returns_its_handle() -> None:
    counter = counter_class()

    @ray.remote
    def make() -> Any:
        return counter.remote(3)

    assert ray.get(ray.get(make.remote()).read.remote()) == 3


def test_core_28_actor_submits_tasks_and_waits_for_them() -> None:
    @ray.remote
    def square(n: int) -> int:
        return n * n

    @ray.remote
    class Boss:
        def total(self, n: int) -> int:
            return sum(ray.get([square.remote(i) for i in range(n)]))

    assert ray.get(Boss.remote().total.remote(4)) == 14


def test_core_28_result_arrives_though_no_handle_is_kept() -> None:
    assert ray.get(counter_class().remote(9).read.remote()) == 9


def test_core_28_handle_equals_the_same_handle_after_a_round_trip() -> None:
    counter = counter_class().remote()
    returned = ray.get(ray.put([counter]))[0]
    assert returned == counter
    assert hash(returned) == hash(counter)
    assert counter != counter_class().remote()


def test_core_28_method_refs_work_with_wait(gate: Any) -> None:
    held: Gate = gate("held")

    @ray.remote
    class Waits:
        def until(self, signal: Gate) -> str:
            signal.wait()
            return "late"

    late = Waits.remote().until.remote(held)
    early = counter_class().remote(1).read.remote()
    assert ray.wait([late, early], num_returns=1, timeout=30) == ([early], [late])
    held.open()
    assert ray.get(late) == "late"


def test_core_28_current_actor_is_a_handle_to_itself() -> None:
    @ray.remote
    class Me:
        def __init__(self) -> None:
            self.value = 3

        def myself(self) -> Any:
            return ray.get_runtime_context().current_actor

        def read(self) -> int:
            return self.value

    actor = Me.remote()
    assert ray.get(ray.get(actor.myself.remote()).read.remote()) == 3


def test_annotations_name_the_class_of_an_actor() -> None:
    from ray.actor import ActorClass, ActorHandle, ActorProxy

    class Named:
        pass

    assert typing.get_args(ActorHandle[Named]) == typing.get_args(ActorClass[Named]) == (Named,)
    assert typing.get_args(ActorProxy[Named])[1] == type[Named]
