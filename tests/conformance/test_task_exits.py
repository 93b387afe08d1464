"""Tasks that end by SystemExit, KeyboardInterrupt and the like, and what cancelled tasks raise."""

from __future__ import annotations

import sys
import threading
import time

import pytest
import ray
from ray.exceptions import RayError, RayTaskError, TaskCancelledError, WorkerCrashedError

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def loop(started=None):
    if started is not None:
        started.open()
    while True:
        time.sleep(0.01)


@ray.remote
def echo(value):
    return value


@pytest.mark.parametrize("code", [0, 1, 7, "words", None])
def test_system_exit_is_a_crash_of_the_worker(code):
    @ray.remote(max_retries=0)
    def leave():
        raise SystemExit(code)

    with pytest.raises(WorkerCrashedError, match="The worker died unexpectedly while executing this task"):
        ray.get(leave.remote())


@pytest.mark.parametrize("retries", [1, 3])
def test_system_exit_is_tried_again(tally, retries):
    attempts = tally("attempts")

    @ray.remote(max_retries=retries)
    def leave():
        if attempts.add() <= retries:
            sys.exit(1)
        return "stayed"

    assert ray.get(leave.remote()) == "stayed"


def test_system_exit_in_a_stream_is_a_crash():
    @ray.remote(max_retries=0)
    def stream():
        yield 1
        sys.exit(1)

    first, second = stream.remote()
    assert ray.get(first) == 1
    with pytest.raises(WorkerCrashedError):
        ray.get(second)


def test_system_exit_that_the_task_catches_is_its_own_affair():
    @ray.remote
    def careful():
        try:
            sys.exit(3)
        except SystemExit as error:
            return error.code

    assert ray.get(careful.remote()) == 3


def test_system_exit_in_a_thread_of_a_task_ends_the_thread_only():
    @ray.remote
    def threaded():
        thread = threading.Thread(target=sys.exit)
        thread.start()
        thread.join()
        return "done"

    assert ray.get(threaded.remote()) == "done"


def test_session_is_usable_after_system_exits():
    @ray.remote(max_retries=0)
    def leave():
        sys.exit(1)

    refs = [leave.remote() for _ in range(3)]
    for ref in refs:
        with pytest.raises(WorkerCrashedError):
            ray.get(ref)
    assert ray.get([echo.remote(i) for i in range(4)]) == [0, 1, 2, 3]


@pytest.mark.parametrize("options", [{"max_retries": 0}, {"max_retries": 2, "retry_exceptions": True}])
def test_keyboard_interrupt_of_a_tasks_own_cancels_it(tally, options):
    attempts = tally("attempts")

    @ray.remote(**options)
    def interrupt():
        attempts.add()
        raise KeyboardInterrupt("by hand")

    with pytest.raises(TaskCancelledError) as caught:
        ray.get(interrupt.remote())
    assert isinstance(caught.value, RayTaskError)
    assert isinstance(caught.value.cause, TaskCancelledError)
    assert attempts.count() == 1


def test_base_exception_of_ones_own_arrives():
    class Own(BaseException):
        pass

    @ray.remote
    def fail():
        raise Own("own")

    with pytest.raises(RayTaskError, match="own") as caught:
        ray.get(fail.remote())
    assert type(caught.value.cause).__name__ == "Own"


# ---------------------------------------------------------------- cancelled tasks


def test_task_cancelled_while_it_ran_raises_a_task_error(gate):
    started = gate("started")
    ref = loop.remote(started)
    started.wait()
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError) as caught:
        ray.get(ref, timeout=60)
    assert isinstance(caught.value, RayTaskError)
    assert isinstance(caught.value.cause, TaskCancelledError)


def test_error_of_a_cancelled_task_says_where_it_was(gate):
    started = gate("started")
    ref = loop.remote(started)
    started.wait()
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError, match=r"time\.sleep"):
        ray.get(ref, timeout=60)


def test_task_cancelled_by_another_task_raises_a_task_error(gate):
    started = gate("started")

    @ray.remote
    def cancel(refs):
        ray.cancel(refs[0])

    ref = loop.remote(started)
    started.wait()
    ray.get(cancel.remote([ref]))
    with pytest.raises(RayTaskError) as caught:
        ray.get(ref, timeout=60)
    assert isinstance(caught.value, TaskCancelledError)


def test_task_that_gets_a_cancelled_one_fails_with_the_same(gate):
    started, waiting = gate("started"), gate("waiting")

    @ray.remote
    def outer(refs):
        waiting.open()
        return ray.get(refs[0])

    ref = loop.remote(started)
    started.wait()
    waits = outer.remote([ref])
    waiting.wait()
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(waits, timeout=60)


def test_task_on_a_cancelled_argument_fails_with_the_same(gate):
    started = gate("started")
    ref = loop.remote(started)
    waits = echo.remote(ref)
    started.wait()
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(waits, timeout=60)


def test_cancelled_stream_keeps_what_it_made(gate):
    started = gate("started")

    @ray.remote
    def stream():
        yield 1
        started.open()
        while True:
            time.sleep(0.01)

    refs = stream.remote()
    assert ray.get(next(refs)) == 1
    started.wait()
    ray.cancel(refs)
    with pytest.raises(TaskCancelledError):
        ray.get(next(refs))
    with pytest.raises(StopIteration):
        next(refs)


def test_task_that_swallows_the_interrupt_gives_its_value(gate):
    started = gate("started")

    @ray.remote
    def stubborn():
        try:
            started.open()
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            return "value", ray.get_runtime_context().is_canceled()

    ref = stubborn.remote()
    started.wait()
    ray.cancel(ref)
    assert ray.get(ref, timeout=60) == ("value", True)


def test_cancelled_error_of_a_waiting_task_is_a_ray_error(gate):
    release = gate("release")

    @ray.remote(num_cpus=2)
    def hold():
        release.wait()

    holder = hold.remote()
    ref = echo.remote(1)
    ray.cancel(ref)
    with pytest.raises(RayError) as caught:
        ray.get(ref, timeout=60)
    assert isinstance(caught.value, TaskCancelledError)
    release.open()
    ray.get(holder)


# ---------------------------------------------------------------- is_canceled


def test_is_canceled_is_for_workers():
    with pytest.raises(RuntimeError, match="only available when the process is a worker"):
        ray.get_runtime_context().is_canceled()


def test_is_canceled_is_false_in_a_task_that_was_not():
    @ray.remote
    def ask():
        return ray.get_runtime_context().is_canceled()

    assert ray.get(ask.remote()) is False


def test_is_canceled_is_false_in_a_call_that_was_not():
    @ray.remote
    class Actor:
        def ask(self):
            return ray.get_runtime_context().is_canceled()

    assert ray.get(Actor.remote().ask.remote()) is False


def test_is_canceled_is_not_for_asyncio_actors():
    @ray.remote
    class Actor:
        async def ask(self):
            return ray.get_runtime_context().is_canceled()

    with pytest.raises(RuntimeError):
        ray.get(Actor.remote().ask.remote())


@pytest.mark.parametrize("concurrency", [1, 2])
def test_call_that_sees_that_it_is_canceled_raises_all_the_same(gate, concurrency):
    started, seen = gate("started"), gate("seen")

    @ray.remote(max_concurrency=concurrency)
    class Actor:
        def work(self):
            started.open()
            while not ray.get_runtime_context().is_canceled():
                time.sleep(0.01)
            seen.open()
            return "saw it"

    ref = Actor.remote().work.remote()
    started.wait()
    ray.cancel(ref)
    seen.wait()
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=60)
