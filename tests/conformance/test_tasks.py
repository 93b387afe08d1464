"""Tasks: declaring, calling and configuring remote functions, and how many results they return."""

from __future__ import annotations

import os

import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def double(x):
    return 2 * x


def test_core_1_remote_function_refuses_a_direct_call_and_names_remote():
    with pytest.raises(TypeError, match=r"\.remote\("):
        double(1)


def test_core_1_refused_direct_call_names_the_function():
    with pytest.raises(TypeError, match="double"):
        double(1)


def test_task_returns_a_ref_whose_value_is_the_result():
    ref = double.remote(21)
    assert isinstance(ref, ray.ObjectRef)
    assert ray.get(ref) == 42


def test_task_runs_in_another_process():
    @ray.remote
    def pid():
        return os.getpid()

    assert ray.get(pid.remote()) != os.getpid()


def test_bare_decorator_and_decorator_with_options_make_the_same_kind_of_thing():
    @ray.remote
    def bare():
        return "bare"

    @ray.remote(num_cpus=1)
    def configured():
        return "configured"

    assert type(bare) is type(configured)
    assert ray.get([bare.remote(), configured.remote()]) == ["bare", "configured"]


def test_remote_as_a_plain_call_on_a_function():
    def plain(x):
        return x + 1

    assert ray.get(ray.remote(plain).remote(1)) == 2


def test_remote_with_options_applied_to_a_function_in_two_calls():
    def pair():
        return 1, 2

    make_remote = ray.remote(num_returns=2)
    assert ray.get(make_remote(pair).remote()) == [1, 2]


def test_core_10_lambda_is_a_remote_function():
    assert ray.get(ray.remote(lambda x: x * 3).remote(5)) == 15


def test_core_10_nested_function_is_a_remote_function():
    offset = 7

    @ray.remote
    def shifted(x):
        return x + offset

    assert ray.get(shifted.remote(1)) == 8


def test_builtin_callable_wrapped_in_a_lambda():
    total = ray.remote(lambda values: sum(values))
    assert ray.get(total.remote([1, 2, 3])) == 6


def test_task_named_in_options_knows_its_name():
    @ray.remote
    def my_name():
        return ray.get_runtime_context().get_task_name()

    assert ray.get(my_name.options(name="the-first").remote()) == "the-first"


def test_options_leave_the_original_function_as_it_was():
    @ray.remote
    def three():
        return 1, 2, 3

    assert len(three.options(num_returns=3).remote()) == 3
    assert isinstance(three.remote(), ray.ObjectRef)


def test_options_can_be_made_once_and_called_often():
    @ray.remote
    def pair(x):
        return x, -x

    split = pair.options(num_returns=2)
    assert ray.get(split.remote(1)) == [1, -1]
    assert ray.get(split.remote(2)) == [2, -2]


def test_options_override_the_decorator():
    @ray.remote(num_returns=2)
    def values():
        return 1, 2

    assert ray.get(values.options(num_returns=1).remote()) == (1, 2)


def test_many_tasks_each_return_their_own_value():
    assert ray.get([double.remote(i) for i in range(200)]) == [2 * i for i in range(200)]


def test_task_without_return_gives_none():
    @ray.remote
    def nothing():
        pass

    assert ray.get(nothing.remote()) is None


def test_remote_function_can_be_submitted_from_a_task():
    @ray.remote
    def relay(x):
        return ray.get(double.remote(x))

    assert ray.get(relay.remote(4)) == 8


def test_remote_function_can_be_passed_as_an_argument():
    @ray.remote
    def call(function, x):
        return ray.get(function.remote(x))

    assert ray.get(call.remote(double, 5)) == 10


def test_remote_function_can_be_redefined_under_the_same_name():
    @ray.remote
    def version():
        return 1

    first = version

    @ray.remote
    def version():
        return 2

    assert ray.get([first.remote(), version.remote()]) == [1, 2]


