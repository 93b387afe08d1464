"""Programs that wait for each other: an error within seconds where that is forever, and none where it is not."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import ray
from ray.exceptions import GetTimeoutError, RayTaskError

ON_SKATE = os.environ.get("SKATE_CONFORMANCE_TARGET", "skate") == "skate"
if ON_SKATE:
    from ray.exceptions import DeadlockError
else:
    DeadlockError = GetTimeoutError  # never raised: the tests that expect it do not run there

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("cluster")]

#: Longer than a wait must last before it is judged, so that a false alarm would have come.
LONG_S = 2.5

for_ever = pytest.mark.chosen_difference("Ray waits forever", id="D-deadlock")


@ray.remote(num_cpus=0)
class Actor:
    """Gets what it is told to."""

    def __init__(self) -> None:
        self.other: Any = None

    def meet(self, other: Any) -> None:
        self.other = other

    def one(self) -> int:
        return 1

    def ask(self, other: Any) -> int:
        return int(ray.get(other.one.remote()))

    def ask_other(self) -> int:
        return int(ray.get(self.other.ask_other.remote()))

    def get_in(self, box: list[Any]) -> Any:
        return ray.get(box[0])


@ray.remote
def get_in(box: list[Any]) -> Any:
    return ray.get(box[0])


@ray.remote
def one() -> int:
    return 1


def circle_of(ref: Any) -> str:
    """The text of the deadlock that a call ends in, wherever in the circle it was raised."""
    with pytest.raises(DeadlockError) as raised:
        ray.get(ref)
    return str(raised.value)


# ---------------------------------------------------------------- forever


@for_ever
def test_an_actor_that_calls_itself_and_waits() -> None:
    actor = Actor.remote()
    text = circle_of(actor.ask.remote(actor))
    assert "Actor" in text and "one" in text


@for_ever
def test_an_actor_of_several_threads_all_of_which_wait_for_it() -> None:
    actor = Actor.options(max_concurrency=2).remote()
    ray.get(actor.meet.remote(actor))
    refs = [actor.ask_other.remote() for _ in range(2)]
    with pytest.raises((DeadlockError, RayTaskError)):
        ray.get(refs, timeout=60)


@for_ever
@pytest.mark.parametrize("count", [2, 3])
def test_actors_that_wait_for_each_other_in_a_ring(count: int) -> None:
    actors = [Actor.remote() for _ in range(count)]
    ray.get([actor.meet.remote(actors[index - 1]) for index, actor in enumerate(actors)])
    text = circle_of(actors[0].ask_other.remote())
    assert text.count("ask_other") >= count


@for_ever
def test_a_task_and_an_actor_that_wait_for_each_other() -> None:
    actor = Actor.remote()

    @ray.remote
    def asks(actor: Any) -> Any:
        return ray.get(actor.one.remote())

    @ray.remote(num_cpus=0)
    class Starts:
        def start(self, me: Any) -> Any:
            return ray.get(asks.remote(me))

        def one(self) -> int:
            return 1

    starts = Starts.remote()
    text = circle_of(starts.start.remote(starts))
    assert "asks" in text and "Starts" in text
    assert ray.get(asks.remote(actor)) == 1


@for_ever
def test_a_driver_that_waits_for_what_only_it_could_let_run() -> None:
    holder = Actor.options(num_cpus=2).remote()
    ray.get(holder.one.remote())
    waits = one.remote()
    text = circle_of(waits)
    assert "Actor" in text and "CPU" in text
    ray.kill(holder)
    assert ray.get(one.remote(), timeout=60) == 1


@for_ever
def test_a_driver_that_waits_for_a_group_while_another_of_its_own_has_the_room(
    fresh: Callable[..., Any],
) -> None:
    fresh(num_cpus=2)  # an actor that still has a thread to spare might remove the group
    first = ray.util.placement_group([{"CPU": 2}])
    ray.get(first.ready(), timeout=60)
    second = ray.util.placement_group([{"CPU": 1}])
    assert "CPU" in circle_of(second.ready())
    ray.util.remove_placement_group(first)
    assert ray.get(second.ready(), timeout=60) is not None
    ray.util.remove_placement_group(second)


@pytest.mark.chosen_difference("Ray waits forever", id="D-placement-group-infeasible")
def test_a_group_that_can_never_be_and_what_is_to_run_in_it() -> None:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = ray.util.placement_group([{"CPU": 64}])
    with pytest.raises(Exception, match="64"):
        ray.get(group.ready(), timeout=60)
    strategy = PlacementGroupSchedulingStrategy(placement_group=group)
    with pytest.raises(Exception, match="cannot be placed"):
        ray.get(one.options(scheduling_strategy=strategy).remote(), timeout=60)
    actor = Actor.options(scheduling_strategy=strategy).remote()
    with pytest.raises(Exception, match="cannot be placed"):
        ray.get(actor.one.remote(), timeout=60)


@for_ever
def test_an_actor_whose_constructor_waits_for_itself() -> None:
    @ray.remote(num_cpus=0)
    class Early:
        def __init__(self) -> None:
            me = ray.get_runtime_context().current_actor
            ray.get(me.ready.remote())

        def ready(self) -> bool:
            return True

    with pytest.raises(Exception, match="ready") as raised:
        ray.get(Early.remote().ready.remote(), timeout=60)
    assert "DeadlockError" in str(raised.value) or "Early" in str(raised.value)


@for_ever
def test_a_circle_is_ended_in_one_place_and_the_others_go_on() -> None:
    class Stubborn:
        def ask(self, other: Any) -> str:
            try:
                return str(ray.get(other.ask_back.remote()))
            except DeadlockError:
                return "gave up"

        def meet(self, other: Any) -> None:
            self.other = other

        def ask_back(self) -> str:
            try:
                return "back: " + str(ray.get(self.other.one.remote()))
            except DeadlockError:
                return "gave up there"

        def one(self) -> int:
            return 1

    first, second = (ray.remote(num_cpus=0)(Stubborn).remote() for _ in range(2))
    ray.get(second.meet.remote(first))
    answer = ray.get(first.ask.remote(second), timeout=60)
    assert answer in ("gave up", "gave up there")
    assert ray.get([first.one.remote(), second.one.remote()], timeout=60) == [1, 1]


@for_ever
def test_a_stream_that_keeps_the_cpus_until_it_is_read_by_who_waits_for_them(
    fresh: Callable[..., Any],
) -> None:
    fresh(num_cpus=1)

    @ray.remote(_generator_backpressure_num_objects=1)
    def stream() -> Iterator[int]:
        yield from range(3)

    items = stream.remote()
    text = circle_of(one.remote())
    assert "stream, which produces no more values until some are read by the driver" in text
    assert [ray.get(item) for item in items] == [0, 1, 2]
    assert ray.get(one.remote()) == 1


@for_ever
def test_wait_raises_as_well() -> None:
    @ray.remote(num_cpus=0)
    class Waits:
        def me(self, actor: Any) -> int:
            return len(ray.wait([actor.one.remote()])[0])

        def one(self) -> int:
            return 1

    actor = Waits.remote()
    assert "Waits" in circle_of(actor.me.remote(actor))


# ---------------------------------------------------------------- not forever


def test_nested_tasks_lend_the_cpu_that_they_wait_with() -> None:
    @ray.remote
    def nest(depth: int) -> int:
        return 0 if not depth else 1 + int(ray.get(nest.remote(depth - 1)))

    assert ray.get(nest.remote(5), timeout=60) == 5


def test_more_parents_than_cpus_each_of_which_waits_for_children() -> None:
    @ray.remote
    def parent() -> int:
        return sum(ray.get([one.remote() for _ in range(3)]))

    assert ray.get([parent.remote() for _ in range(6)], timeout=100) == [3] * 6


def test_an_actor_with_a_cpu_lends_it_while_it_waits(fresh: Callable[..., Any]) -> None:
    fresh(num_cpus=1)

    @ray.remote(num_cpus=1)
    class Asks:
        def child(self) -> int:
            return int(ray.get(one.options(num_cpus=0).remote()))

    assert ray.get(Asks.remote().child.remote(), timeout=60) == 1


def test_a_thread_of_the_drivers_may_let_it_go_on(gate: Callable[[str], Any]) -> None:
    door = gate("door")

    @ray.remote
    def waits() -> str:
        door.wait(60)
        return "through"

    opener = threading.Timer(LONG_S, door.open)
    opener.start()
    assert ray.get(waits.remote(), timeout=None) == "through"
    opener.join()


def test_who_holds_the_resource_may_be_let_go_by_another_thread() -> None:
    holder = Actor.options(num_cpus=2).remote()
    ray.get(holder.one.remote())
    killer = threading.Timer(LONG_S, lambda: ray.kill(holder))
    killer.start()
    assert ray.get(one.remote()) == 1
    killer.join()


def test_what_a_reader_waits_for_comes_late(gate: Callable[[str], Any]) -> None:
    door = gate("door")

    @ray.remote(num_returns="streaming")
    def stream() -> Iterator[int]:
        yield 1
        door.wait(60)
        yield 2

    opener = threading.Timer(LONG_S, door.open)
    opener.start()
    assert [ray.get(item) for item in stream.remote()] == [1, 2]
    opener.join()


def test_an_actor_of_two_threads_may_call_itself() -> None:
    @ray.remote(num_cpus=0, max_concurrency=2)
    class Threads:
        def me(self, actor: Any) -> int:
            return int(ray.get(actor.slow.remote()))

        def slow(self) -> int:
            threading.Event().wait(LONG_S)
            return 1

    actor = Threads.remote()
    assert ray.get(actor.me.remote(actor)) == 1


def test_an_asyncio_actor_may_await_itself() -> None:
    @ray.remote(num_cpus=0)
    class Loop:
        async def me(self, actor: Any) -> int:
            return int(await actor.slow.remote())

        async def slow(self) -> int:
            await asyncio.sleep(LONG_S)
            return 1

    actor = Loop.remote()
    assert ray.get(actor.me.remote(actor)) == 1


def test_asyncio_actors_that_await_each_other_and_are_woken_from_outside() -> None:
    @ray.remote(num_cpus=0)
    class Loop:
        def __init__(self) -> None:
            self.event = asyncio.Event()

        async def wait(self) -> int:
            await self.event.wait()
            return 1

        async def ask(self, other: Any) -> int:
            return int(await other.wait.remote())

        async def wake(self) -> None:
            self.event.set()

    first, second = Loop.remote(), Loop.remote()
    refs = [first.ask.remote(second), second.ask.remote(first)]

    @ray.remote(num_cpus=0)
    def wakes() -> None:
        threading.Event().wait(LONG_S)
        ray.get([first.wake.remote(), second.wake.remote()])

    woken = wakes.remote()
    assert ray.get(refs) == [1, 1]
    ray.get(woken)


def test_a_call_queued_behind_a_long_one() -> None:
    @ray.remote(num_cpus=0)
    class Slow:
        def slow(self) -> None:
            threading.Event().wait(LONG_S)

        def after(self) -> int:
            return 1

    slow = Slow.remote()
    slow.slow.remote()
    assert ray.get(slow.after.remote()) == 1


def test_a_timeout_is_kept_where_everything_waits() -> None:
    @ray.remote(num_cpus=0)
    class Patient:
        def me(self, actor: Any) -> str:
            try:
                ray.get(actor.one.remote(), timeout=LONG_S)
            except GetTimeoutError:
                return "in time"
            return "at once"

        def one(self) -> int:
            return 1

    actor = Patient.remote()
    assert ray.get(actor.me.remote(actor)) == "in time"


def test_a_group_waits_for_another_that_a_task_removes() -> None:
    first = ray.util.placement_group([{"CPU": 2}])
    ray.get(first.ready(), timeout=60)
    second = ray.util.placement_group([{"CPU": 2}])

    @ray.remote(num_cpus=0)
    def removes(group: Any) -> None:
        threading.Event().wait(LONG_S)
        ray.util.remove_placement_group(group)

    removed = removes.remote(first)
    assert ray.get(second.ready()) is not None
    ray.get(removed)
    ray.util.remove_placement_group(second)


def test_an_actor_that_starts_again_is_waited_for() -> None:
    @ray.remote(num_cpus=0, max_restarts=1, max_task_retries=1)
    class Slow:
        def __init__(self) -> None:
            if ray.get_runtime_context().was_current_actor_reconstructed:
                threading.Event().wait(LONG_S)

        def crash_once(self) -> int:
            if not ray.get_runtime_context().was_current_actor_reconstructed:
                os._exit(1)
            return 1

    slow = Slow.remote()
    assert ray.get(slow.crash_once.remote()) == 1


def test_tasks_that_wait_for_values_that_their_driver_puts_later(gate: Callable[[str], Any]) -> None:
    @ray.remote(num_cpus=0)
    class Box:
        def __init__(self) -> None:
            self.event = threading.Event()

        def take(self) -> int:
            self.event.wait()
            return 1

        def put(self) -> None:
            self.event.set()

    box = Box.options(max_concurrency=3).remote()

    @ray.remote
    def takes() -> int:
        return int(ray.get(box.take.remote()))

    refs = [takes.remote() for _ in range(2)]
    assert ray.wait(refs, timeout=LONG_S)[0] == []
    ray.get(box.put.remote())
    assert ray.get(refs, timeout=60) == [1, 1]
