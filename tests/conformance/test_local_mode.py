"""``init(local_mode=True)``: tasks and actors run in this process, where a debugger can reach them."""

from __future__ import annotations

import os

import pytest
import ray

pytestmark = [
    pytest.mark.chosen_difference("Ray no longer has a local mode and raises", id="D-local-mode"),
    pytest.mark.usefixtures("local"),
]


@pytest.fixture
def local(fresh):
    fresh(num_cpus=2, local_mode=True)


@ray.remote
def echo(value):
    return value


@ray.remote
class Counter:
    def __init__(self, start=0):
        self.value = start

    def add(self, n=1):
        self.value += n
        return self.value

    def pid(self):
        return os.getpid()

    def fail(self):
        raise KeyError("in the actor")


def test_local_task_runs_in_this_process():
    assert ray.get(ray.remote(lambda: os.getpid()).remote()) == os.getpid()


def test_local_actor_lives_in_this_process():
    assert ray.get(Counter.remote().pid.remote()) == os.getpid()


def test_local_actor_keeps_its_state():
    counter = Counter.remote(10)
    assert ray.get([counter.add.remote(), counter.add.remote(5)]) == [11, 16]


def test_local_task_gets_ref_arguments_resolved():
    assert ray.get(echo.remote(echo.remote(ray.put(3)))) == 3


def test_local_ref_in_a_container_stays_a_ref():
    (ref,) = ray.get(echo.remote([ray.put(1)]))
    assert isinstance(ref, ray.ObjectRef)


def test_local_error_has_both_types():
    @ray.remote
    def fail():
        raise KeyError("local")

    with pytest.raises(KeyError) as caught:
        ray.get(fail.remote())
    assert isinstance(caught.value, ray.exceptions.RayTaskError)


def test_local_error_is_raised_by_get_and_not_by_remote():
    @ray.remote
    def fail():
        raise KeyError("local")

    ref = fail.remote()
    assert ray.wait([ref]) == ([ref], [])


def test_local_actor_method_error():
    with pytest.raises(KeyError):
        ray.get(Counter.remote().fail.remote())


def test_local_nested_tasks():
    @ray.remote
    def outer(x):
        return ray.get(echo.remote(x)) + 1

    assert ray.get(outer.remote(1)) == 2


def test_local_num_returns():
    @ray.remote(num_returns=2)
    def pair():
        return 1, 2

    assert ray.get(pair.remote()) == [1, 2]


def test_local_generator_streams():
    @ray.remote
    def count(n):
        for i in range(n):  # noqa: UP028
            yield i

    assert [ray.get(ref) for ref in count.remote(3)] == [0, 1, 2]


def test_local_wait_over_several():
    refs = [echo.remote(i) for i in range(4)]
    assert ray.wait(refs, num_returns=4) == (refs, [])


def test_local_argument_changed_by_the_task_is_unchanged_here():
    @ray.remote
    def grow(values):
        values.append(1)
        return values

    mine: list = []
    assert ray.get(grow.remote(mine)) == [1]
    assert mine == []


def test_local_bad_arguments_are_refused_at_the_call():
    with pytest.raises(TypeError):
        echo.remote()


def test_local_named_actor_is_found():
    counter = Counter.options(name="local-counter").remote(1)
    assert ray.get(ray.get_actor("local-counter").add.remote()) == 2
    assert ray.get(counter.add.remote()) == 3


def test_local_async_actor():
    @ray.remote
    class Async:
        async def value(self):
            return "async"

    assert ray.get(Async.remote().value.remote()) == "async"


def test_local_resources_are_reported():
    assert ray.cluster_resources()["CPU"] == 2.0


def test_local_mode_ends_with_shutdown(fresh):
    ray.shutdown()
    assert not ray.is_initialized()
    fresh(num_cpus=1)
    assert ray.get(ray.remote(lambda: os.getpid()).remote()) != os.getpid()