@pytest.mark.parametrize("count", [2, 3, 10])
def test_core_6_num_returns_gives_a_list_of_that_many_refs(count):
    @ray.remote(num_returns=count)
    def values():
        return tuple(range(count))

    refs = values.remote()
    assert isinstance(refs, list)
    assert ray.get(refs) == list(range(count))


def test_core_6_num_returns_one_keeps_a_tuple_whole():
    @ray.remote(num_returns=1)
    def pair():
        return 1, 2

    assert ray.get(pair.remote()) == (1, 2)


def test_core_6_num_returns_zero_gives_none_and_the_task_still_runs(gate):
    done = gate("done")

    @ray.remote(num_returns=0)
    def side_effect():
        done.open()

    assert side_effect.remote() is None
    done.wait()


@pytest.mark.parametrize("container", [tuple, list])
def test_core_6_results_of_several_returns_may_be_any_sequence(container):
    @ray.remote(num_returns=2)
    def values():
        return container([1, 2])

    assert ray.get(values.remote()) == [1, 2]


@pytest.mark.parametrize("returned", [1, 3])
def test_core_6_wrong_number_of_results_is_an_error_on_every_ref(returned):
    @ray.remote(num_returns=2)
    def values():
        return tuple(range(returned))

    for ref in values.remote():
        with pytest.raises(ray.exceptions.RayTaskError) as caught:
            ray.get(ref)
        assert isinstance(caught.value, ValueError)


def test_core_6_exception_with_several_returns_is_raised_by_every_ref():
    @ray.remote(num_returns=2)
    def fail():
        raise KeyError("lost")

    for ref in fail.remote():
        with pytest.raises(KeyError):
            ray.get(ref)


def test_num_returns_in_options():
    @ray.remote
    def pair():
        return "a", "b"

    first, second = pair.options(num_returns=2).remote()
    assert ray.get(second) == "b"
    assert ray.get(first) == "a"


def test_one_of_several_results_can_be_an_argument_of_another_task():
    @ray.remote(num_returns=2)
    def pair():
        return 10, 20

    _, second = pair.remote()
    assert ray.get(double.remote(second)) == 40


def test_local_variables_do_not_leak_from_one_call_to_the_next():
    @ray.remote
    def collect(x, seen=None):
        seen = [] if seen is None else seen
        seen.append(x)
        return seen

    assert ray.get([collect.remote(1), collect.remote(2)]) == [[1], [2]]


def test_max_calls_replaces_the_worker_after_that_many_calls():
    @ray.remote(max_calls=1)
    def pid():
        return os.getpid()

    first = ray.get(pid.remote())
    assert ray.get(pid.remote()) != first


def test_env_vars_of_a_task_are_seen_by_it_alone():
    @ray.remote
    def read():
        return os.environ.get("SKATE_CONFORMANCE_COLOUR")

    coloured = read.options(runtime_env={"env_vars": {"SKATE_CONFORMANCE_COLOUR": "blue"}})
    assert ray.get(coloured.remote()) == "blue"
    assert ray.get(read.remote()) is None


def test_bound_function_runs_when_executed():
    node = double.bind(4)
    assert ray.get(node.execute()) == 8


def test_runtime_context_of_a_task_has_ids_of_the_right_length():
    @ray.remote
    def ids():
        context = ray.get_runtime_context()
        return context.get_task_id(), context.get_job_id(), context.get_node_id(), context.get_worker_id()

    lengths = [len(value) for value in ray.get(ids.remote())]
    assert lengths == [48, 8, 56, 56]


def test_runtime_context_of_a_task_has_no_actor():
    @ray.remote
    def actor():
        return ray.get_runtime_context().get_actor_id()

    assert ray.get(actor.remote()) is None


def test_runtime_context_names_the_function_of_the_task():
    @ray.remote
    def who():
        return ray.get_runtime_context().get_task_function_name()

    assert ray.get(who.remote()).endswith("who")


def test_each_call_has_its_own_task_id():
    @ray.remote
    def task_id():
        return ray.get_runtime_context().get_task_id()

    assert len(set(ray.get([task_id.remote() for _ in range(10)]))) == 10
