"""Small faces of streams, refs, ids, errors and serializers."""

from __future__ import annotations

import asyncio
import pickle
import threading

import pytest
import ray
from ray import exceptions
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def task(a=1):
    return a


@pytest.mark.parametrize("name", ["send", "throw"])
def test_stream_takes_nothing(name):
    @ray.remote
    def stream():
        yield 1

    made = stream.remote()
    with pytest.raises(NotImplementedError, match=f"`gen.{name}` is not supported"):
        getattr(made, name)(None)
    assert [ray.get(ref) for ref in made] == [1]


@pytest.mark.parametrize("name", ["asend", "athrow", "aclose"])
def test_stream_takes_nothing_asynchronously(name):
    @ray.remote
    def stream():
        yield 1

    made = stream.remote()

    async def use():
        await getattr(made, name)(*[] if name == "aclose" else [None])

    with pytest.raises(NotImplementedError, match=f"`gen.{name}` is not supported"):
        asyncio.run(use())
    assert [ray.get(ref) for ref in made] == [1]


def test_stream_cannot_be_passed_on():
    @ray.remote
    def stream():
        yield 1

    made = stream.remote()
    with pytest.raises(TypeError, match="You cannot return or pass a generator to other task"):
        pickle.dumps(made)
    with pytest.raises(TypeError):
        task.remote(made)
    list(made)


def test_ref_from_its_bytes_is_the_same_object():
    ref = ray.put("value")
    again = ray.ObjectRef.from_binary(ref.binary())
    assert again == ref
    assert ray.get(again) == "value"


@pytest.mark.parametrize(
    "name", ["JobID", "TaskID", "ActorID", "NodeID", "WorkerID", "FunctionID", "PlacementGroupID"]
)
def test_id_has_its_faces(name):
    cls = getattr(ray, name)
    one = cls(b"\x01" * cls.size())
    assert one == cls.from_binary(one.binary())
    assert one == cls.from_hex(one.hex())
    assert pickle.loads(pickle.dumps(one)) == one
    assert not one.is_nil()
    assert cls.nil().is_nil()
    assert repr(one) == f"{name}({one.hex()})"
    assert one != cls.nil()
    assert len({one, cls(b"\x01" * cls.size())}) == 1
    with pytest.raises(ValueError):
        cls(b"x")
    with pytest.raises(TypeError):
        cls(5)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: exceptions.WorkerCrashedError(), "The worker died unexpectedly while executing this task"),
        (lambda: exceptions.TaskUnschedulableError("why"), "The task is not schedulable: why"),
        (lambda: exceptions.ActorUnschedulableError("why"), "The actor is not schedulable: why"),
        (
            lambda: exceptions.TaskPlacementGroupRemoved(),
            "The placement group corresponding to this task has been removed",
        ),
        (
            lambda: exceptions.ActorPlacementGroupRemoved(),
            "The placement group corresponding to this Actor has been removed",
        ),
        (lambda: exceptions.NodeDiedError("why"), "why"),
        (lambda: exceptions.OutOfMemoryError("why"), "why"),
        (lambda: exceptions.ObjectLostError("ab" * 28, b"", "here"), "Failed to retrieve object abab"),
        (lambda: exceptions.OwnerDiedError("ab" * 28, b"", "here"), "Failed to retrieve object abab"),
        (lambda: exceptions.ObjectFreedError("ab" * 28, b"", "here"), "Failed to retrieve object abab"),
        (
            lambda: exceptions.ObjectFetchTimedOutError("ab" * 28, b"", "here"),
            "Failed to retrieve object abab",
        ),
        (
            lambda: exceptions.ReferenceCountingAssertionError("ab" * 28, b"", "here"),
            "Failed to retrieve object abab",
        ),
        (lambda: exceptions.GetTimeoutError("why"), "why"),
        (lambda: exceptions.ActorAlreadyExistsError("why"), "why"),
        (lambda: exceptions.ActorHandleNotFoundError("why"), "why"),
        (lambda: exceptions.RaySystemError("why"), "why"),
        (lambda: exceptions.RuntimeEnvSetupError("why"), "why"),
        (lambda: exceptions.PendingCallsLimitExceeded("why"), "why"),
    ],
)
def test_error_can_be_made_and_pickled_and_has_this_phrase(make, text):
    error = make()
    assert text in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)


class Locked:
    def __init__(self, value):
        self.value = value
        self.lock = threading.Lock()


@ray.remote
def value_of(one):
    return one.value


