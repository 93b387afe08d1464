"""Generators: tasks that yield, streamed one ref at a time."""

from __future__ import annotations

import asyncio
import os

import numpy as np
import pytest
import ray
from ray.exceptions import RayTaskError, WorkerCrashedError
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("cluster")


# Loops, not `yield from`: Ray sends into the generator, which a plain iterator below it cannot take.
@ray.remote
def count_to(n):
    for i in range(n):  # noqa: UP028
        yield i


@ray.remote
def fail_after(n):
    for i in range(n):  # noqa: UP028
        yield i
    raise KeyError("mid-stream")


def test_core_29_generator_function_returns_an_object_ref_generator():
    assert isinstance(count_to.remote(1), ray.ObjectRefGenerator)


def test_core_29_stream_yields_refs():
    for ref in count_to.remote(2):
        assert isinstance(ref, ray.ObjectRef)


@pytest.mark.chosen_difference("Ray sends into the generator and range has no send()", id="D-yield-from")
def test_core_29_yield_from_a_plain_iterator_streams():
    @ray.remote
    def delegate(n):
        yield from range(n)

    assert ray.get(list(delegate.remote(3))) == [0, 1, 2]


@pytest.mark.parametrize("n", [0, 1, 5, 100])
def test_core_29_stream_has_one_ref_for_each_value_in_order(n):
    assert [ray.get(ref) for ref in count_to.remote(n)] == list(range(n))


def test_core_29_next_takes_one_ref():
    stream = count_to.remote(2)
    assert ray.get(next(stream)) == 0
    assert ray.get(next(stream)) == 1
    with pytest.raises(StopIteration):
        next(stream)


def test_core_29_exhausted_stream_stays_exhausted():
    stream = count_to.remote(1)
    list(stream)
    assert list(stream) == []


def test_core_29_first_value_arrives_while_the_task_still_runs(gate):
    release = gate("release")

    @ray.remote
    def slow():
        yield "first"
        release.wait()
        yield "second"

    stream = slow.remote()
    assert ray.get(next(stream)) == "first"
    release.open()
    assert ray.get(next(stream)) == "second"


def test_core_29_refs_can_be_collected_first_and_fetched_together():
    assert ray.get(list(count_to.remote(5))) == [0, 1, 2, 3, 4]


def test_core_29_error_in_mid_stream_is_the_last_ref():
    refs = list(fail_after.remote(2))
    assert len(refs) == 3
    assert ray.get(refs[:2]) == [0, 1]
    with pytest.raises(KeyError):
        ray.get(refs[2])


def test_core_29_error_before_the_first_value_is_the_only_ref():
    (ref,) = fail_after.remote(0)
    with pytest.raises(KeyError, match="mid-stream"):
        ray.get(ref)


def test_core_29_error_in_mid_stream_is_a_ray_task_error():
    *_, last = fail_after.remote(1)
    with pytest.raises(ray.exceptions.RayTaskError):
        ray.get(last)


def test_core_29_stream_ends_after_its_error():
    stream = fail_after.remote(1)
    next(stream)
    next(stream)
    with pytest.raises(StopIteration):
        next(stream)


def test_core_29_large_values_stream():
    @ray.remote
    def arrays():
        for i in range(3):
            yield np.full(200_000, i)

    assert [int(ray.get(ref)[0]) for ref in arrays.remote()] == [0, 1, 2]


def test_core_29_streamed_refs_can_be_arguments_of_tasks():
    @ray.remote
    def square(x):
        return x * x

    assert ray.get([square.remote(ref) for ref in count_to.remote(4)]) == [0, 1, 4, 9]


def test_core_29_two_streams_at_once_do_not_mix():
    evens, odds = count_to.remote(3), count_to.remote(4)
    merged = [(ray.get(next(evens)), ray.get(next(odds))) for _ in range(3)]
    assert merged == [(0, 0), (1, 1), (2, 2)]
    assert ray.get(next(odds)) == 3


def test_core_29_num_returns_streaming_may_be_said_outright():
    @ray.remote(num_returns="streaming")
    def letters():
        yield "a"
        yield "b"

    assert [ray.get(ref) for ref in letters.remote()] == ["a", "b"]


