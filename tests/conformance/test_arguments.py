"""Arguments of tasks: binding at the call, refs that are resolved, refs that stay refs, large values."""

from __future__ import annotations

import numpy as np
import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def spread(a, b=2, *rest, key, other="o", **more):
    return a, b, rest, key, other, more


@ray.remote
def echo(value):
    return value


@ray.remote
def add(a, b):
    return a + b


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((1,), {"key": 3}, (1, 2, (), 3, "o", {})),
        ((1, 5), {"key": 3}, (1, 5, (), 3, "o", {})),
        ((1, 5, 6, 7), {"key": 3}, (1, 5, (6, 7), 3, "o", {})),
        ((), {"a": 1, "key": 3}, (1, 2, (), 3, "o", {})),
        ((), {"key": 3, "b": 9, "a": 1}, (1, 9, (), 3, "o", {})),
        ((1,), {"key": 3, "other": "p"}, (1, 2, (), 3, "p", {})),
        ((1,), {"key": 3, "extra": 4, "more_still": 5}, (1, 2, (), 3, "o", {"extra": 4, "more_still": 5})),
        ((1,), {"key": 3, "self": 4}, (1, 2, (), 3, "o", {"self": 4})),
    ],
    ids=[
        "positional",
        "default-overridden",
        "varargs",
        "by-name",
        "by-name-any-order",
        "keyword-only",
        "varkw",
        "varkw-self",
    ],
)
def test_arguments_bind_as_in_a_plain_call(args, kwargs, expected):
    assert ray.get(spread.remote(*args, **kwargs)) == expected


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((1,), {}),
        ((1, 2, 3), {}),
        ((1,), {"c": 2}),
        ((1, 2), {"a": 3}),
        ((1, 2), {"extra": 3}),
    ],
    ids=["none", "one-missing", "too-many", "unknown-keyword-and-missing", "given-twice", "unknown-keyword"],
)
def test_core_2_bad_arguments_are_refused_at_the_call(args, kwargs):
    with pytest.raises(TypeError):
        add.remote(*args, **kwargs)


def test_core_2_missing_keyword_only_argument_is_refused_at_the_call():
    with pytest.raises(TypeError, match="key"):
        spread.remote(1)


def test_core_2_missing_argument_is_named():
    with pytest.raises(TypeError, match="'b'"):
        add.remote(1)


def test_core_2_unknown_keyword_is_named():
    with pytest.raises(TypeError, match="colour"):
        add.remote(1, 2, colour=3)


@pytest.mark.chosen_difference("Ray's message does not name the function", id="D-messages")
def test_core_2_refused_call_names_the_function():
    with pytest.raises(TypeError, match="add"):
        add.remote(1, 2, 3)


def test_core_2_bad_arguments_are_refused_through_options_too():
    with pytest.raises(TypeError):
        add.options(num_cpus=1).remote(1)


def test_core_2_nothing_runs_when_the_call_is_refused(tally):
    ran = tally("ran")

    @ray.remote
    def work(x):
        ran.add()

    with pytest.raises(TypeError):
        work.remote()
    ray.get(work.remote(1))
    assert ran.count() == 1


def test_core_3_positional_ref_is_resolved():
    assert ray.get(add.remote(ray.put(1), 2)) == 3


def test_core_3_keyword_ref_is_resolved():
    assert ray.get(add.remote(a=1, b=ray.put(2))) == 3


def test_core_3_ref_in_varargs_is_resolved():
    assert ray.get(spread.remote(1, 2, ray.put("v"), key=0))[2] == ("v",)


def test_core_3_ref_in_varkw_is_resolved():
    assert ray.get(spread.remote(1, key=0, extra=ray.put("v")))[5] == {"extra": "v"}


def test_core_3_ref_of_a_pending_task_is_resolved():
    assert ray.get(add.remote(add.remote(1, 2), add.remote(3, 4))) == 10


def test_core_3_same_ref_twice_is_resolved_twice():
    ref = ray.put(4)
    assert ray.get(add.remote(ref, ref)) == 8


@pytest.mark.parametrize(
    "wrap",
    [
        lambda ref: [ref],
        lambda ref: (ref,),
        lambda ref: {"k": ref},
        lambda ref: [[ref]],
    ],
    ids=["list", "tuple", "dict", "nested"],
)
def test_core_3_ref_inside_a_container_stays_a_ref(wrap):
    @ray.remote
    def inner(container):
        while not isinstance(container, ray.ObjectRef):
            container = next(iter(container.values() if isinstance(container, dict) else container))
        return ray.get(container)

    assert ray.get(inner.remote(wrap(ray.put("inside")))) == "inside"


