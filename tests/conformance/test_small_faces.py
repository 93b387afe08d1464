"""Small faces of streams, refs, ids, errors and serializers."""

from __future__ import annotations

import asyncio
import pickle
import threading

import pytest
import ray
from ray import exceptions

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
