"""``wait``: the split into ready and rest, order, timeouts, and refused arguments."""

from __future__ import annotations

import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def echo(value):
    return value


@ray.remote(num_cpus=0)
def held(gate):
    gate.wait()
    return "released"


@pytest.fixture
def pending(gate):
    """A ref that stays pending until the test ends."""
    release = gate("release-pending")
    ref = held.remote(release)
    yield ref
    release.open()
    ray.get(ref)


def test_core_17_wait_splits_into_ready_and_rest(pending):
    done = ray.put(1)
    assert ray.wait([pending, done]) == ([done], [pending])


def test_core_17_wait_returns_two_lists():
    ready, rest = ray.wait([ray.put(1)])
    assert isinstance(ready, list)
    assert isinstance(rest, list)
    assert rest == []


def test_core_17_wait_returns_one_ready_ref_by_default():
    refs = [ray.put(i) for i in range(3)]
    ready, rest = ray.wait(refs)
    assert len(ready) == 1
    assert len(rest) == 2


def test_core_17_wait_never_returns_more_than_num_returns():
    refs = [ray.put(i) for i in range(5)]
    ready, rest = ray.wait(refs, num_returns=2)
    assert len(ready) == 2
    assert set(ready) | set(rest) == set(refs)


def test_core_17_wait_for_all():
    refs = [echo.remote(i) for i in range(10)]
    assert ray.wait(refs, num_returns=10) == (refs, [])


def test_core_17_ready_refs_are_in_input_order():
    refs = [echo.remote(i) for i in range(10)]
    ray.get(refs)
    assert ray.wait(refs[::-1], num_returns=10)[0] == refs[::-1]


def test_core_17_rest_is_in_input_order(gate):
    release = gate("release")
    waiting = [held.remote(release) for _ in range(3)]
    done = ray.put("done")
    assert ray.wait([waiting[2], done, waiting[0], waiting[1]])[1] == [waiting[2], waiting[0], waiting[1]]
    release.open()
    ray.get(waiting)


def test_core_17_timeout_gives_fewer_than_asked(pending):
    done = ray.put(1)
    assert ray.wait([done, pending], num_returns=2, timeout=0.05) == ([done], [pending])


def test_core_17_timeout_with_nothing_ready_gives_an_empty_list(pending):
    assert ray.wait([pending], timeout=0.02) == ([], [pending])


def test_core_17_timeout_zero_polls(pending):
    done = ray.put(1)
    assert ray.wait([pending], timeout=0) == ([], [pending])
    assert ray.wait([done], timeout=0) == ([done], [])


def test_core_17_timeout_may_be_a_float():
    ref = ray.put(1)
    assert ray.wait([ref], timeout=1.5) == ([ref], [])


def test_core_17_failed_task_is_ready():
    @ray.remote
    def fail():
        raise KeyError

    ref = fail.remote()
    assert ray.wait([ref], timeout=30) == ([ref], [])


def test_core_17_wait_does_not_raise_the_error_of_a_failed_task():
    @ray.remote
    def fail():
        raise KeyError("k")

    (ref,), _ = ray.wait([fail.remote()])
    with pytest.raises(KeyError):
        ray.get(ref)


def test_core_17_wait_on_an_empty_list():
    assert ray.wait([]) == ([], [])


def test_core_17_single_ref_is_refused():
    with pytest.raises(TypeError, match="list"):
        ray.wait(ray.put(1))


@pytest.mark.parametrize("make", [lambda ref: (ref,), lambda ref: {ref}, lambda ref: 7, lambda ref: None])
def test_core_17_what_is_no_list_is_refused(make):
    with pytest.raises(TypeError):
        ray.wait(make(ray.put(1)))


def test_core_17_list_with_something_else_in_it_is_refused():
    with pytest.raises(TypeError):
        ray.wait([ray.put(1), 5])


def test_core_17_duplicates_are_refused():
    ref = ray.put(1)
    with pytest.raises(ValueError, match="unique"):
        ray.wait([ref, ref])


@pytest.mark.parametrize("count", [0, -1, 3])
def test_core_17_num_returns_out_of_range_is_refused(count):
    with pytest.raises(ValueError):
        ray.wait([ray.put(1), ray.put(2)], num_returns=count)


def test_core_17_negative_timeout_is_refused():
    with pytest.raises(ValueError):
        ray.wait([ray.put(1)], timeout=-1)


def test_core_17_num_returns_must_be_given_by_name():
    with pytest.raises(TypeError):
        ray.wait([ray.put(1)], 1)


def test_core_17_wait_inside_a_task():
    @ray.remote
    def first(refs):
        ready, rest = ray.wait(refs, num_returns=len(refs))
        return len(ready), len(rest)

    assert ray.get(first.remote([ray.put(1), echo.remote(2)])) == (2, 0)


def test_core_17_wait_loop_sees_every_ref_once():
    rest = [echo.remote(i) for i in range(20)]
    seen = []
    while rest:
        ready, rest = ray.wait(rest)
        seen += ray.get(ready)
    assert sorted(seen) == list(range(20))


def test_core_17_returned_refs_are_equal_to_the_ones_given():
    ref = ray.put("v")
    ((same,), _) = ray.wait([ref])
    assert same == ref
    assert ray.get(same) == "v"


def test_core_17_fetch_local_false_still_tells_ready_from_rest(pending):
    done = ray.put(1)
    assert ray.wait([done, pending], fetch_local=False) == ([done], [pending])


def test_core_17_first_to_finish_wins(gate):
    slow, fast = gate("slow"), gate("fast")
    slow_ref, fast_ref = held.remote(slow), held.remote(fast)
    fast.open()
    assert ray.wait([slow_ref, fast_ref]) == ([fast_ref], [slow_ref])
    slow.open()
    ray.get(slow_ref)
