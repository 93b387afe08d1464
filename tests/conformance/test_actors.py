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


def test_core_28_handle_as_argument_of_a_task() -> None:
    @ray.remote
    def bump(counter: Any) -> int:
        return ray.get(counter.add.remote())

    counter = counter_class().remote()
    ray.get([bump.remote(counter) for _ in range(4)])
    assert ray.get(counter.read.remote()) == 4


@pytest.mark.parametrize("wrap", ["plain", "list", "dict", "put"])
def test_core_28_handle_travels_to_another_actor(wrap: str) -> None:
    @ray.remote
    class Caller:
        def call(self, given: Any) -> int:
            counter = given[0] if isinstance(given, list) else given
            counter = counter["it"] if isinstance(counter, dict) else counter
            return ray.get(counter.add.remote())

    counter = counter_class().remote(1)
    given = {"plain": counter, "list": [counter], "dict": {"it": counter}, "put": None}[wrap]
    caller = Caller.remote()
    assert ray.get(caller.call.remote(ray.put(counter) if wrap == "put" else given)) == 2


def test_core_28_actor_creates_an_actor_and_returns_its_handle() -> None:
    counter = counter_class()

    @ray.remote
    class Parent:
        def __init__(self) -> None:
            self.child = counter.remote(41)

        def get_child(self) -> Any:
            return self.child

    parent = Parent.remote()
    child = ray.get(parent.get_child.remote())
    assert ray.get(child.add.remote()) == 42


def test_core_28_task_creates_an_actor_and_returns_its_handle() -> None:
    counter = counter_class()

    @ray.remote
    def make() -> Any:
        return counter.remote(3)

    assert ray.get(ray.get(make.remote()).read.remote()) == 3


def test_core_28_actor_submits_tasks_and_waits_for_them() -> None:
    @ray.remote
    def square(n: int) -> int:
        return n * n

    @ray.remote
    class Boss:
        def total(self, n: int) -> int:
            return sum(ray.get([square.remote(i) for i in range(n)]))

    assert ray.get(Boss.remote().total.remote(4)) == 14


def test_core_28_result_arrives_though_no_handle_is_kept() -> None:
    assert ray.get(counter_class().remote(9).read.remote()) == 9


def test_core_28_handle_equals_the_same_handle_after_a_round_trip() -> None:
    counter = counter_class().remote()
    returned = ray.get(ray.put([counter]))[0]
    assert returned == counter
    assert hash(returned) == hash(counter)
    assert counter != counter_class().remote()


def test_core_28_method_refs_work_with_wait(gate: Any) -> None:
    held: Gate = gate("held")

    @ray.remote
    class Waits:
        def until(self, signal: Gate) -> str:
            signal.wait()
            return "late"

    late = Waits.remote().until.remote(held)
    early = counter_class().remote(1).read.remote()
    assert ray.wait([late, early], num_returns=1, timeout=30) == ([early], [late])
    held.open()
    assert ray.get(late) == "late"


def test_core_28_current_actor_is_a_handle_to_itself() -> None:
    @ray.remote
    class Me:
        def __init__(self) -> None:
            self.value = 3

        def myself(self) -> Any:
            return ray.get_runtime_context().current_actor

        def read(self) -> int:
            return self.value

    actor = Me.remote()
    assert ray.get(ray.get(actor.myself.remote()).read.remote()) == 3


@pytest.mark.parametrize("name", ["nothing", "value"], ids=["missing_method", "attribute"])
def test_mistake_reading_what_is_not_a_method_of_the_actor(name: str) -> None:
    counter = counter_class().remote()
    with pytest.raises(AttributeError, match=name):
        getattr(counter, name)


@pytest.mark.chosen_difference(
    "the error names the actor's class; Ray's names only its own handle type", id="D-actor-attribute"
)
def test_mistake_missing_method_names_the_class() -> None:
    counter = counter_class().remote()
    with pytest.raises(AttributeError, match="Counter"):
        counter.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({"frobnicate": 1}, ValueError, "frobnicate"),
        ({"num_returns": 2}, ValueError, "num_returns"),
        ({"max_retries": 2}, ValueError, "max_retries"),
        ({"num_cpus": -1}, ValueError, "num_cpus"),
        ({"num_cpus": "two"}, TypeError, "num_cpus"),
        ({"resources": {"CPU": 1}}, ValueError, "num_cpus"),
        ({"memory": -1}, ValueError, "memory"),
        ({"max_restarts": -2}, ValueError, "max_restarts"),
        ({"max_restarts": "often"}, TypeError, "max_restarts"),
        ({"max_task_retries": -2}, ValueError, "max_task_retries"),
        ({"lifetime": "eternal"}, ValueError, "detached"),
        ({"name": 5}, TypeError, "name"),
        ({"namespace": 3}, TypeError, "namespace"),
        ({"get_if_exists": True}, ValueError, "name"),
        ({"concurrency_groups": {"io": 1}}, ValueError, "concurrency_groups"),
        ({"scheduling_strategy": 5}, TypeError, "scheduling_strategy"),
        ({"runtime_env": 5}, TypeError, "runtime_env"),
        ({"accelerator_type": 5}, TypeError, "accelerator_type"),
        ({"label_selector": 5}, TypeError, "label_selector"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_mistake_bad_actor_option_is_refused_at_options(
    options: dict[str, Any], error: type[Exception], word: str
) -> None:
    with pytest.raises(error, match=word):
        counter_class().options(**options).remote()


def test_mistake_bad_actor_option_in_the_decorator_is_refused_there() -> None:
    with pytest.raises(ValueError, match="frobnicate"):

        @ray.remote(frobnicate=1)
        class Never:
            pass


def test_mistake_inheriting_from_an_actor_class() -> None:
    counter = counter_class()
    with pytest.raises(TypeError, match="[Ii]nherit"):

        class More(counter):
            pass
