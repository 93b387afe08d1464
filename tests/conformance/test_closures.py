"""Captured values of remote functions, and values that cannot be captured."""

from __future__ import annotations

import functools
import sys
import threading

import numpy as np
import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")

number = 1
settings = {"mode": "at first"}


@ray.remote
def read_number():
    return number


@ray.remote
def read_settings():
    return settings["mode"]


def plain_helper(x):
    return x + 100


class Point:
    """At module level: pickled by reference to this module."""

    scale = 2

    def __init__(self, x):
        self.x = x

    def scaled(self):
        return self.x * self.scale


def test_core_9_local_variable_is_captured():
    local = [1, 2]
    assert ray.get(ray.remote(lambda: local).remote()) == [1, 2]


def test_core_9_captured_value_is_taken_at_the_first_submit():
    state = {"v": 1}

    @ray.remote
    def read():
        return state["v"]

    assert ray.get(read.remote()) == 1
    state["v"] = 2
    assert ray.get(read.remote()) == 1


def test_core_9_change_before_the_first_submit_is_seen():
    state = {"v": 1}

    @ray.remote
    def read():
        return state["v"]

    state["v"] = 2
    assert ray.get(read.remote()) == 2


def test_core_9_module_global_is_captured_at_the_first_submit(monkeypatch):
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "number", 2)
    assert ray.get(read_number.remote()) == 2
    monkeypatch.setattr(module, "number", 3)
    assert ray.get(read_number.remote()) == 2


def test_core_9_global_changed_by_a_task_is_unchanged_here():
    @ray.remote
    def change():
        settings["mode"] = "changed remotely"
        return settings["mode"]

    assert ray.get(change.remote()) == "changed remotely"
    assert settings["mode"] == "at first"


def test_core_9_global_changed_in_one_function_is_not_seen_by_another():
    @ray.remote
    def change():
        settings["mode"] = "changed remotely"

    ray.get([change.remote() for _ in range(4)])
    assert ray.get([read_settings.remote() for _ in range(4)]) == ["at first"] * 4


def test_core_9_same_function_made_again_captures_anew():
    def make(value):
        return ray.remote(lambda: value)

    assert ray.get([make(i).remote() for i in range(3)]) == [0, 1, 2]


def test_core_10_closure_over_a_loop_variable():
    functions = [ray.remote(lambda i=i: i) for i in range(3)]
    assert ray.get([function.remote() for function in functions]) == [0, 1, 2]


def test_core_10_function_of_this_module_called_in_a_task():
    assert ray.get(ray.remote(lambda: plain_helper(1)).remote()) == 101


def test_core_10_module_imported_here_used_in_a_task():
    assert ray.get(ray.remote(lambda: float(np.sqrt(16))).remote()) == 4.0


def test_core_10_function_imported_inside_the_task():
    @ray.remote
    def inside():
        import json

        return json.dumps({"a": 1})

    assert ray.get(inside.remote()) == '{"a": 1}'


def test_core_10_class_of_this_module_used_in_a_task():
    assert ray.get(ray.remote(lambda: Point(3).scaled()).remote()) == 6


def test_core_10_instance_of_a_class_of_this_module_as_result():
    point = ray.get(ray.remote(lambda: Point(5)).remote())
    assert isinstance(point, Point)
    assert point.x == 5


def test_core_10_instance_of_a_local_class_as_result():
    class Local:
        def __init__(self, x):
            self.x = x

    value = ray.get(ray.remote(lambda: Local(5)).remote())
    assert value.x == 5
    assert type(value).__name__ == "Local"


def test_core_10_recursive_local_function():
    def factorial(n):
        return 1 if n == 0 else n * factorial(n - 1)

    assert ray.get(ray.remote(factorial).remote(5)) == 120


def test_core_10_partial_is_called_through_a_lambda():
    add_ten = functools.partial(plain_helper)
    assert ray.get(ray.remote(lambda x: add_ten(x)).remote(1)) == 101


def test_core_10_decorated_function():
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args):
            return 2 * function(*args)

        return wrapper

    @ray.remote
    @twice
    def value(x):
        return x

    assert ray.get(value.remote(3)) == 6


def test_core_10_captured_remote_function_is_submitted_from_the_task():
    inner = ray.remote(lambda x: x + 1)
    assert ray.get(ray.remote(lambda: ray.get(inner.remote(1))).remote()) == 2


