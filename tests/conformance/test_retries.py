"""Retries of tasks: worker crashes, chosen exceptions, and their limits."""

from __future__ import annotations

import os
import signal

import pytest
import ray
from ray.exceptions import RayTaskError, WorkerCrashedError

pytestmark = pytest.mark.usefixtures("cluster")


class Flaky(Exception):
    pass


class VeryFlaky(Flaky):
    pass


@ray.remote
def crash_until(attempts, n):
    """Ends its process until this is attempt number n."""
    if attempts.add() < n:
        os._exit(1)
    return attempts.count()


@ray.remote
def fail_until(attempts, n, error):
    """Raises until this is attempt number n."""
    if attempts.add() < n:
        raise error
    return attempts.count()


def test_core_11_crash_is_retried_by_default(tally):
    assert ray.get(crash_until.remote(tally("attempts"), 2), timeout=60) == 2


def test_core_11_default_is_three_retries(tally):
    attempts = tally("attempts")
    assert ray.get(crash_until.remote(attempts, 4), timeout=60) == 4


def test_core_11_default_of_the_environment(tally, monkeypatch):
    monkeypatch.setenv("RAY_TASK_MAX_RETRIES", "1")
    attempts = tally("attempts")

    @ray.remote(retry_exceptions=True)
    def fail():
        attempts.add()
        raise ValueError

    with pytest.raises(ValueError):
        ray.get(fail.remote(), timeout=60)
    assert attempts.count() == 2


def test_core_11_after_the_last_retry_worker_crashed_error(tally):
    attempts = tally("attempts")
    with pytest.raises(WorkerCrashedError):
        ray.get(crash_until.options(max_retries=1).remote(attempts, 99), timeout=60)
    assert attempts.count() == 2


def test_core_11_max_retries_zero_runs_once(tally):
    attempts = tally("attempts")
    with pytest.raises(WorkerCrashedError):
        ray.get(crash_until.options(max_retries=0).remote(attempts, 99), timeout=60)
    assert attempts.count() == 1


def test_core_11_max_retries_minus_one_goes_on_past_the_default(tally):
    assert ray.get(crash_until.options(max_retries=-1).remote(tally("attempts"), 6), timeout=60) == 6


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_core_11_worker_ended_by_a_signal_is_retried(tally, number):
    attempts = tally("attempts")

    @ray.remote(max_retries=1)
    def work():
        if attempts.add() == 1:
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        return "second attempt"

    assert ray.get(work.remote(), timeout=60) == "second attempt"


def test_core_11_user_exception_is_not_retried_by_default(tally):
    attempts = tally("attempts")
    with pytest.raises(Flaky):
        ray.get(fail_until.remote(attempts, 99, Flaky()))
    assert attempts.count() == 1


def test_core_11_retry_exceptions_true_retries_any(tally):
    retried = fail_until.options(retry_exceptions=True)
    assert ray.get(retried.remote(tally("attempts"), 3, Flaky())) == 3


def test_core_11_retry_exceptions_list_retries_what_it_names(tally):
    retried = fail_until.options(retry_exceptions=[Flaky])
    assert ray.get(retried.remote(tally("attempts"), 2, Flaky())) == 2


def test_core_11_retry_exceptions_list_retries_subclasses(tally):
    retried = fail_until.options(retry_exceptions=[Flaky])
    assert ray.get(retried.remote(tally("attempts"), 2, VeryFlaky())) == 2


def test_core_11_retry_exceptions_list_may_name_several(tally):
    retried = fail_until.options(retry_exceptions=[KeyError, ValueError])
    assert ray.get(retried.remote(tally("attempts"), 2, ValueError())) == 2


def test_core_11_retry_exceptions_list_leaves_others_alone(tally):
    attempts = tally("attempts")
    with pytest.raises(KeyError):
        ray.get(fail_until.options(retry_exceptions=[Flaky]).remote(attempts, 99, KeyError("k")))
    assert attempts.count() == 1


def test_core_11_base_class_of_the_named_one_is_not_retried(tally):
    attempts = tally("attempts")
    with pytest.raises(Flaky):
        ray.get(fail_until.options(retry_exceptions=[VeryFlaky]).remote(attempts, 99, Flaky()))
    assert attempts.count() == 1