def test_registered_serializer_is_used_until_it_is_deregistered():
    with pytest.raises(TypeError):
        ray.put(Locked(1))
    ray.util.register_serializer(
        Locked, serializer=lambda one: one.value, deserializer=lambda value: Locked(value)
    )
    try:
        assert ray.get(ray.put(Locked(4))).value == 4
        assert ray.get(value_of.remote(Locked(5))) == 5
    finally:
        ray.util.deregister_serializer(Locked)
    with pytest.raises(TypeError):
        ray.put(Locked(1))
    ray.util.deregister_serializer(Locked)


def test_registered_serializer_is_used_for_an_exception_that_a_task_raises():
    class Own(Exception):
        def __init__(self, text, field):
            super().__init__(text)
            self.field = field

    def take(error):
        return {"text": str(error), "field": error.field + 1}

    def give(state):
        return Own(state["text"], state["field"])

    @ray.remote
    def fails():
        ray.util.register_serializer(Own, serializer=take, deserializer=give)
        raise Own("text", 41)

    ray.util.register_serializer(Own, serializer=take, deserializer=give)
    try:
        with pytest.raises(ray.exceptions.RayTaskError) as caught:
            ray.get(fails.remote())
        assert type(caught.value).__name__ == "RayTaskError(Own)"
        assert caught.value.cause.field == 42
    finally:
        ray.util.deregister_serializer(Own)


def test_stream_is_read_with_a_timeout(gate):
    go = gate("go")

    @ray.remote
    def two():
        yield 1
        go.wait()
        yield 2

    stream = two.remote()
    assert ray.get(stream._next_sync(timeout_s=60)) == 1
    assert stream._next_sync(timeout_s=0).is_nil()
    assert asyncio.run(stream._next_async(timeout_s=0)).is_nil()
    assert not stream.next_ready()
    go.open()  # the loop that waited has ended, and must not be woken
    assert ray.get(asyncio.run(stream._next_async(timeout_s=60))) == 2
    with pytest.raises(StopIteration):
        stream._next_sync(timeout_s=60)
    assert stream.is_finished()
    assert not stream.next_ready()


def test_yielded_tuples_become_one_ref_for_each_value():
    @ray.remote(_num_objects_per_yield=2)
    def pairs():
        yield 1, [2]
        yield 3, [4]

    @ray.remote(_num_objects_per_yield=2)
    def wrong():
        yield 1, 2, 3

    assert [ray.get(ref) for ref in pairs.remote()] == [1, [2], 3, [4]]
    with pytest.raises(ray.exceptions.RayTaskError):
        ray.get(next(wrong.remote()))


def test_generators_of_an_actor_share_its_limit(tally):
    made = tally("made")

    @ray.remote(num_cpus=0, max_concurrency=2, _actor_generator_backpressure_num_objects=3)
    class Source:
        def numbers(self):
            for number in range(4):
                made.add()
                yield number

    source = Source.remote()
    first, second = source.numbers.remote(), source.numbers.remote()
    wait_for(lambda: made.count() == 3, what="three values of both")
    assert first._next_sync(timeout_s=60).is_nil() is False
    wait_for(lambda: made.count() == 4, what="another one for the one that was read")
    del first  # it runs to its end, and takes no room from the other
    assert [ray.get(ref) for ref in second] == [0, 1, 2, 3]


def test_calls_with_arguments_in_variables():
    @ray.remote(num_cpus=0)
    class Sum:
        def __init__(self, start, by=1):
            self.total = start + by

        def add(self, number, times=1):
            return self.total + number * times

    assert ray.get(task._remote((2,))) == 2
    assert ray.get(task._remote(kwargs={"a": 3}, num_cpus=0)) == 3
    assert task._remote(num_returns=0) is None
    actor = Sum._remote(args=[1], kwargs={"by": 2}, name="sum")
    assert ray.get(actor.add._remote([4], {"times": 2})) == 11
    assert ray.get(ray.get_actor("sum").add._remote(args=[1], name="named")) == 4


def test_decorator_of_calls():
    def twice(submit):
        def call(args, kwargs):
            return submit([args[0], args[0]], {}), kwargs

        return call

    def decorated(function):
        def run(first, *others):
            *before, one, other = first, *others
            return function(*before, one + other)

        run.__ray_invocation_decorator__ = twice
        return run

    @ray.remote
    @decorated
    def double(number):
        return number

    @ray.remote(num_cpus=0)
    class Doubler:
        @decorated
        def double(self, number):
            return number

    @ray.remote(num_cpus=0)
    def through(handle):
        ref, rest = handle.double.remote(5, more=1)
        return ray.get(ref), rest

    ref, rest = double.remote(3, more=1)
    assert (ray.get(ref), rest) == (6, {"more": 1})
    ref, rest = Doubler.remote().double.options(name="twice").remote(4, more=2)
    assert (ray.get(ref), rest) == (8, {"more": 2})
    assert ray.get(through.remote(Doubler.remote())) == (10, {"more": 1})