def test_core_10_captured_ref_is_fetched_in_the_task():
    ref = ray.put("captured")
    assert ray.get(ray.remote(lambda: ray.get(ref)).remote()) == "captured"


def test_core_10_captured_actor_handle_is_called_in_the_task():
    @ray.remote
    class Actor:
        def ping(self):
            return "pong"

    actor = Actor.remote()
    assert ray.get(ray.remote(lambda: ray.get(actor.ping.remote())).remote()) == "pong"


def test_core_10_captured_array_arrives():
    array = np.arange(1000)
    assert ray.get(ray.remote(lambda: int(array.sum())).remote()) == 499_500


def test_core_10_function_as_an_argument():
    @ray.remote
    def apply(function, x):
        return function(x)

    assert ray.get(apply.remote(lambda x: x * 2, 4)) == 8


def test_core_10_function_as_a_result():
    @ray.remote
    def make_adder(n):
        return lambda x: x + n

    assert ray.get(make_adder.remote(3))(4) == 7


def test_core_10_class_as_an_argument():
    class Local:
        value = 9

    assert ray.get(ray.remote(lambda kind: kind().value).remote(Local)) == 9


@pytest.mark.parametrize("value", [5, "text", None, [1]])
def test_core_10_remote_refuses_what_is_neither_function_nor_class(value):
    with pytest.raises((AssertionError, TypeError)):
        ray.remote(value)


def test_core_10_remote_without_function_or_options_is_refused():
    with pytest.raises((AssertionError, TypeError)):
        ray.remote()


def test_core_10_positional_options_are_refused():
    with pytest.raises((AssertionError, TypeError)):
        ray.remote(1, 2)


def test_core_7_captured_lock_is_a_type_error_at_submit():
    guard = threading.Lock()

    @ray.remote
    def use():
        return guard

    with pytest.raises(TypeError, match="lock"):
        use.remote()


def test_core_7_refused_closure_names_the_function():
    guard = threading.Lock()

    @ray.remote
    def use_the_guard():
        return guard

    with pytest.raises(TypeError, match="use_the_guard"):
        use_the_guard.remote()


def test_core_7_refused_closure_names_the_variable():
    guard = threading.Lock()

    @ray.remote
    def use():
        return guard

    with pytest.raises(TypeError, match="guard"):
        use.remote()


def test_core_7_lock_as_argument_is_a_type_error_at_submit():
    with pytest.raises(TypeError, match="lock"):
        ray.remote(lambda x: x).remote(threading.Lock())


@pytest.mark.chosen_difference("Ray does not say which argument it was", id="D-messages")
def test_core_7_refused_argument_is_named():
    @ray.remote
    def use(settings):
        return settings

    with pytest.raises(TypeError, match="settings"):
        use.remote(threading.Lock())


def test_core_7_unpicklable_result_is_a_task_error_and_a_type_error():
    @ray.remote
    def give():
        return threading.Lock()

    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(give.remote())
    assert isinstance(caught.value, TypeError)
    assert "lock" in str(caught.value)


def test_core_7_unpicklable_result_fails_every_ref_of_the_task():
    @ray.remote(num_returns=2)
    def give():
        return 1, threading.Lock()

    _, second = give.remote()
    with pytest.raises(TypeError):
        ray.get(second)


def test_core_7_worker_goes_on_after_an_unpicklable_result():
    @ray.remote
    def give(bad):
        return threading.Lock() if bad else "fine"

    with pytest.raises(TypeError):
        ray.get(give.remote(True))
    assert ray.get(give.remote(False)) == "fine"


def test_core_8_capturing_more_than_95_mib_is_refused_and_names_put():
    payload = bytes(100 * 1024 * 1024)

    @ray.remote
    def use():
        return len(payload)

    with pytest.raises(ValueError, match=r"put\("):
        use.remote()


def test_core_8_actor_class_capturing_too_much_is_refused():
    payload = bytes(100 * 1024 * 1024)

    @ray.remote
    class Big:
        def size(self):
            return len(payload)

    with pytest.raises(ValueError):
        Big.remote()


def test_core_8_large_argument_is_no_problem():
    payload = bytes(120 * 1024 * 1024)
    assert ray.get(ray.remote(lambda p: len(p)).remote(payload)) == len(payload)
