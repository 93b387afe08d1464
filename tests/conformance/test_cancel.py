"""``cancel``: tasks that wait, tasks that run, tasks that are done, and their children."""

from __future__ import annotations

import time

import pytest
import ray
from ray.exceptions import GetTimeoutError, RayError, TaskCancelledError, WorkerCrashedError
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("cluster")

# Both are fine: what was cancelled while it ran, and what never began.
CANCELLED = (TaskCancelledError, WorkerCrashedError)


@ray.remote
def held(started, release):
    started.open()
    release.wait(60)
    return "not cancelled"


@ray.remote
def echo(value):
    return value


@pytest.fixture
def running(gate):
    """A task that runs until it is cancelled or the test ends."""
    started, release = gate("started"), gate("release")
    ref = held.remote(started, release)
    started.wait()
    yield ref
    release.open()


@pytest.fixture
def both_cpus_taken(gate):
    started, release = gate("taken"), gate("give-back")
    ref = held.options(num_cpus=2).remote(started, release)
    started.wait()
    yield
    release.open()
    ray.get(ref)


def test_core_18_queued_task_is_cancelled_at_once(both_cpus_taken):
    ref = echo.remote(1)
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=30)


def test_core_18_queued_task_never_runs(gate):
    started, release, ran = gate("started"), gate("release"), gate("ran")

    @ray.remote(num_cpus=2)
    def mark():
        ran.open()

    blocker = held.options(num_cpus=2).remote(started, release)
    started.wait()
    ref = mark.remote()
    ray.cancel(ref)
    release.open()
    ray.get(blocker)
    with pytest.raises(TaskCancelledError):
        ray.get(ref)
    ray.get(echo.options(num_cpus=2).remote(1))
    assert not ran.is_open()


@pytest.mark.chosen_difference(
    "Ray aborts the driver, now and then, once the input of the task is there",
    id="D-cancel-dependent",
)
def test_core_18_task_waiting_for_its_argument_is_cancelled_at_once(running):
    ref = echo.remote(running)
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=30)


@pytest.mark.chosen_difference(
    "Ray aborts the driver, now and then, once the input of the task is there",
    id="D-cancel-dependent",
)
def test_core_18_cancelling_a_dependent_leaves_its_input_alone(gate):
    started, release = gate("started"), gate("release")
    source = held.remote(started, release)
    dependent = echo.remote(source)
    ray.cancel(dependent)
    release.open()
    assert ray.get(source) == "not cancelled"


def test_core_18_running_python_loop_is_interrupted(running):
    ray.cancel(running)
    with pytest.raises(TaskCancelledError):
        ray.get(running, timeout=30)


def test_core_18_error_of_a_cancelled_task_is_a_ray_error(running):
    ray.cancel(running)
    with pytest.raises(RayError):
        ray.get(running, timeout=30)


def test_core_18_task_sees_keyboard_interrupt(gate):
    started, release, seen = gate("started"), gate("release"), gate("seen")

    @ray.remote
    def watch():
        started.open()
        try:
            release.wait(60)
        except KeyboardInterrupt:
            seen.open()
            raise

    ref = watch.remote()
    started.wait()
    ray.cancel(ref)
    seen.wait()
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=30)


def test_core_18_finally_of_a_cancelled_task_runs(gate):
    started, release, cleaned = gate("started"), gate("release"), gate("cleaned")

    @ray.remote
    def tidy():
        try:
            started.open()
            release.wait(60)
        finally:
            cleaned.open()

    ref = tidy.remote()
    started.wait()
    ray.cancel(ref)
    cleaned.wait()
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=30)


def test_core_18_worker_is_usable_after_a_cancelled_task(running):
    ray.cancel(running)
    with pytest.raises(TaskCancelledError):
        ray.get(running, timeout=30)
    assert ray.get([echo.remote(i) for i in range(4)]) == [0, 1, 2, 3]


def test_core_18_cpu_of_a_cancelled_task_is_given_back(running):
    ray.cancel(running)
    assert ray.get(echo.options(num_cpus=2).remote("ran"), timeout=30) == "ran"


def test_core_18_force_ends_a_running_task(running):
    ray.cancel(running, force=True)
    with pytest.raises(CANCELLED):
        ray.get(running, timeout=30)


def test_core_18_force_ends_a_task_that_swallows_the_interrupt(gate):
    started = gate("started")

    @ray.remote
    def stubborn():
        started.open()
        while True:
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                continue

    ref = stubborn.remote()
    started.wait()
    ray.cancel(ref, force=True)
    with pytest.raises(CANCELLED):
        ray.get(ref, timeout=30)


def test_core_18_force_on_a_queued_task(both_cpus_taken):
    ref = echo.remote(1)
    ray.cancel(ref, force=True)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=30)


