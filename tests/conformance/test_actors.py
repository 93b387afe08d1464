"""Actors: creation, state, arguments, errors, handles and the CPUs they hold."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest
import ray
from ray.exceptions import ActorDiedError, RayActorError, RayTaskError
from waiting import Gate, wait_for

pytestmark = pytest.mark.usefixtures("cluster")


def counter_class() -> Any:
    @ray.remote
    class Counter:
        def __init__(self, start: int = 0, *, step: int = 1) -> None:
            self.value = start
            self.step = step

        def add(self, times: int = 1) -> int:
            self.value += self.step * times
            return self.value

        def read(self) -> int:
            return self.value

        def pid(self) -> int:
            return os.getpid()

    return Counter


def keeper_class() -> Any:
    @ray.remote
    class Keeper:
        def __init__(self, *values: Any, **named: Any) -> None:
            self.kept = (values, named)

        def get(self) -> Any:
            return self.kept

        def echo(self, *values: Any, **named: Any) -> Any:
            return (values, named)

        def kinds(self, *values: Any) -> list[str]:
            return [type(value).__name__ for value in values]

        def fail(self, error: BaseException) -> None:
            raise error

    return Keeper


def test_core_20_calls_of_one_caller_run_in_the_order_of_submission() -> None:
    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def append(self, n: int) -> None:
            self.seen.append(n)

        def read(self) -> list[int]:
            return self.seen

    log = Log.remote()
    for n in range(200):
        log.append.remote(n)
    assert ray.get(log.read.remote()) == list(range(200))


def test_core_20_state_is_kept_between_calls() -> None:
    counter = counter_class().remote(10, step=5)
    assert ray.get([counter.add.remote(), counter.add.remote(2), counter.read.remote()]) == [15, 25, 25]


def test_core_20_two_actors_of_one_class_share_nothing() -> None:
    counter = counter_class()
    first, second = counter.remote(), counter.remote()
    ray.get(first.add.remote(7))
    assert ray.get(second.read.remote()) == 0
    assert ray.get(first.pid.remote()) != ray.get(second.pid.remote())


def test_core_20_an_actor_stays_in_one_process_that_is_not_the_driver() -> None:
    counter = counter_class().remote()
    pids = set(ray.get([counter.pid.remote() for _ in range(5)]))
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_core_20_class_attributes_are_per_process() -> None:
    @ray.remote
    class Shared:
        total = 0

        def add(self) -> int:
            type(self).total += 1
            return type(self).total

    first, second = Shared.remote(), Shared.remote()
    ray.get([first.add.remote(), first.add.remote()])
    assert ray.get(second.add.remote()) == 1


def test_core_20_a_returned_mutable_attribute_is_a_copy() -> None:
    @ray.remote
    class Box:
        def __init__(self) -> None:
            self.items = [1]

        def read(self) -> list[int]:
            return self.items

    box = Box.remote()
    mine = ray.get(box.read.remote())
    mine.append(2)
    assert ray.get(box.read.remote()) == [1]


@pytest.mark.parametrize("form", ["bare", "with_options", "call", "call_with_options"])
def test_core_20_ways_to_make_an_actor_class(form: str) -> None:
    class Plain:
        def hi(self) -> str:
            return "hi"

    if form == "bare":
        cls = ray.remote(Plain)
    elif form == "with_options":
        cls = ray.remote(num_cpus=0)(Plain)
    elif form == "call":
        cls = ray.remote(Plain).options()
    else:
        cls = ray.remote(max_restarts=1, num_cpus=0)(Plain).options(max_restarts=0)
    assert ray.get(cls.remote().hi.remote()) == "hi"
    assert Plain().hi() == "hi"


def test_core_20_class_without_a_constructor_and_without_methods() -> None:
    @ray.remote
    class Empty:
        pass

    assert ray.get(Empty.remote().__ray_ready__.remote()) is True


def test_core_20_handle_and_class_have_public_types() -> None:
    counter = counter_class()
    assert isinstance(counter, ray.actor.ActorClass)
    handle = counter.remote()
    assert isinstance(handle, ray.actor.ActorHandle)
    assert "Counter" in repr(handle)
    assert "Counter" in repr(counter)


def test_core_1_actor_class_cannot_be_instantiated_directly() -> None:
    with pytest.raises(TypeError, match=r"Counter.*\.remote\("):
        counter_class()()


def test_core_1_actor_method_cannot_be_called_directly() -> None:
    counter = counter_class().remote()
    with pytest.raises(TypeError, match=r"add\.remote\("):
        counter.add()


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1, 2), {}), ((), {"begin": 1}), ((1,), {"start": 2})],
    ids=["too_many", "unknown_keyword", "twice"],
)
def test_core_2_constructor_arguments_are_checked_at_the_call(args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError):
        counter_class().remote(*args, **kwargs)


def test_core_2_missing_constructor_argument_is_refused_at_the_call() -> None:
    @ray.remote
    class Needs:
        def __init__(self, what: int) -> None:
            self.what = what

    with pytest.raises(TypeError, match="what"):
        Needs.remote()


def test_core_3_constructor_resolves_refs_given_at_the_top() -> None:
    keeper = keeper_class().remote(ray.put(1), named=ray.put(2))
    assert ray.get(keeper.get.remote()) == ((1,), {"named": 2})


def test_core_3_constructor_keeps_refs_inside_containers() -> None:
    keeper = keeper_class().remote([ray.put(1)])
    ((values,), _) = ray.get(keeper.get.remote())
    assert isinstance(values[0], ray.ObjectRef)
    assert ray.get(values[0]) == 1


def test_core_3_constructor_waits_for_a_task_given_as_argument(gate: Any) -> None:
    done: Gate = gate("done")

    @ray.remote
    def produce(signal: Gate) -> int:
        signal.wait()
        return 5

    counter = counter_class().remote(produce.remote(done))
    reading = counter.read.remote()
    assert ray.wait([reading], timeout=0)[0] == []
    done.open()
    assert ray.get(reading) == 5


def test_core_3_method_resolves_top_level_refs_only() -> None:
    keeper = keeper_class().remote()
    ref = ray.put(1)
    assert ray.get(keeper.kinds.remote(ref, [ref], {"a": ref}, (ref,))) == ["int", "list", "dict", "tuple"]
    (values, named) = ray.get(keeper.echo.remote([ref], b=ref))
    assert named == {"b": 1}
    assert isinstance(values[0][0], ray.ObjectRef)


def test_core_3_result_of_one_actor_is_argument_of_another() -> None:
    counter = counter_class()
    first, second = counter.remote(4), counter.remote()
    assert ray.get(second.add.remote(first.add.remote(2))) == 6


def test_core_4_method_with_a_failed_argument_fails_with_its_cause() -> None:
    keeper = keeper_class().remote()
    failed = keeper.fail.remote(KeyError("gone"))
    with pytest.raises(KeyError, match="gone"):
        ray.get(keeper.echo.remote(failed))


def test_core_4_constructor_with_a_failed_argument_kills_the_actor() -> None:
    @ray.remote
    def bad() -> None:
        raise KeyError("gone")

    counter = counter_class().remote(bad.remote())
    with pytest.raises((RayActorError, RayTaskError), match="gone"):
        ray.get(counter.read.remote())


def test_core_5_method_error_has_both_types_and_the_remote_traceback() -> None:
    @ray.remote
    class Breaks:
        def explode(self) -> None:
            raise KeyError("boom")

    with pytest.raises(KeyError, match="boom") as raised:
        ray.get(Breaks.remote().explode.remote())
    assert isinstance(raised.value, RayTaskError)
    assert isinstance(raised.value.cause, KeyError)
    assert "explode" in str(raised.value)


def test_core_5_actor_survives_an_error_in_a_method() -> None:
    keeper = keeper_class().remote(1)
    with pytest.raises(ZeroDivisionError):
        ray.get(keeper.fail.remote(ZeroDivisionError("no")))
    assert ray.get(keeper.get.remote()) == ((1,), {})


def test_core_7_unserializable_method_argument_is_a_type_error_at_the_call() -> None:
    keeper = keeper_class().remote()
    with pytest.raises(TypeError):
        keeper.echo.remote(threading.Lock())
    assert ray.get(keeper.echo.remote(1)) == ((1,), {})


def test_core_7_unserializable_constructor_argument_is_a_type_error_at_the_call() -> None:
    with pytest.raises(TypeError):
        keeper_class().remote(threading.Lock())


def test_core_7_unserializable_method_result_is_a_type_error_at_get() -> None:
    @ray.remote
    class Holds:
        def lock(self) -> Any:
            return threading.Lock()

        def fine(self) -> int:
            return 1

    holder = Holds.remote()
    with pytest.raises(TypeError) as raised:
        ray.get(holder.lock.remote())
    assert isinstance(raised.value, RayTaskError)
    assert ray.get(holder.fine.remote()) == 1


def test_core_15_array_from_an_actor_is_read_only_and_a_snapshot() -> None:
    @ray.remote
    class Holds:
        def __init__(self) -> None:
            self.array = np.zeros(100_000)

        def read(self) -> np.ndarray:
            return self.array

        def write(self) -> None:
            self.array[0] = 1

    holder = Holds.remote()
    before = ray.get(holder.read.remote())
    ray.get(holder.write.remote())
    assert not before.flags.writeable
    assert before[0] == 0
    assert ray.get(holder.read.remote())[0] == 1


def test_core_22_creation_never_raises_what_the_constructor_raises() -> None:
    @ray.remote
    class Fails:
        def __init__(self) -> None:
            raise ValueError("not today")

        def hi(self) -> None: ...

    actor = Fails.remote()
    with pytest.raises(ActorDiedError) as raised:
        ray.get(actor.hi.remote())
    assert "not today" in str(raised.value)
    assert "ValueError" in str(raised.value)
    assert raised.value.actor_init_failed is True


def test_core_22_every_call_to_an_actor_that_failed_to_start_fails() -> None:
    @ray.remote
    class Fails:
        def __init__(self) -> None:
            raise ValueError("not today")

        def hi(self) -> None: ...

    actor = Fails.remote()
    for call in [actor.hi.remote() for _ in range(3)]:
        with pytest.raises(RayActorError, match="not today"):
            ray.get(call)


def test_core_22_restarts_do_not_retry_a_constructor_that_raises(tally: Any) -> None:
    starts = tally("starts")

    @ray.remote(max_restarts=3)
    class Fails:
        def __init__(self) -> None:
            starts.add()
            raise ValueError("not today")

        def hi(self) -> None: ...

    with pytest.raises(ActorDiedError):
        ray.get(Fails.remote().hi.remote())
    assert starts.count() == 1


def test_core_27_default_actor_holds_no_cpu() -> None:
    @ray.remote
    class Asks:
        def assigned(self) -> dict[str, float]:
            return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(Asks.remote().assigned.remote()) == {}


def test_core_27_more_default_actors_than_cpus_live_together() -> None:
    counter = counter_class()
    actors = [counter.remote(n) for n in range(5)]
    assert ray.get([actor.read.remote() for actor in actors], timeout=60) == list(range(5))


def test_core_27_explicit_cpus_are_held_for_life() -> None:
    actor = counter_class().options(num_cpus=2).remote()
    ray.get(actor.read.remote())
    wait_for(lambda: ray.available_resources().get("CPU", 0) == 0, what="the actor's two CPUs to be taken")

    @ray.remote
    def task() -> int:
        return 1

    waiting = task.remote()
    assert ray.wait([waiting], timeout=0.3)[0] == []
    ray.kill(actor)
    assert ray.get(waiting, timeout=60) == 1


def test_core_27_explicit_cpus_are_reported_to_the_actor() -> None:
    @ray.remote(num_cpus=0.5)
    class Asks:
        def assigned(self) -> dict[str, float]:
            return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(Asks.remote().assigned.remote()) == {"CPU": 0.5}
