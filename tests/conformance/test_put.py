"""``put``: accepted and rejected values."""

from __future__ import annotations

import os
import socket
import sys
import threading

import numpy as np
import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")


def test_put_gives_an_object_ref():
    assert isinstance(ray.put(1), ray.ObjectRef)


def test_core_16_put_of_a_ref_is_refused():
    with pytest.raises(TypeError):
        ray.put(ray.put(1))


def test_core_16_put_of_a_list_with_a_ref_keeps_it_a_ref():
    inner = ray.put("inner")
    (found,) = ray.get(ray.put([inner]))
    assert isinstance(found, ray.ObjectRef)
    assert ray.get(found) == "inner"


def test_put_twice_gives_two_refs():
    assert ray.put("same") != ray.put("same")


def test_put_takes_the_value_as_it_is_now():
    values = [1]
    ref = ray.put(values)
    values.append(2)
    assert ray.get(ref) == [1]


def test_put_of_none():
    assert ray.get(ray.put(None)) is None


@pytest.mark.parametrize("megabytes", [1, 20])
def test_put_of_large_bytes(megabytes):
    payload = bytes(megabytes * 1024 * 1024)
    assert ray.get(ray.put(payload)) == payload


def test_put_of_an_array_larger_than_the_inline_limit():
    array = np.arange(500_000, dtype=np.float64)
    assert np.array_equal(ray.get(ray.put(array)), array)


def test_put_inside_a_task_outlives_the_task():
    @ray.remote
    def make():
        return ray.put("made in a task")

    assert ray.get(ray.get(make.remote())) == "made in a task"


@pytest.mark.parametrize("size", [10, 200_000])
def test_put_inside_a_task_wrapped_in_a_list_outlives_the_task(size):
    @ray.remote
    def make():
        return [ray.put(np.ones(size))]

    (ref,) = ray.get(make.remote())
    assert ray.get(ref).sum() == size


@pytest.mark.chosen_difference("in Ray a value put by a worker is lost with that worker", id="D-put-survives")
def test_put_inside_a_task_outlives_the_worker():
    @ray.remote
    def make():
        return [ray.put("made"), ray.put(np.ones(200_000))], os.getpid()

    refs, maker = ray.get(make.remote())
    os.kill(maker, 9)
    small, large = ray.get(refs)
    assert small == "made"
    assert large.sum() == 200_000


@pytest.mark.parametrize(
    "make",
    [threading.Lock, socket.socket, lambda: (i for i in range(2)), threading.Thread, sys._getframe],
    ids=["lock", "socket", "generator", "thread", "frame"],
)
def test_core_7_put_of_what_cannot_be_pickled_is_a_type_error(make):
    value = make()
    with pytest.raises(TypeError):
        ray.put([value])
    if isinstance(value, socket.socket):
        value.close()


def test_core_7_put_names_the_type_that_cannot_be_pickled():
    with pytest.raises(TypeError, match="lock"):
        ray.put({"deep": [threading.Lock()]})


@pytest.mark.chosen_difference("Ray does not say where in the value it was found", id="D-messages")
def test_core_7_put_says_where_in_the_value_it_was_found():
    with pytest.raises(TypeError, match="guard"):
        ray.put({"config": {"guard": threading.Lock()}})


def test_store_works_on_after_a_refused_put():
    with pytest.raises(TypeError):
        ray.put(i for i in range(2))
    assert ray.get(ray.put("fine")) == "fine"


def test_core_39_many_large_puts_that_are_dropped_do_not_fill_the_store():
    for i in range(50):
        ref = ray.put(np.full(1_000_000, i))
        assert ray.get(ref)[0] == i
        del ref


def test_core_39_more_than_the_store_holds_is_spilled_and_comes_back(fresh):
    fresh(num_cpus=1, object_store_memory=100 * 1024 * 1024)
    refs = [ray.put(np.full(2_500_000, i, dtype=np.float64)) for i in range(8)]
    for i, ref in enumerate(refs):
        array = ray.get(ref)
        assert array[0] == array[-1] == i
        del array


def test_core_39_one_value_larger_than_the_store_works(fresh):
    fresh(num_cpus=1, object_store_memory=80 * 1024 * 1024)
    ref = ray.put(np.ones(12_500_000))
    assert ray.get(ref).sum() == 12_500_000