def test_core_18_forced_task_is_not_retried(gate, tally):
    started, release, attempts = gate("started"), gate("release"), tally("attempts")

    @ray.remote(max_retries=5)
    def work():
        attempts.add()
        started.open()
        release.wait(60)

    ref = work.remote()
    started.wait()
    ray.cancel(ref, force=True)
    with pytest.raises(CANCELLED):
        ray.get(ref, timeout=30)
    ray.get(echo.options(num_cpus=2).remote(1))
    assert attempts.count() == 1


def test_core_18_cancelled_task_is_not_retried_by_retry_exceptions(gate, tally):
    started, release, attempts = gate("started"), gate("release"), tally("attempts")

    @ray.remote(max_retries=5, retry_exceptions=True)
    def work():
        attempts.add()
        started.open()
        release.wait(60)

    ref = work.remote()
    started.wait()
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=30)
    ray.get(echo.options(num_cpus=2).remote(1))
    assert attempts.count() == 1


def test_core_18_cancelling_a_finished_task_changes_nothing():
    ref = echo.remote("done")
    ray.get(ref)
    ray.cancel(ref)
    assert ray.get(ref) == "done"


def test_core_18_cancelling_twice_is_harmless(running):
    ray.cancel(running)
    ray.cancel(running)
    with pytest.raises(TaskCancelledError):
        ray.get(running, timeout=30)


def test_core_18_cancel_returns_none(running):
    assert ray.cancel(running) is None


def test_core_18_dependents_of_a_cancelled_task_fail(running):
    dependent = echo.remote(running)
    ray.cancel(running)
    with pytest.raises(RayError):
        ray.get(dependent, timeout=30)


def test_core_18_every_result_of_a_cancelled_task_raises(gate):
    started, release = gate("started"), gate("release")
    refs = held.options(num_returns=2).remote(started, release)
    started.wait()
    ray.cancel(refs[0])
    for ref in refs:
        with pytest.raises(TaskCancelledError):
            ray.get(ref, timeout=30)


def test_core_18_children_are_cancelled_too(gate):
    started, release = gate("started"), gate("release")

    @ray.remote
    class Box:
        def keep(self, refs):
            self.refs = refs

        def child(self):
            return self.refs

    @ray.remote
    def parent(box):
        child = held.remote(started, release)
        ray.get(box.keep.remote([child]))
        return ray.get(child)

    box = Box.remote()
    ref = parent.remote(box)
    started.wait()
    (child,) = wait_for(lambda: ray.get(box.child.remote()), what="the child's ref")
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=30)
    with pytest.raises(TaskCancelledError):
        ray.get(child, timeout=30)


def test_core_18_children_live_on_without_recursive(gate):
    started, release = gate("started"), gate("release")
    finished = gate("finished")

    @ray.remote
    def child():
        started.open()
        release.wait(60)
        finished.open()

    @ray.remote
    def parent():
        return ray.get(child.remote())

    ref = parent.remote()
    started.wait()
    ray.cancel(ref, recursive=False)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=30)
    release.open()
    finished.wait()


def test_core_18_wait_reports_a_cancelled_task_as_ready(running):
    ray.cancel(running)
    assert ray.wait([running], timeout=30) == ([running], [])


@pytest.mark.parametrize("value", [5, None, "ref", [1]])
def test_core_18_cancel_refuses_what_is_no_ref(value):
    with pytest.raises(TypeError):
        ray.cancel(value)


def test_core_18_is_canceled_tells_a_task_that_it_should_stop(gate):
    started, noticed = gate("started"), gate("noticed")

    @ray.remote
    class Polite:
        def work(self):
            started.open()
            wait_for(ray.get_runtime_context().is_canceled, 30, "the call to be cancelled")
            noticed.open()

    ref = Polite.remote().work.remote()
    started.wait()
    ray.cancel(ref)
    noticed.wait()
    with pytest.raises(RayError):
        ray.get(ref, timeout=30)


def test_core_18_get_with_timeout_does_not_cancel(gate):
    started, release = gate("started"), gate("release")
    ref = held.remote(started, release)
    started.wait()
    with pytest.raises(GetTimeoutError):
        ray.get(ref, timeout=0.01)
    release.open()
    assert ray.get(ref) == "not cancelled"


@pytest.mark.chosen_difference("in Ray a call into C is not interrupted until it ends", id="D-cancel-sleep")
def test_core_18_cancel_interrupts_a_long_sleep(gate):
    started = gate("started")

    @ray.remote
    def sleep():
        started.open()
        time.sleep(60)

    ref = sleep.remote()
    started.wait()
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=10)


@pytest.mark.chosen_difference("Ray's message names the task by id only", id="D-messages")
def test_core_18_error_names_the_cancelled_function(running):
    ray.cancel(running)
    with pytest.raises(TaskCancelledError, match="held"):
        ray.get(running, timeout=30)
