"""How an actor's crash shows, and how it starts again."""

from __future__ import annotations

import os
from typing import Any

import pytest
import ray
from mortals import answers, gone, mortal_class
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError

pytestmark = pytest.mark.usefixtures("cluster")


def test_core_23_crash_without_restarts_raises_actor_died() -> None:
    actor = mortal_class().remote()
    with pytest.raises(ActorDiedError) as raised:
        ray.get(actor.crash.remote(), timeout=30)
    assert isinstance(raised.value, RayActorError)
    assert "Mortal" in str(raised.value)
    assert raised.value.actor_init_failed is False


def test_core_23_every_later_call_raises_actor_died() -> None:
    actor = mortal_class().remote()
    refs = [actor.crash.remote(), actor.count.remote()]
    for ref in refs:
        with pytest.raises(ActorDiedError):
            ray.get(ref, timeout=30)
    with pytest.raises(ActorDiedError):
        ray.get(actor.count.remote(), timeout=30)


def test_core_23_error_carries_the_actor_id() -> None:
    actor = mortal_class().remote()
    identity = ray.get(actor.id.remote())
    with pytest.raises(ActorDiedError) as raised:
        ray.get(actor.crash.remote(), timeout=30)
    assert raised.value.actor_id == identity


def test_core_23_crash_with_restarts_left_makes_the_call_unavailable() -> None:
    actor = mortal_class().options(max_restarts=1).remote()
    with pytest.raises(ActorUnavailableError) as raised:
        ray.get(actor.crash.remote(), timeout=30)
    assert isinstance(raised.value, RayActorError)


def test_core_23_next_call_after_a_restart_sees_a_new_constructor_run() -> None:
    actor = mortal_class().options(max_restarts=1).remote()
    assert ray.get([actor.count.remote(), actor.count.remote()]) == [1, 2]
    with pytest.raises(ActorUnavailableError):
        ray.get(actor.crash.remote(), timeout=30)
    assert answers(lambda: actor.count.remote()) == 1


def test_core_23_constructor_arguments_are_used_again() -> None:
    @ray.remote(max_restarts=1)
    class Given:
        def __init__(self, value: int, ref_value: int) -> None:
            self.value = value + ref_value

        def read(self) -> int:
            return self.value

        def crash(self) -> None:
            os._exit(1)

    actor = Given.remote(2, ray.put(40))
    with pytest.raises(ActorUnavailableError):
        ray.get(actor.crash.remote(), timeout=30)
    assert answers(lambda: actor.read.remote()) == 42


def test_core_23_was_current_actor_reconstructed() -> None:
    actor = mortal_class().options(max_restarts=1).remote()
    assert ray.get(actor.reconstructed.remote()) is False
    with pytest.raises(ActorUnavailableError):
        ray.get(actor.crash.remote(), timeout=30)
    assert answers(lambda: actor.reconstructed.remote()) is True


def test_core_23_actor_keeps_its_id_over_a_restart() -> None:
    actor = mortal_class().options(max_restarts=1).remote()
    before = ray.get(actor.id.remote())
    with pytest.raises(ActorUnavailableError):
        ray.get(actor.crash.remote(), timeout=30)
    assert answers(lambda: actor.id.remote()) == before


def test_core_23_max_restarts_is_a_bound() -> None:
    actor = mortal_class().options(max_restarts=1).remote()
    with pytest.raises(ActorUnavailableError):
        ray.get(actor.crash.remote(), timeout=30)
    assert answers(lambda: actor.count.remote()) == 1
    with pytest.raises(ActorDiedError):
        ray.get(actor.crash.remote(), timeout=30)
    with pytest.raises(ActorDiedError):
        ray.get(actor.count.remote(), timeout=30)


def test_core_23_infinite_restarts() -> None:
    actor = mortal_class().options(max_restarts=-1).remote()
    for _ in range(3):
        with pytest.raises(ActorUnavailableError):
            ray.get(actor.crash.remote(), timeout=30)
        assert answers(lambda: actor.count.remote()) == 1


def test_core_23_max_task_retries_runs_the_call_again(tally: Any) -> None:
    actor = mortal_class().options(max_restarts=1, max_task_retries=1).remote()
    assert ray.get(actor.crash_once.remote(tally("attempts")), timeout=60) == 2