def test_core_29_num_returns_streaming_in_options():
    @ray.remote
    def letters():
        yield "a"

    stream = letters.options(num_returns="streaming").remote()
    assert ray.get(next(stream)) == "a"


@pytest.mark.parametrize("n", [2, 4])
def test_core_29_fixed_num_returns_on_a_generator_gives_that_many_refs(n):
    refs = count_to.options(num_returns=n).remote(n)
    assert isinstance(refs, list)
    assert ray.get(refs) == list(range(n))


def test_core_29_generator_that_yields_too_few_for_num_returns_fails():
    refs = count_to.options(num_returns=3).remote(2)
    with pytest.raises(ray.exceptions.RayTaskError):
        ray.get(refs[2])


def test_core_29_completed_is_a_ref_that_is_ready_when_the_task_ended():
    stream = count_to.remote(3)
    ray.get(stream.completed(), timeout=30)
    assert [ray.get(ref) for ref in stream] == [0, 1, 2]


def test_core_29_completed_is_ready_after_an_error_too():
    stream = fail_after.remote(1)
    done = stream.completed()
    assert ray.wait([done], timeout=30) == ([done], [])
    list(stream)


@pytest.mark.parametrize("values", [0, 2])
def test_core_29_completed_is_none_after_an_error_of_the_generator(values):
    stream = fail_after.remote(values)
    assert ray.get(stream.completed(), timeout=30) is None
    *_, last = stream
    with pytest.raises(RayTaskError):
        ray.get(last)
    assert ray.get(stream.completed()) is None


def test_core_29_completed_raises_what_kept_the_generator_from_running():
    @ray.remote
    def broken():
        raise KeyError("input")

    stream = count_to.remote(broken.remote())
    with pytest.raises(KeyError):
        ray.get(stream.completed(), timeout=30)
    with pytest.raises(KeyError):
        ray.get(next(stream))


@pytest.mark.parametrize("streaming", ["streaming", "dynamic"])
@pytest.mark.filterwarnings("ignore:.*dynamic")
def test_core_29_a_method_without_yield_cannot_stream(streaming):
    class Actor:
        def one(self):
            return 1

    actor = ray.remote(num_cpus=0)(Actor).remote()
    with pytest.raises(ValueError, match="can only be used with generator functions"):
        actor.one.options(num_returns=streaming)
    with pytest.raises(ValueError, match="can only be used with generator functions"):
        ray.method(num_returns=streaming)(Actor.one)


def test_core_29_completed_raises_when_the_worker_died():
    @ray.remote(max_retries=0)
    def die():
        yield 0
        os._exit(1)

    with pytest.raises(WorkerCrashedError):
        ray.get(die.remote().completed(), timeout=30)


def test_core_29_is_finished_once_all_was_taken():
    stream = count_to.remote(1)
    ray.get(next(stream))
    with pytest.raises(StopIteration):
        next(stream)
    assert stream.is_finished()


def test_core_29_is_not_finished_before_its_values_were_taken():
    stream = count_to.remote(1)
    ray.get(stream.completed())
    assert not stream.is_finished()
    list(stream)


def test_core_29_next_ready_turns_true_when_a_value_is_there(gate):
    release = gate("release")

    @ray.remote
    def slow():
        release.wait()
        yield 1

    stream = slow.remote()
    assert not stream.next_ready()
    release.open()
    wait_for(stream.next_ready, what="the first value to be ready")
    assert ray.get(next(stream)) == 1


def test_core_29_stream_can_be_waited_for():
    stream = count_to.remote(1)
    ready, rest = ray.wait([stream], timeout=30)
    assert ready == [stream]
    assert rest == []
    assert ray.get(next(stream)) == 0


def test_core_29_stream_without_a_value_yet_is_not_ready(gate):
    release = gate("release")

    @ray.remote
    def slow():
        release.wait()
        yield 1

    stream = slow.remote()
    assert ray.wait([stream], timeout=0.02) == ([], [stream])
    release.open()
    list(stream)


