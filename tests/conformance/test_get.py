"""``get``: accepted and rejected arguments, order, and timeouts."""

from __future__ import annotations

import threading

import pytest
import ray
from ray.exceptions import GetTimeoutError
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def echo(value):
    return value


@ray.remote
def held(gate):
    gate.wait()
    return "released"


def test_core_14_get_of_one_ref_gives_its_value():
    assert ray.get(ray.put("v")) == "v"


def test_core_14_get_of_a_list_gives_a_list_in_that_order():
    refs = [echo.remote(i) for i in range(20)]
    assert ray.get(refs[::-1]) == list(range(20))[::-1]


def test_core_14_get_of_an_empty_list_is_an_empty_list():
    assert ray.get([]) == []


def test_core_14_get_of_a_list_of_one_is_a_list_of_one():
    assert ray.get([ray.put(1)]) == [1]


def test_core_14_same_ref_may_be_in_the_list_twice():
    ref = ray.put("twice")
    assert ray.get([ref, ref]) == ["twice", "twice"]


@pytest.mark.parametrize("make", [lambda ref: (ref,), lambda ref: {ref: 1}, lambda ref: 5, lambda ref: None])
def test_core_14_get_refuses_what_is_neither_ref_nor_list(make):
    with pytest.raises(ValueError):
        ray.get(make(ray.put(1)))


def test_core_14_get_refuses_tuple_and_says_so():
    with pytest.raises(ValueError, match="tuple"):
        ray.get((ray.put(1),))


def test_core_14_get_refuses_a_string():
    with pytest.raises(ValueError, match="str"):
        ray.get("ref")


def test_core_14_get_refuses_a_generator():
    with pytest.raises(ValueError):
        ray.get(ray.put(i) for i in range(2))


def test_core_14_get_refuses_a_set():
    with pytest.raises(ValueError):
        ray.get({ray.put(1)})


@pytest.mark.parametrize("stray", [5, None, "text"])
def test_core_14_get_refuses_a_list_with_something_else_in_it(stray):
    with pytest.raises(TypeError):
        ray.get([ray.put(1), stray])


def test_core_14_get_refuses_a_nested_list():
    with pytest.raises(TypeError):
        ray.get([[ray.put(1)]])


def test_core_14_get_refuses_a_remote_function():
    with pytest.raises(ValueError):
        ray.get(echo)


def test_core_14_get_refuses_an_actor_handle():
    @ray.remote
    class Actor:
        pass

    with pytest.raises(ValueError):
        ray.get(Actor.remote())


def test_core_14_timeout_raises_get_timeout_error(gate):
    release = gate("release")
    ref = held.remote(release)
    with pytest.raises(GetTimeoutError):
        ray.get(ref, timeout=0.05)
    release.open()
    assert ray.get(ref) == "released"


def test_core_14_timeout_is_the_builtin_timeout_error_too(gate):
    release = gate("release")
    ref = held.remote(release)
    with pytest.raises(TimeoutError):
        ray.get(ref, timeout=0.01)
    release.open()
    ray.get(ref)


def test_core_14_timeout_zero_of_a_pending_ref_raises(gate):
    release = gate("release")
    ref = held.remote(release)
    with pytest.raises(GetTimeoutError):
        ray.get(ref, timeout=0)
    release.open()
    ray.get(ref)


def test_core_14_timeout_zero_of_a_ready_ref_gives_its_value():
    ref = ray.put("ready")
    assert ray.get(ref, timeout=0) == "ready"


def test_core_14_timeout_of_a_list_needs_all_of_it(gate):
    release = gate("release")
    pending = held.remote(release)
    with pytest.raises(GetTimeoutError):
        ray.get([ray.put(1), pending], timeout=0.05)
    release.open()
    ray.get(pending)


def test_core_14_timeout_may_be_a_float_or_an_int():
    assert ray.get(echo.remote(1), timeout=30) == 1
    assert ray.get(echo.remote(1), timeout=30.0) == 1


def test_core_14_timeout_none_waits():
    assert ray.get(echo.remote(1), timeout=None) == 1


def test_core_14_timeout_must_be_given_by_name():
    with pytest.raises(TypeError):
        ray.get(ray.put(1), 5)


def test_core_14_empty_list_with_timeout_zero():
    assert ray.get([], timeout=0) == []


def test_get_twice_gives_equal_values():
    ref = echo.remote([1, 2])
    assert ray.get(ref) == ray.get(ref) == [1, 2]


def test_changing_a_fetched_value_does_not_change_the_stored_one():
    ref = ray.put([1, 2])
    ray.get(ref).append(3)
    assert ray.get(ref) == [1, 2]


def test_get_of_a_mixed_list_of_put_and_task_refs():
    assert ray.get([ray.put(1), echo.remote(2), ray.put(3)]) == [1, 2, 3]


def test_get_inside_a_task_of_a_ref_passed_in_a_list():
    @ray.remote
    def fetch(refs):
        return ray.get(refs)

    assert ray.get(fetch.remote([ray.put(1), echo.remote(2)])) == [1, 2]


def test_get_of_many_refs_at_once():
    refs = [ray.put(i) for i in range(500)]
    assert ray.get(refs) == list(range(500))


def test_get_from_several_threads_at_once():
    results = {}

    def fetch(i):
        results[i] = ray.get(echo.remote(i))

    threads = [threading.Thread(target=fetch, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == {i: i for i in range(8)}


def test_two_threads_may_get_the_same_pending_ref(gate):
    release, results = gate("release"), []
    ref = held.remote(release)
    threads = [threading.Thread(target=lambda: results.append(ray.get(ref))) for _ in range(2)]
    for thread in threads:
        thread.start()
    release.open()
    for thread in threads:
        thread.join(30)
    assert results == ["released", "released"]


def test_get_in_a_thread_does_not_block_another_thread(gate):
    release, results = gate("release"), []
    ref = held.remote(release)
    waiter = threading.Thread(target=lambda: results.append(ray.get(ref)))
    waiter.start()
    assert ray.get(echo.remote("meanwhile")) == "meanwhile"
    assert not results
    release.open()
    wait_for(lambda: results == ["released"], what="the waiting thread to get its value")
    waiter.join(30)


def test_future_of_a_ref_resolves_to_its_value():
    assert echo.remote("f").future().result(timeout=30) == "f"


def test_future_of_a_failed_task_raises():
    @ray.remote
    def fail():
        raise KeyError("k")

    with pytest.raises(KeyError):
        fail.remote().future().result(timeout=30)