def test_core_23_infinite_task_retries(tally: Any) -> None:
    attempts = tally("attempts")

    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class Flaky:
        def work(self) -> int:
            if attempts.add() < 3:
                os._exit(1)
            return attempts.count()

    assert ray.get(Flaky.remote().work.remote(), timeout=90) == 3


def test_core_23_task_retries_per_method_win(tally: Any) -> None:
    attempts = tally("attempts")

    @ray.remote(max_restarts=-1)
    class Flaky:
        @ray.method(max_task_retries=1)
        def work(self) -> int:
            if attempts.add() == 1:
                os._exit(1)
            return attempts.count()

    assert ray.get(Flaky.remote().work.remote(), timeout=60) == 2


def test_core_23_task_retries_run_out(tally: Any) -> None:
    attempts = tally("attempts")

    @ray.remote(max_restarts=-1, max_task_retries=1)
    class Doomed:
        def work(self) -> None:
            attempts.add()
            os._exit(1)

    with pytest.raises(RayActorError):
        ray.get(Doomed.remote().work.remote(), timeout=60)
    assert attempts.count() == 2


def test_core_23_user_errors_are_not_retried_by_default(tally: Any) -> None:
    attempts = tally("attempts")

    @ray.remote(max_restarts=-1, max_task_retries=2)
    class Raises:
        def work(self) -> None:
            attempts.add()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        ray.get(Raises.remote().work.remote())
    assert attempts.count() == 1


@pytest.mark.parametrize(("retry", "expected"), [(True, 3), ([ValueError], 3), ([KeyError], 1)])
def test_core_23_retry_exceptions_of_a_method(retry: Any, expected: int, tally: Any) -> None:
    attempts = tally("attempts")

    @ray.remote
    class Raises:
        @ray.method(max_task_retries=2, retry_exceptions=retry)
        def work(self) -> None:
            attempts.add()
            raise ValueError("still no")

    with pytest.raises(ValueError, match="still no"):
        ray.get(Raises.remote().work.remote(), timeout=60)
    assert attempts.count() == expected


def test_core_23_crash_in_the_constructor_is_actor_died() -> None:
    @ray.remote
    class Crashes:
        def __init__(self) -> None:
            os._exit(1)

        def hi(self) -> None: ...

    with pytest.raises(ActorDiedError):
        ray.get(Crashes.remote().hi.remote(), timeout=60)


def test_core_23_crash_in_the_constructor_is_restarted(tally: Any) -> None:
    starts = tally("starts")

    @ray.remote(max_restarts=1)
    class CrashesOnce:
        def __init__(self) -> None:
            if starts.add() == 1:
                os._exit(1)

        def hi(self) -> str:
            return "hi"

    actor = CrashesOnce.remote()
    assert answers(lambda: actor.hi.remote()) == "hi"


def test_core_23_a_killed_process_counts_as_a_crash() -> None:
    actor = mortal_class().options(max_restarts=1).remote()
    pid = ray.get(actor.pid.remote())
    os.kill(pid, 9)
    gone(pid)
    assert answers(lambda: actor.pid.remote()) != pid


def test_calls_sent_before_a_crash_fail_with_the_one_that_ran(gate: Any) -> None:
    actor = mortal_class().options(max_restarts=1).remote()
    pid = ray.get(actor.pid.remote())
    started = gate("started")
    sent = [actor.hold.remote(started, gate("release")), actor.count.remote(), actor.count.remote()]
    started.wait()
    os.kill(pid, 9)
    for ref in sent:
        with pytest.raises(ActorUnavailableError, match="The actor is temporarily unavailable"):
            ray.get(ref, timeout=60)
    assert answers(lambda: actor.count.remote()) == 1


def test_call_that_waits_for_its_argument_outlives_a_crash(gate: Any) -> None:
    again, release = gate("again"), gate("release")

    @ray.remote(num_cpus=0, max_restarts=1)
    class Adder:
        def __init__(self) -> None:
            if ray.get_runtime_context().was_current_actor_reconstructed:
                again.open()

        def pid(self) -> int:
            return os.getpid()

        def add(self, one: int, other: int) -> int:
            return one + other

    @ray.remote
    def slow() -> int:
        release.wait()
        return 1

    actor = Adder.remote()
    pid = ray.get(actor.pid.remote())
    total = actor.add.remote(slow.remote(), 2)
    os.kill(pid, 9)
    again.wait()
    release.open()
    assert ray.get(total, timeout=60) == 3