def test_core_11_retry_exceptions_stops_after_max_retries(tally):
    attempts = tally("attempts")
    with pytest.raises(Flaky):
        ray.get(fail_until.options(max_retries=2, retry_exceptions=True).remote(attempts, 99, Flaky()))
    assert attempts.count() == 3


def test_core_11_last_exception_is_the_one_raised(tally):
    attempts = tally("attempts")

    @ray.remote(max_retries=2, retry_exceptions=True)
    def work():
        raise ValueError(f"attempt {attempts.add()}")

    with pytest.raises(ValueError, match="attempt 3"):
        ray.get(work.remote())


def test_core_11_exhausted_retries_raise_a_ray_task_error(tally):
    with pytest.raises(RayTaskError):
        ray.get(fail_until.options(max_retries=1, retry_exceptions=True).remote(tally("a"), 99, Flaky()))


def test_core_11_max_retries_zero_with_retry_exceptions_runs_once(tally):
    attempts = tally("attempts")
    with pytest.raises(Flaky):
        ray.get(fail_until.options(max_retries=0, retry_exceptions=True).remote(attempts, 99, Flaky()))
    assert attempts.count() == 1


def test_core_11_retry_sees_the_same_arguments(tally):
    attempts = tally("attempts")

    @ray.remote(max_retries=1, retry_exceptions=True)
    def work(values, ref_value):
        values.append(1)
        if attempts.add() == 1:
            raise Flaky
        return values, ref_value

    assert ray.get(work.remote([0], ray.put("same"))) == ([0, 1], "same")


def test_core_11_retry_keeps_several_returns(tally):
    attempts = tally("attempts")

    @ray.remote(max_retries=1, retry_exceptions=True, num_returns=2)
    def work():
        if attempts.add() == 1:
            raise Flaky
        return 1, 2

    assert ray.get(work.remote()) == [1, 2]


def test_core_11_crash_of_a_worker_does_not_fail_what_waits_behind_it(tally):
    attempts = tally("attempts")
    crashing = crash_until.options(num_cpus=2).remote(attempts, 2)
    behind = [fail_until.remote(tally(f"b{i}"), 1, Flaky()) for i in range(3)]
    assert ray.get(crashing, timeout=60) == 2
    assert ray.get(behind, timeout=60) == [1, 1, 1]


def test_core_11_dependent_of_a_retried_task_gets_its_value(tally):
    @ray.remote
    def double(x):
        return 2 * x

    assert ray.get(double.remote(crash_until.remote(tally("attempts"), 2)), timeout=60) == 4


def test_core_11_generator_is_retried_after_a_crash(tally):
    attempts = tally("attempts")

    @ray.remote(max_retries=1)
    def stream():
        first = attempts.add() == 1
        yield 0
        if first:
            os._exit(1)
        yield 1

    assert [ray.get(ref, timeout=60) for ref in stream.remote()] == [0, 1]


def test_core_11_option_in_the_decorator_counts_too(tally):
    attempts = tally("attempts")

    @ray.remote(max_retries=0)
    def work():
        attempts.add()
        os._exit(1)

    with pytest.raises(WorkerCrashedError):
        ray.get(work.remote(), timeout=60)
    assert attempts.count() == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_retries": -2}, ValueError),
        ({"max_retries": "three"}, TypeError),
        ({"retry_exceptions": "ValueError"}, TypeError),
        ({"retry_exceptions": [1]}, (TypeError, ValueError)),
    ],
    ids=["below-minus-one", "not-a-number", "a-name", "not-a-class"],
)
def test_core_11_bad_retry_options_are_refused(options, error):
    with pytest.raises(error):

        @ray.remote(**options)
        def work():
            pass


def test_core_11_retry_exceptions_may_not_be_an_instance():
    with pytest.raises((TypeError, ValueError)):
        fail_until.options(retry_exceptions=[ValueError("an instance")])


def test_core_11_crash_is_an_attempt_and_an_exception_is_too(tally):
    attempts = tally("attempts")

    @ray.remote(max_retries=2, retry_exceptions=True)
    def work():
        attempt = attempts.add()
        if attempt == 1:
            os._exit(1)
        if attempt == 2:
            raise Flaky
        return attempt

    assert ray.get(work.remote(), timeout=60) == 3
