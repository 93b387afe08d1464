"""Tasks that submit tasks: results, errors, and CPUs lent while a parent waits."""

from __future__ import annotations

import os

import numpy as np
import pytest
import ray
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def echo(value):
    return value


@ray.remote
def fibonacci(n):
    return n if n < 2 else sum(ray.get([fibonacci.remote(n - 1), fibonacci.remote(n - 2)]))


@ray.remote
def descend(depth):
    return depth if depth == 0 else 1 + ray.get(descend.remote(depth - 1))


@pytest.mark.parametrize("depth", [1, 5])
def test_core_12_recursion_deeper_than_the_cpus_finishes(depth):
    assert ray.get(descend.remote(depth), timeout=60) == depth


def test_core_12_branching_recursion_finishes():
    assert ray.get(fibonacci.remote(5), timeout=60) == 5


def test_core_12_waiting_parent_gives_back_its_cpus():
    @ray.remote(num_cpus=2)
    def child():
        return "ran"

    @ray.remote(num_cpus=2)
    def parent():
        return ray.get(child.remote())

    assert ray.get(parent.remote(), timeout=30) == "ran"


def test_core_12_parent_blocked_in_wait_gives_back_its_cpus():
    @ray.remote(num_cpus=2)
    def child():
        return "ran"

    @ray.remote(num_cpus=2)
    def parent():
        ready, _ = ray.wait([child.remote()])
        return ray.get(ready)

    assert ray.get(parent.remote(), timeout=30) == ["ran"]


def test_core_12_all_cpus_waiting_on_children_is_no_deadlock():
    @ray.remote
    def parent(i):
        return ray.get(echo.remote(i))

    assert ray.get([parent.remote(i) for i in range(4)], timeout=60) == [0, 1, 2, 3]


def test_core_12_parent_takes_its_cpu_again_after_waiting(gate):
    fetched, release = gate("fetched"), gate("release")

    @ray.remote(num_cpus=2)
    def parent():
        ray.get(echo.remote(1))
        fetched.open()
        release.wait()

    ref = parent.remote()
    fetched.wait()
    wait_for(lambda: ray.available_resources().get("CPU", 0) == 0, what="the parent to hold both CPUs again")
    release.open()
    ray.get(ref)
    wait_for(lambda: ray.available_resources().get("CPU", 0) == 2, what="both CPUs to be free again")


def test_child_may_outlive_its_parent(gate):
    release = gate("release")

    @ray.remote
    def child():
        release.wait()
        return "late"

    @ray.remote
    def parent():
        return [child.remote()]

    (ref,) = ray.get(parent.remote())
    release.open()
    assert ray.get(ref, timeout=30) == "late"


def test_ref_passed_down_through_two_levels():
    @ray.remote
    def bottom(refs):
        return ray.get(refs[0])

    @ray.remote
    def top(refs):
        return ray.get(bottom.remote(refs))

    assert ray.get(top.remote([ray.put("deep")])) == "deep"


def test_ref_passed_up_through_two_levels():
    @ray.remote
    def bottom():
        return [ray.put("from below")]

    @ray.remote
    def top():
        return ray.get(bottom.remote())

    (ref,) = ray.get(top.remote())
    assert ray.get(ref) == "from below"


def test_large_value_passed_up_through_two_levels():
    @ray.remote
    def bottom():
        return np.arange(300_000)

    @ray.remote
    def top():
        return ray.get(bottom.remote())

    assert ray.get(top.remote())[-1] == 299_999


def test_error_from_two_levels_down_keeps_its_type():
    @ray.remote
    def bottom():
        raise LookupError("at the bottom")

    @ray.remote
    def middle():
        return ray.get(bottom.remote())

    @ray.remote
    def top():
        return ray.get(middle.remote())

    with pytest.raises(LookupError, match="at the bottom"):
        ray.get(top.remote())


def test_parent_sees_a_child_that_crashed():
    @ray.remote(max_retries=0)
    def die():
        os._exit(1)

    @ray.remote
    def parent():
        try:
            ray.get(die.remote())
        except ray.exceptions.WorkerCrashedError:
            return "noticed"

    assert ray.get(parent.remote(), timeout=60) == "noticed"


def test_actor_created_in_a_task():
    @ray.remote
    class Counter:
        def add(self, n):
            return n + 1

    @ray.remote
    def use():
        return ray.get(Counter.remote().add.remote(1))

    assert ray.get(use.remote()) == 2


def test_remote_function_defined_in_a_task():
    @ray.remote
    def parent():
        @ray.remote
        def child(x):
            return x + 1

        return ray.get(child.remote(1))

    assert ray.get(parent.remote()) == 2


def test_two_hundred_children_of_one_parent():
    @ray.remote
    def parent(n):
        return sum(ray.get([echo.remote(i) for i in range(n)]))

    assert ray.get(parent.remote(200), timeout=60) == sum(range(200))


def test_parent_may_wait_with_a_timeout(gate):
    release = gate("release")

    @ray.remote
    def slow():
        release.wait()
        return "slow"

    @ray.remote
    def parent():
        ref = slow.remote()
        try:
            ray.get(ref, timeout=0.05)
        except ray.exceptions.GetTimeoutError:
            release.open()
        return ray.get(ref)

    assert ray.get(parent.remote(), timeout=30) == "slow"


def test_result_that_is_a_list_of_refs_is_not_fetched_by_itself():
    @ray.remote
    def submit():
        return [echo.remote(i) for i in range(3)]

    refs = ray.get(submit.remote())
    assert all(isinstance(ref, ray.ObjectRef) for ref in refs)
    assert ray.get(refs) == [0, 1, 2]


def test_thread_in_a_task_may_submit_and_get():
    import threading

    @ray.remote
    def parent():
        results = []
        thread = threading.Thread(target=lambda: results.append(ray.get(echo.remote("in a thread"))))
        thread.start()
        thread.join()
        return results

    assert ray.get(parent.remote(), timeout=30) == ["in a thread"]


def test_job_id_is_the_same_all_the_way_down():
    @ray.remote
    def bottom():
        return ray.get_runtime_context().get_job_id()

    @ray.remote
    def top():
        return ray.get(bottom.remote())

    assert ray.get(top.remote()) == ray.get_runtime_context().get_job_id()


def test_is_initialized_inside_a_task():
    @ray.remote
    def inside():
        return ray.is_initialized()

    assert ray.get(inside.remote())
