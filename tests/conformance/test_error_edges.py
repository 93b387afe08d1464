"""Errors at the edges: unreadable values, cancellation from inside, errors as bytes, default texts, failed constructors."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
import ray
from ray import exceptions
from ray.exceptions import RayError, RaySystemError, RayTaskError, TaskCancelledError
from waiting import wait_for

pytestmark = pytest.mark.timeout(120)


# -- values that cannot be read


@pytest.fixture
def makes(cluster: Any) -> Any:
    @ray.remote(num_cpus=0)
    def make(code: str, size: int) -> Any:
        class Local:
            def __reduce__(self) -> Any:
                return exec, (code,)

        return [Local(), bytes(size)]

    return make


RAISES = [
    "raise KeyError('inside')",
    "raise ValueError('inside')",
    "raise OSError(2, 'inside')",
    "import inside_nothing",
]


@pytest.mark.parametrize("size", [10, 300_000])
@pytest.mark.parametrize("code", RAISES)
def test_result_that_cannot_be_unpickled_is_a_system_error(makes: Any, code: str, size: int) -> None:
    with pytest.raises(RaySystemError, match="System error: .*inside") as raised:
        ray.get(makes.remote(code, size))
    assert not isinstance(raised.value, RayTaskError)
    assert "inside" in str(raised.value.client_exc)
    assert "Traceback" in raised.value.traceback_str


@pytest.mark.parametrize("size", [10, 300_000])
@pytest.mark.parametrize("code", RAISES)
def test_argument_that_cannot_be_unpickled_fails_the_task_with_a_system_error(
    makes: Any, code: str, size: int
) -> None:
    @ray.remote(num_cpus=0)
    def takes(value: Any) -> int:
        return 1

    with pytest.raises(RaySystemError, match="inside") as raised:
        ray.get(takes.remote(makes.remote(code, size)))
    assert isinstance(raised.value, RayTaskError)


@pytest.mark.chosen_difference("it is an instance of what the user's code raised as well", id="D-unreadable")
def test_value_that_cannot_be_unpickled_is_also_what_its_code_raised(makes: Any) -> None:
    with pytest.raises(KeyError, match="inside") as raised:
        ray.get(makes.remote(RAISES[0], 10))
    assert isinstance(pickle.loads(pickle.dumps(raised.value)), (KeyError, RaySystemError))


# -- what ends a generator or a coroutine


KINDS = {"GeneratorExit": GeneratorExit, "CancelledError": asyncio.CancelledError}


def raise_it(name: str) -> None:
    raise {"GeneratorExit": GeneratorExit, "CancelledError": asyncio.CancelledError}[name]("why")


@pytest.mark.parametrize("form", ["task", "method"])
@pytest.mark.parametrize("name", KINDS)
def test_exception_of_a_generator_or_a_coroutine_arrives_as_both(cluster: Any, name: str, form: str) -> None:
    @ray.remote(num_cpus=0)
    class Actor:
        def call(self, name: str) -> None:
            raise_it(name)

    call = ray.remote(num_cpus=0, max_retries=0)(raise_it) if form == "task" else Actor.remote().call
    with pytest.raises(KINDS[name]) as raised:
        ray.get(call.remote(name))
    assert isinstance(raised.value, RayTaskError)
    assert type(raised.value.cause) is KINDS[name]
    assert "why" in str(raised.value)


def test_cancelled_error_of_an_async_method_is_a_cancelled_task(cluster: Any) -> None:
    @ray.remote(num_cpus=0)
    class Actor:
        async def call(self) -> None:
            raise asyncio.CancelledError("why")

        async def fine(self) -> int:
            return 1

    actor = Actor.remote()
    with pytest.raises(TaskCancelledError) as raised:
        ray.get(actor.call.remote())
    assert isinstance(raised.value, RayTaskError)
    assert ray.get(actor.fine.remote()) == 1


# -- errors as bytes

MADE = [
    RayError("text"),
    RaySystemError("text"),
    RayTaskError("function", "trace", ValueError("text")),
    RayTaskError("function", "trace", ValueError("text")).as_instanceof_cause(),
    exceptions.ActorDiedError(),
    exceptions.RayActorError(),
    exceptions.WorkerCrashedError(),
    exceptions.TaskCancelledError(),
    exceptions.NodeDiedError("text"),
    exceptions.GetTimeoutError("text"),
    exceptions.OutOfMemoryError("text"),
    exceptions.LocalRayletDiedError(),
    exceptions.RuntimeEnvSetupError("text"),
    exceptions.ActorUnschedulableError("text"),
    exceptions.TaskUnschedulableError("text"),
    exceptions.PendingCallsLimitExceeded("text"),
    exceptions.TaskPlacementGroupRemoved(),
    exceptions.ActorPlacementGroupRemoved(),
    exceptions.ObjectStoreFullError("text"),
    exceptions.OutOfDiskError("text"),
    exceptions.ObjectLostError("00" * 28, b"", ""),
    exceptions.OwnerDiedError("00" * 28, b"", ""),
    exceptions.ObjectFreedError("00" * 28, b"", ""),
    exceptions.ObjectReconstructionFailedError("00" * 28),
    exceptions.ActorUnavailableError("text", b"\1" * 16),
]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_error_goes_to_bytes_and_back(error: RayError) -> None:
    data = error.to_bytes()
    assert type(data) is bytes
    back = RayError.from_bytes(data)
    assert isinstance(back, type(error)) or isinstance(error, type(back))
    assert str(back).splitlines()[-1:] == str(error).splitlines()[-1:]


@pytest.mark.parametrize(
    "error",
    [error for error in MADE if not isinstance(error, ValueError)],  # pickle of Ray's needs cloudpickle
    ids=lambda error: type(error).__name__,
)
def test_error_is_pickled_whole(error: RayError) -> None:
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


class Breaks(RayError):
    """An error that cannot be unpickled."""

    def __reduce__(self) -> Any:
        return exec, ("raise KeyError('inside')",)


def test_error_that_cannot_be_read_back_is_told_by_its_text() -> None:
    back = RayError.from_bytes(Breaks("its words").to_bytes())
    assert type(back) is exceptions.UnserializableException
    assert "its words" in str(back)


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("RayActorError", "The actor experienced an error before finishing this task."),
        ("ActorDiedError", "The actor died unexpectedly before finishing this task."),
        ("WorkerCrashedError", "The worker died unexpectedly while executing this task."),
    ],
)
def test_default_text_of_an_error(name: str, phrase: str) -> None:
    assert phrase in str(getattr(exceptions, name)())


def test_death_by_the_constructor_says_so(cluster: Any) -> None:
    @ray.remote(num_cpus=0)
    class Fails:
        def __init__(self) -> None:
            raise ValueError("in the constructor")

        def call(self) -> None: ...

    with pytest.raises(
        exceptions.ActorDiedError,
        match=r"because of an error raised in its creation task, ray::.*Fails.__init__\(\) \(pid=",
    ) as raised:
        ray.get(Fails.remote().call.remote())
    assert raised.value.actor_init_failed
    assert "in the constructor" in str(raised.value)


# -- constructors that fail


def test_shutdown_method_is_called_after_a_constructor_that_failed(cluster: Any, tally: Any) -> None:
    begun, ended = tally("begun"), tally("ended")

    @ray.remote(num_cpus=0)
    class Fails:
        def __init__(self, begun: Any, ended: Any) -> None:
            begun.add()
            self.ended = ended
            raise ValueError("in the constructor")

        def __ray_shutdown__(self) -> None:
            self.ended.add()

        def call(self) -> None: ...

    actor = Fails.remote(begun, ended)
    with pytest.raises(exceptions.ActorDiedError):
        ray.get(actor.call.remote())
    wait_for(lambda: ended.count() == 1, what="the shutdown method to be called", timeout_s=30)
    assert begun.count() == 1
