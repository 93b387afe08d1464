"""Generators with a fixed ``num_returns`` and with ``num_returns="dynamic"``."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
import ray
from ray.exceptions import RayTaskError
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("cluster")


def outcome(ref):
    """The value of a ref, or the class of the error it raises."""
    try:
        return ray.get(ref, timeout=60)
    except Exception as error:  # what it is is the outcome
        return type(error.cause) if isinstance(error, RayTaskError) else type(error)


@ray.remote
def yields(n, then=None):
    for i in range(n):  # noqa: UP028
        yield i
    if then is not None:
        raise then


def dynamic(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function.options(num_returns="dynamic")


@pytest.mark.parametrize(("requested", "made"), [(1, 1), (1, 3), (2, 3), (2, 2), (3, 10)])
def test_values_beyond_num_returns_are_passed_over(requested, made):
    refs = yields.options(num_returns=requested).remote(made)
    refs = [refs] if requested == 1 else refs
    assert ray.get(refs) == list(range(requested))


@pytest.mark.parametrize(("requested", "made"), [(2, 0), (2, 1), (3, 2), (5, 2), (1, 0)])
def test_values_that_were_made_are_kept_if_there_are_too_few(requested, made):
    refs = yields.options(num_returns=requested).remote(made)
    refs = [refs] if requested == 1 else refs
    assert [outcome(ref) for ref in refs] == [*range(made), *[ValueError] * (requested - made)]


def test_too_few_values_are_counted_in_the_error():
    refs = yields.options(num_returns=3).remote(2)
    with pytest.raises(ValueError, match="Task returned 2 objects, but num_returns=3"):
        ray.get(refs[2])


@pytest.mark.parametrize(("requested", "made"), [(2, 0), (2, 1), (3, 1), (3, 2), (4, 1)])
def test_values_before_an_error_are_kept(requested, made):
    refs = yields.options(num_returns=requested).remote(made, KeyError("late"))
    assert [outcome(ref) for ref in refs] == [*range(made), *[KeyError] * (requested - made)]


def test_error_behind_the_last_value_is_nobodys():
    refs = yields.options(num_returns=2).remote(2, KeyError("late"))
    assert [outcome(ref) for ref in refs] == [0, 1]


def test_large_values_before_an_error_are_kept():
    @ray.remote(num_returns=3)
    def arrays():
        yield np.full(100_000, 1)
        yield np.full(100_000, 2)
        raise ValueError

    first, second, third = arrays.remote()
    assert (ray.get(first)[0], ray.get(second)[-1]) == (1, 2)
    with pytest.raises(ValueError):
        ray.get(third)


def test_value_that_cannot_be_pickled_leaves_those_before_it():
    @ray.remote(num_returns=2)
    def mixed():
        yield 1
        yield (i for i in range(3))

    first, second = mixed.remote()
    assert ray.get(first) == 1
    with pytest.raises(TypeError):
        ray.get(second)


def test_code_behind_the_last_yield_runs(tally):
    ended = tally("ended")

    @ray.remote(num_returns=2)
    def two():
        yield 1
        yield 2
        ended.add()

    assert ray.get(two.remote()) == [1, 2]
    assert ended.count() == 1


def test_finally_of_a_generator_cut_short_runs(tally):
    ended = tally("ended")

    @ray.remote(num_returns=2)
    def three():
        try:
            yield 1
            yield 2
            yield 3
        finally:
            ended.add()

    assert ray.get(three.remote()) == [1, 2]
    wait_for(lambda: ended.count() == 1, what="the generator to be closed")


@pytest.mark.chosen_difference(
    "Ray does not try a generator with a fixed num_returns again", id="D-generator-retries"
)
def test_failed_generator_is_tried_again_from_its_beginning(tally):
    attempts = tally("attempts")

    @ray.remote(num_returns=3, max_retries=2, retry_exceptions=True)
    def flaky():
        yield "a"
        if attempts.add() < 2:
            raise OSError
        yield "b"
        yield "c"

    assert ray.get(flaky.remote()) == ["a", "b", "c"]


@pytest.mark.chosen_difference(
    "Ray does not try a generator with a fixed num_returns again", id="D-generator-retries"
)
def test_generator_keeps_its_values_after_the_last_retry(tally):
    attempts = tally("attempts")

    @ray.remote(num_returns=2, max_retries=1, retry_exceptions=[OSError])
    def failing():
        yield attempts.add()
        raise OSError

    first, second = failing.remote()
    assert outcome(second) is OSError
    assert ray.get(first) == attempts.count() == 2


def test_crashed_generator_has_no_values():
    @ray.remote(num_returns=2, max_retries=0)
    def crash():
        yield 1
        os._exit(1)

    for ref in crash.remote():
        assert outcome(ref) is ray.exceptions.WorkerCrashedError


def test_value_before_an_error_can_be_an_argument():
    @ray.remote
    def double(x):
        return 2 * x

    first, second = yields.options(num_returns=2).remote(1, ValueError("late"))
    assert ray.get(double.remote(first)) == 0
    with pytest.raises(ValueError, match="late"):
        ray.get(double.remote(second))


def test_method_that_yields_has_as_many_returns_as_asked():
    @ray.remote
    class Actor:
        @ray.method(num_returns=2)
        def two(self):
            yield 1
            yield 2

        @ray.method(num_returns=2)
        def one(self):
            yield 1
            raise KeyError

    actor = Actor.remote()
    assert ray.get(actor.two.remote()) == [1, 2]
    assert [outcome(ref) for ref in actor.one.remote()] == [1, KeyError]
    assert ray.get(actor.two.options(num_returns=1).remote()) == 1


def test_refs_inside_values_before_an_error_are_kept():
    @ray.remote(num_returns=2)
    def refs():
        yield [ray.put("inside")]
        raise ValueError

    first, _ = refs.remote()
    assert ray.get(ray.get(first)[0]) == "inside"


# ---------------------------------------------------------------- num_returns="dynamic"


@pytest.mark.parametrize("n", [0, 1, 5])
def test_dynamic_ref_is_a_generator_of_refs(n):
    ref = dynamic(yields).remote(n)
    assert isinstance(ref, ray.ObjectRef)
    assert [ray.get(each) for each in ray.get(ref)] == list(range(n))


def test_dynamic_generator_has_a_length():
    assert len(ray.get(dynamic(yields).remote(4))) == 4


@pytest.mark.parametrize("n", [0, 1, 3])
def test_dynamic_generator_ends_with_its_error(n):
    refs = list(ray.get(dynamic(yields).remote(n, ValueError("late"))))
    assert [outcome(ref) for ref in refs] == [*range(n), ValueError]


def test_dynamic_generator_can_be_got_twice():
    ref = dynamic(yields).remote(2)
    for _ in range(2):
        assert [ray.get(each) for each in ray.get(ref)] == [0, 1]


def test_dynamic_generator_can_be_an_argument():
    @ray.remote
    def total(generator):
        return sum(ray.get(each) for each in generator)

    assert ray.get(total.remote(dynamic(yields).remote(4))) == 6


def test_dynamic_generator_of_large_values():
    @ray.remote
    def arrays():
        for i in range(3):
            yield np.full(100_000, i)

    assert [int(ray.get(ref)[0]) for ref in ray.get(dynamic(arrays).remote())] == [0, 1, 2]


def test_dynamic_generator_whose_worker_crashed_raises():
    @ray.remote(max_retries=0)
    def crash():
        yield 1
        os._exit(1)

    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(dynamic(crash).remote())


def test_dynamic_ref_of_a_task_that_runs_can_be_passed_on(gate):
    release = gate("release")

    @ray.remote
    def held(release):
        release.wait()
        yield 1
        yield 2

    @ray.remote
    def total(box):
        return sum(ray.get(each) for each in ray.get(box[0]))

    ref = dynamic(held).remote(release)
    sum_of = total.remote([ref])
    release.open()
    assert ray.get(sum_of, timeout=60) == 3


def test_dynamic_method_of_an_actor():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        @ray.remote
        class Actor:
            @ray.method(num_returns="dynamic")
            def count(self, n):
                for i in range(n):  # noqa: UP028
                    yield i

    actor = Actor.remote()
    assert [ray.get(each) for each in ray.get(actor.count.remote(3))] == [0, 1, 2]


def test_dynamic_needs_a_generator_function():
    @ray.remote
    def plain():
        return [1]

    with pytest.raises(ValueError, match="generator function"):
        dynamic(plain)


@pytest.mark.parametrize("limit", [-2, -1, 1, 3, None])
def test_backpressure_that_is_allowed(limit):
    assert [ray.get(ref) for ref in yields.options(_generator_backpressure_num_objects=limit).remote(4)] == [
        0, 1, 2, 3,
    ]  # fmt: skip


def test_backpressure_of_nothing_is_refused():
    with pytest.raises(ValueError, match="_generator_backpressure_num_objects=0 is not allowed"):
        yields.options(_generator_backpressure_num_objects=0)


@pytest.mark.parametrize("limit", ["2", 1.5])
def test_backpressure_must_be_a_whole_number(limit):
    with pytest.raises(TypeError):
        yields.options(_generator_backpressure_num_objects=limit)


# ---------------------------------------------------------------- streams that nobody reads


def test_get_of_a_stream_is_the_stream():
    stream = yields.remote(1)
    assert ray.get(stream) is stream
    assert [ray.get(ref) for ref in stream] == [0]


@pytest.mark.parametrize("limit", [1, 4])
@pytest.mark.parametrize("taken", [0, 2])
def test_abandoned_stream_with_backpressure_runs_to_its_end(tally, limit, taken):
    made, ended = tally("made"), tally("ended")

    @ray.remote(_generator_backpressure_num_objects=limit)
    def many():
        try:
            for i in range(12):
                made.add()
                yield i
        finally:
            ended.add()

    stream = many.remote()
    for _ in range(taken):
        ray.get(next(stream))
    del stream
    wait_for(lambda: ended.count() == 1, what="the generator to end")
    assert made.count() == 12


def test_abandoned_streams_give_their_cpus_back():
    @ray.remote(_generator_backpressure_num_objects=2)
    def many():
        for i in range(20):  # noqa: UP028
            yield i

    for _ in range(2):
        stream = many.remote()
        next(stream)
        del stream
    assert ray.get(yields.options(num_cpus=2, num_returns=1).remote(1), timeout=60) == 0


def test_stream_abandoned_by_a_loop_that_breaks_goes_on(tally):
    ended = tally("ended")

    @ray.remote(_generator_backpressure_num_objects=1)
    def many():
        yield from (i for i in range(10))
        ended.add()

    for ref in many.remote():
        assert ray.get(ref) == 0
        break
    wait_for(lambda: ended.count() == 1, what="the generator to end")


def test_completed_ref_outlives_its_stream():
    @ray.remote(_generator_backpressure_num_objects=1)
    def many():
        for i in range(5):  # noqa: UP028
            yield i

    stream = many.remote()
    done = stream.completed()
    del stream
    assert ray.wait([done], timeout=60) == ([done], [])