def test_core_3_ref_inside_an_object_stays_a_ref():
    class Box:
        def __init__(self, ref):
            self.ref = ref

    @ray.remote
    def unpack(box):
        return type(box.ref).__name__, ray.get(box.ref)

    assert ray.get(unpack.remote(Box(ray.put(3)))) == ("ObjectRef", 3)


def test_core_3_only_one_level_is_resolved():
    inner = ray.put("deep")
    outer = ray.put([inner])

    @ray.remote
    def look(values):
        return isinstance(values[0], ray.ObjectRef), ray.get(values[0])

    assert ray.get(look.remote(outer)) == (True, "deep")


def test_core_3_ref_to_a_ref_in_a_list_returned_by_a_task():
    @ray.remote
    def make():
        return [ray.put("made")]

    assert ray.get(ray.get(make.remote())[0]) == "made"


def test_core_3_large_argument_is_passed_whole():
    array = np.arange(1_000_000)
    assert ray.get(ray.remote(lambda a: int(a.sum())).remote(array)) == int(array.sum())


def test_core_3_large_bytes_argument_is_passed_whole():
    payload = b"x" * (5 * 1024 * 1024)
    assert ray.get(ray.remote(lambda b: len(b)).remote(payload)) == len(payload)


def test_core_3_many_large_arguments_at_once():
    arrays = [np.full(100_000, i) for i in range(5)]

    @ray.remote
    def firsts(*values):
        return [int(value[0]) for value in values]

    assert ray.get(firsts.remote(*arrays)) == [0, 1, 2, 3, 4]


def test_core_3_one_stored_value_serves_many_tasks():
    ref = ray.put(np.ones(200_000))
    total = ray.remote(lambda a: float(a.sum()))
    assert ray.get([total.remote(ref) for _ in range(6)]) == [200_000.0] * 6


def test_argument_changed_by_the_task_is_unchanged_at_the_caller():
    @ray.remote
    def grow(values):
        values.append(4)
        return values

    mine = [1, 2, 3]
    assert ray.get(grow.remote(mine)) == [1, 2, 3, 4]
    assert mine == [1, 2, 3]


def test_argument_is_taken_when_the_task_is_submitted():
    values = [1]
    ref = echo.remote(values)
    values.append(2)
    assert ray.get(ref) == [1]


def test_default_argument_value_is_used_remotely():
    @ray.remote
    def scaled(x, factor=3):
        return x * factor

    assert ray.get(scaled.remote(2)) == 6


def test_none_is_a_value_like_any_other():
    assert ray.get(echo.remote(None)) is None
    assert ray.get(echo.remote(ray.put(None))) is None


def test_object_in_two_places_of_one_argument_stays_one_object():
    class Pair:
        def __init__(self, left, right):
            self.left, self.right = left, right

    @ray.remote
    def same(pair):
        return pair.left is pair.right

    shared = {}
    assert ray.get(same.remote(Pair(shared, shared)))


def test_many_arguments():
    @ray.remote
    def count(*args, **kwargs):
        return len(args), len(kwargs)

    assert ray.get(count.remote(*range(300), **{f"k{i}": i for i in range(100)})) == (300, 100)


def test_argument_named_like_machinery_is_passed_through():
    @ray.remote
    def odd(args, kwargs, name=None, options=None):
        return args, kwargs, name, options

    assert ray.get(odd.remote(args=1, kwargs=2, name="n", options="o")) == (1, 2, "n", "o")


def test_positional_only_parameter():
    @ray.remote
    def first(x, /):
        return x

    assert ray.get(first.remote(3)) == 3
    with pytest.raises(TypeError):
        first.remote(x=3)


def test_core_4_failed_argument_fails_the_task_without_running_it(tally):
    ran = tally("ran")

    @ray.remote
    def fail():
        raise KeyError("first")

    @ray.remote
    def use(value):
        ran.add()

    with pytest.raises(KeyError):
        ray.get(use.remote(fail.remote()))
    assert ran.count() == 0


def test_core_4_failure_passes_through_a_chain_of_tasks():
    @ray.remote
    def fail():
        raise LookupError("at the root")

    ref = fail.remote()
    for _ in range(4):
        ref = echo.remote(ref)
    with pytest.raises(LookupError, match="at the root"):
        ray.get(ref)


def test_core_4_failed_argument_in_a_list_fails_only_where_it_is_fetched():
    @ray.remote
    def fail():
        raise KeyError("inside")

    @ray.remote
    def count(refs):
        return len(refs)

    assert ray.get(count.remote([fail.remote()])) == 1