def test_core_29_streams_and_refs_can_be_waited_for_together(gate):
    release = gate("release")

    @ray.remote
    def slow():
        release.wait()
        yield 1

    stream, ref = slow.remote(), ray.put(1)
    assert ray.wait([stream, ref], timeout=30) == ([ref], [stream])
    release.open()
    list(stream)


def test_core_29_async_for_over_a_stream():
    async def collect():
        return [await ref async for ref in count_to.remote(4)]

    assert asyncio.run(collect()) == [0, 1, 2, 3]


def test_core_29_async_for_meets_the_error_as_the_last_ref():
    async def collect():
        return [ref async for ref in fail_after.remote(1)]

    first, last = asyncio.run(collect())
    assert ray.get(first) == 0
    with pytest.raises(KeyError):
        ray.get(last)


def test_core_29_two_async_consumers_run_side_by_side():
    async def collect(n):
        return [await ref async for ref in count_to.remote(n)]

    async def both():
        return await asyncio.gather(collect(2), collect(3))

    assert asyncio.run(both()) == [[0, 1], [0, 1, 2]]


def test_core_29_generator_submitted_from_a_task():
    @ray.remote
    def total(n):
        return sum(ray.get(ref) for ref in count_to.remote(n))

    assert ray.get(total.remote(4)) == 6


def test_core_29_generator_can_submit_tasks_between_yields():
    @ray.remote
    def relay(n):
        for ref in count_to.remote(n):
            yield ray.get(ref) * 10

    assert [ray.get(ref) for ref in relay.remote(3)] == [0, 10, 20]


def test_core_29_dropped_stream_does_not_block_later_tasks():
    stream = count_to.remote(50)
    next(stream)
    del stream
    assert [ray.get(ref) for ref in count_to.remote(2)] == [0, 1]


def test_core_29_backpressure_holds_the_generator_back(tally):
    made = tally("made")

    @ray.remote(_generator_backpressure_num_objects=2)
    def eager():
        for i in range(6):
            made.add()
            yield i

    stream = eager.remote()
    wait_for(lambda: made.count() >= 2, what="the generator to fill its window")
    assert not ray.wait([stream.completed()], timeout=0.2)[0]
    assert made.count() <= 3
    assert [ray.get(ref) for ref in stream] == list(range(6))


def test_core_29_generator_held_back_that_is_tried_again_goes_on_where_its_reader_is(gate):
    crashed = gate("crashed")

    @ray.remote(_generator_backpressure_num_objects=2, max_retries=1)
    def eager():
        for i in range(6):
            if i == 3 and not crashed.is_open():
                crashed.open()
                os._exit(1)
            yield i

    stream = eager.remote()
    # The reader has taken three when the second attempt begins, and takes no more until there is a fourth.
    assert [ray.get(next(stream)) for _ in range(3)] == [0, 1, 2]
    assert [ray.get(ref, timeout=60) for ref in stream] == [3, 4, 5]


def test_core_29_without_backpressure_the_generator_runs_to_its_end(tally):
    made = tally("made")

    @ray.remote
    def eager():
        for i in range(6):
            made.add()
            yield i

    stream = eager.remote()
    ray.get(stream.completed())
    assert made.count() == 6
    list(stream)


def test_core_29_yielding_a_ref_gives_a_ref_to_a_ref():
    @ray.remote
    def refs():
        yield [ray.put("inner")]

    (outer,) = refs.remote()
    assert ray.get(ray.get(outer)[0]) == "inner"


def test_core_29_stream_cannot_be_passed_to_get():
    stream = count_to.remote(1)
    with pytest.raises((TypeError, ValueError)):
        ray.get([stream])
    list(stream)


def test_core_29_cancelled_stream_ends_with_an_error(gate):
    started, release = gate("started"), gate("release")

    @ray.remote
    def slow():
        yield 0
        started.open()
        release.wait()
        yield 1

    stream = slow.remote()
    assert ray.get(next(stream)) == 0
    started.wait()
    ray.cancel(stream)
    with pytest.raises(ray.exceptions.RayError):
        ray.get(next(stream))
