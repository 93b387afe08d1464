"""Local mode beyond its conformance tests: order, waiting, errors, and `ray.util`."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate as ray
from skate.client.session import session
from skate.exceptions import (
    ActorDiedError,
    RayTaskError,
    TaskUnschedulableError,
)


@pytest.fixture(autouse=True)
def local() -> Iterator[None]:
    ray.init(num_cpus=2, num_gpus=2, resources={"widget": 1}, local_mode=True, namespace="here")
    yield
    ray.shutdown()


@ray.remote
def echo(value: Any) -> Any:
    return value


@ray.remote
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    def add(self, n: int = 1) -> int:
        self.value += n
        return self.value


# tasks


def test_a_task_has_run_in_this_thread_when_remote_returns() -> None:
    here = threading.get_ident()

    @ray.remote
    def note() -> int:
        return threading.get_ident()

    ref = note.remote()
    assert ray.wait([ref], timeout=0) == ([ref], [])
    assert ray.get(ref) == here


def test_no_process_no_thread_and_no_descriptor_is_needed() -> None:
    files, threads = set(os.listdir("/proc/self/fd")), threading.active_count()
    ray.get([echo.remote(i) for i in range(3)])
    ray.get(Counter.remote().add.remote())
    assert threading.active_count() == threads
    assert set(os.listdir("/proc/self/fd")) == files
    children = f"/proc/self/task/{threading.get_native_id()}/children"
    assert Path(children).read_text() == ""


def test_the_traceback_names_the_failing_line_and_the_submission() -> None:
    @ray.remote
    def fail() -> None:
        raise KeyError("the reason")

    with pytest.raises(KeyError, match="the reason") as caught:
        ray.get(fail.remote())
    text = str(caught.value)
    assert isinstance(caught.value, RayTaskError)
    assert "test_local_mode.py" in text and 'raise KeyError("the reason")' in text


def test_the_task_sees_a_copy_and_arrays_are_read_only() -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(4)

    @ray.remote
    def write(given: Any) -> str:
        with pytest.raises(ValueError, match="read-only"):
            given[0] = 1
        return "tried"

    assert ray.get(write.remote(array)) == "tried"
    array[0] = 2
    back = ray.get(ray.put(array))
    assert not back.flags.writeable


def test_large_values_go_through_the_store_and_are_freed() -> None:
    process = session.current()
    big = bytes(5_000_000)
    ref = echo.remote(big)
    assert len(ray.get(ref)) == len(big)
    assert process.mapping.used >= len(big)
    del ref
    gc.collect()
    ray.get(echo.remote(1))
    assert process.mapping.used == 0


def test_deep_recursion_does_not_run_out_of_cpus() -> None:
    @ray.remote
    def down(n: int) -> int:
        return 0 if n == 0 else 1 + ray.get(down.remote(n - 1))

    assert ray.get(down.remote(10)) == 10
    assert ray.available_resources()["CPU"] == 2


def test_retries() -> None:
    count = Counter.remote()

    @ray.remote(max_retries=3, retry_exceptions=[ValueError])
    def unsteady(counter: Any) -> int:
        n = ray.get(counter.add.remote())
        if n < 3:
            raise ValueError(n)
        return n

    assert ray.get(unsteady.remote(count)) == 3


def test_a_failed_argument_fails_the_task() -> None:
    @ray.remote
    def fail() -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        ray.get(echo.remote(fail.remote()))


def test_several_results() -> None:
    @ray.remote(num_returns=2)
    def pair() -> tuple[int, int]:
        return 1, 2

    assert ray.get(pair.remote()) == [1, 2]
    assert pair.options(num_returns=0).remote() is None


def test_infeasible_requests_are_refused() -> None:
    with pytest.raises(TaskUnschedulableError, match="CPU"):
        ray.get(echo.options(num_cpus=99).remote(1))


def test_resources_come_and_go() -> None:
    assert ray.cluster_resources()["widget"] == 1

    @ray.remote(resources={"widget": 1})
    def free() -> dict[str, float]:
        return ray.available_resources()

    assert "widget" not in ray.get(free.remote())
    assert ray.available_resources()["widget"] == 1


def test_gpus_are_assigned_and_shown_to_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    @ray.remote(num_gpus=1)
    def mine() -> tuple[list[int], str | None]:
        return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")

    assert ray.get(mine.remote()) == ([0], "0")
    assert ray.get(mine.options(num_gpus=2).remote()) == ([0, 1], "0,1")
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert ray.get_gpu_ids() == []


def test_variables_of_a_runtime_environment_are_set_for_the_task_alone() -> None:
    @ray.remote(runtime_env={"env_vars": {"LOCAL_SETTING": "on"}})
    def setting() -> str | None:
        return os.environ.get("LOCAL_SETTING")

    assert ray.get(setting.remote()) == "on"
    assert "LOCAL_SETTING" not in os.environ


def test_the_context_is_that_of_the_running_task() -> None:
    @ray.remote
    def ids() -> tuple[str | None, str | None]:
        before = ray.get_runtime_context().get_task_id()
        ray.get(echo.remote(1))
        return before, ray.get_runtime_context().get_task_id()

    first, again = ray.get(ids.remote())
    assert first == again and first is not None
    assert ray.get_runtime_context().get_task_id() is None
    assert ray.get_runtime_context().namespace == "here"


def test_cancel_of_what_has_ended_does_nothing() -> None:
    ref = echo.remote(1)
    ray.cancel(ref)
    assert ray.get(ref) == 1


# generators


def test_a_stream_is_made_as_it_is_read() -> None:

    @ray.remote
    class Source:
        def endless(self) -> Iterator[int]:
            n = 0
            while True:
                yield n
                n += 1

    stream = Source.remote().endless.remote()
    assert [ray.get(next(stream)) for _ in range(3)] == [0, 1, 2]
    stream.close()


def test_a_stream_that_fails_ends_with_its_error() -> None:
    @ray.remote
    def two() -> Iterator[int]:
        yield 1
        raise KeyError("after one")

    refs = list(two.remote())
    assert ray.get(refs[0]) == 1
    with pytest.raises(KeyError, match="after one"):
        ray.get(refs[1])


def test_streams_hold_no_cpu_between_values() -> None:
    @ray.remote
    def count() -> Iterator[int]:
        yield from range(3)

    streams = [count.remote() for _ in range(4)]
    assert ray.get(echo.remote("still")) == "still"
    assert [[ray.get(ref) for ref in stream] for stream in streams] == [[0, 1, 2]] * 4
    assert ray.available_resources()["CPU"] == 2


def test_the_end_of_a_stream_can_be_waited_for() -> None:
    @ray.remote
    def count() -> Iterator[int]:
        yield from range(3)

    stream = count.remote()
    ray.get(stream.completed())
    assert len(list(stream)) == 3


def test_dynamic_returns() -> None:
    def count() -> Iterator[int]:
        yield from range(3)

    with pytest.warns(DeprecationWarning):
        refs = ray.get(ray.remote(count).options(num_returns="dynamic").remote())
    assert [ray.get(ref) for ref in refs] == [0, 1, 2]


# actors


def test_named_actors_and_kill() -> None:
    counter = Counter.options(name="tally").remote(1)
    assert ray.get(ray.get_actor("tally").add.remote()) == 2
    ray.kill(counter)
    with pytest.raises(ActorDiedError, match="kill"):
        ray.get(counter.add.remote())
    with pytest.raises(ValueError, match="tally"):
        ray.get_actor("tally")


def test_an_actor_ends_with_its_last_handle() -> None:

    @ray.remote(num_cpus=1)
    class Held:
        def hi(self) -> str:
            return "hi"

    held = Held.remote()
    assert ray.get(held.hi.remote()) == "hi"
    assert ray.available_resources()["CPU"] == 1
    del held
    gc.collect()
    ray.get(echo.remote(1))
    assert ray.available_resources()["CPU"] == 2


def test_exit_actor() -> None:
    @ray.remote
    class Leaver:
        def leave(self) -> None:
            ray.actor.exit_actor()

    leaver = Leaver.remote()
    with pytest.raises(ActorDiedError):
        ray.get(leaver.leave.remote())
    with pytest.raises(ActorDiedError):
        ray.get(leaver.leave.remote())


def test_a_constructor_that_fails() -> None:
    @ray.remote
    class Broken:
        def __init__(self) -> None:
            raise ValueError("no good")

        def hi(self) -> None: ...

    with pytest.raises(ActorDiedError, match="no good"):
        ray.get(Broken.remote().hi.remote())


def test_an_actor_asks_itself_only_after_its_method_has_ended() -> None:
    @ray.remote
    class Selfish:
        def __init__(self) -> None:
            self.inside = False

        def outer(self) -> Any:
            self.inside = True
            ref = ray.get_runtime_context().current_actor.inner.remote()
            self.inside = False
            return [ref]

        def inner(self) -> bool:
            return self.inside

        def stuck(self) -> Any:
            return ray.get(ray.get_runtime_context().current_actor.inner.remote())

    selfish = Selfish.remote()
    assert ray.get(ray.get(selfish.outer.remote())[0]) is False
    with pytest.raises(RuntimeError, match=r"forever(.|\n)*Selfish\.inner"):
        ray.get(selfish.stuck.remote())


def test_an_actor_with_state_is_restarted() -> None:
    counter = Counter.options(max_restarts=1).remote()
    assert ray.get([counter.add.remote(), counter.add.remote()]) == [1, 2]
    ray.kill(counter, no_restart=False)
    assert ray.get(counter.add.remote()) == 1


_barrier = threading.Barrier(2, timeout=10)


def wait_at_the_barrier() -> None:
    """Wait at the barrier. This function is pickled by name, so that all tasks share one barrier."""
    _barrier.wait()


@ray.remote
def meet() -> int:
    wait_at_the_barrier()
    return threading.get_ident()


def test_two_threads_run_side_by_side() -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(ray.get(meet.remote()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 2


# ray.util


def test_placement_groups() -> None:
    from skate.util import get_current_placement_group, placement_group, remove_placement_group
    from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = placement_group([{"CPU": 1}])
    assert group.wait(0) and ray.get(group.ready()) == group

    @ray.remote
    def where() -> Any:
        return get_current_placement_group()

    inside = where.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
    assert ray.get(inside.remote()) == group
    assert ray.available_resources()["CPU"] == 1
    remove_placement_group(group)
    assert ray.available_resources()["CPU"] == 2


def test_actor_pool_and_multiprocessing_pool() -> None:
    from skate.util import ActorPool
    from skate.util.multiprocessing import Pool

    pool = ActorPool([Counter.remote(), Counter.remote()])
    assert sorted(pool.map(lambda actor, n: actor.add.remote(n), [1, 2, 3])) == [1, 2, 4]
    with Pool(2) as processes:
        assert processes.map(abs, [-1, -2, 3]) == [1, 2, 3]
