"""How actors end and start again: kill, crash, restart, exit, and going out of scope."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

import pytest
import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayActorError
from waiting import Gate, Tally, wait_for

pytestmark = pytest.mark.usefixtures("cluster")


def alive(pid: int) -> bool:
    """True while the process exists and is no zombie."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def gone(pid: int) -> None:
    wait_for(lambda: not alive(pid), what=f"the actor's process {pid} to end")


def mortal_class() -> Any:
    @ray.remote
    class Mortal:
        def __init__(self) -> None:
            self.calls = 0

        def pid(self) -> int:
            return os.getpid()

        def count(self) -> int:
            self.calls += 1
            return self.calls

        def crash(self) -> None:
            os._exit(1)

        def crash_once(self, attempts: Tally) -> int:
            if attempts.add() == 1:
                os._exit(1)
            return attempts.count()

        def exit(self) -> None:
            ray.actor.exit_actor()

        def sys_exit(self) -> None:
            sys.exit(0)

        def hold(self, started: Gate, release: Gate) -> str:
            started.open()
            release.wait()
            return "released"

        def reconstructed(self) -> bool:
            return ray.get_runtime_context().was_current_actor_reconstructed

        def id(self) -> str:
            return ray.get_runtime_context().get_actor_id()

    return Mortal


def answers(call: Any) -> Any:
    """The result of ``call().remote``-like ``call`` once the actor is available again."""

    def attempt() -> Any:
        try:
            return [ray.get(call(), timeout=30)]
        except ActorUnavailableError:
            return None

    return wait_for(attempt, what="the restarted actor to answer", timeout_s=40)[0]


# kill


def test_core_19_calls_after_kill_raise_actor_died() -> None:
    actor = mortal_class().remote()
    pid = ray.get(actor.pid.remote())
    ray.kill(actor)
    with pytest.raises(ActorDiedError, match="kill"):
        ray.get(actor.pid.remote(), timeout=30)
    gone(pid)


def test_core_19_the_call_in_flight_fails_when_the_actor_is_killed(gate: Any) -> None:
    actor = mortal_class().remote()
    started, release = gate("started"), gate("release")
    held = actor.hold.remote(started, release)
    started.wait()
    queued = actor.count.remote()
    ray.kill(actor)
    for ref in (held, queued):
        with pytest.raises(ActorDiedError):
            ray.get(ref, timeout=30)


def test_core_19_kill_before_the_actor_ran() -> None:
    actor = mortal_class().remote()
    ray.kill(actor)
    with pytest.raises(RayActorError):
        ray.get(actor.pid.remote(), timeout=30)


def test_core_19_killing_twice_is_no_error() -> None:
    actor = mortal_class().remote()
    ray.get(actor.pid.remote())
    ray.kill(actor)
    ray.kill(actor)
    with pytest.raises(ActorDiedError):
        ray.get(actor.pid.remote(), timeout=30)


def test_core_19_kill_ignores_restarts_by_default() -> None:
    actor = mortal_class().options(max_restarts=-1).remote()
    ray.get(actor.pid.remote())
    ray.kill(actor)
    with pytest.raises(ActorDiedError):
        ray.get(actor.pid.remote(), timeout=30)


def test_core_19_kill_with_no_restart_false_lets_it_restart() -> None:
    actor = mortal_class().options(max_restarts=1).remote()
    before = ray.get(actor.pid.remote())
    ray.kill(actor, no_restart=False)
    gone(before)
    assert answers(lambda: actor.pid.remote()) != before


def test_core_19_kill_with_no_restart_false_ends_an_actor_without_restarts() -> None:
    actor = mortal_class().remote()
    before = ray.get(actor.pid.remote())
    ray.kill(actor, no_restart=False)
    gone(before)
    with pytest.raises(ActorDiedError):
        answers(lambda: actor.pid.remote())


@pytest.mark.parametrize("what", ["int", "ref", "class"])
def test_core_19_only_actors_can_be_killed(what: str) -> None:
    target = {"int": 5, "ref": ray.put(1), "class": mortal_class()}[what]
    with pytest.raises(ValueError, match="actor"):
        ray.kill(target)


def test_core_19_kill_from_inside_a_task() -> None:
    @ray.remote
    def end(target: Any) -> None:
        ray.kill(target)

    actor = mortal_class().remote()
    pid = ray.get(actor.pid.remote())
    ray.get(end.remote(actor))
    gone(pid)


def test_core_19_a_result_fetched_before_kill_stays() -> None:
    actor = mortal_class().remote()
    ref = actor.count.remote()
    ray.wait([ref])
    ray.kill(actor)
    assert ray.get(ref, timeout=30) == 1


def test_core_19_kill_gives_back_the_cpus() -> None:
    actor = mortal_class().options(num_cpus=2).remote()
    ray.get(actor.pid.remote())
    wait_for(lambda: ray.available_resources().get("CPU", 0) == 0, what="two CPUs to be taken")
    ray.kill(actor)
    wait_for(lambda: ray.available_resources().get("CPU", 0) == 2, what="two CPUs to be free again")


# crash and restart


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


# exit


def test_core_24_exit_actor_raises_actor_died_at_the_caller() -> None:
    actor = mortal_class().remote()
    pid = ray.get(actor.pid.remote())
    with pytest.raises(ActorDiedError, match="INTENDED_USER_EXIT|exit_actor"):
        ray.get(actor.exit.remote(), timeout=30)
    gone(pid)


def test_core_24_calls_after_exit_actor_raise_actor_died() -> None:
    actor = mortal_class().remote()
    refs = [actor.exit.remote(), actor.count.remote()]
    for ref in refs:
        with pytest.raises(ActorDiedError):
            ray.get(ref, timeout=30)


def test_core_24_exit_actor_is_never_restarted() -> None:
    actor = mortal_class().options(max_restarts=-1).remote()
    with pytest.raises(ActorDiedError):
        ray.get(actor.exit.remote(), timeout=30)
    with pytest.raises(ActorDiedError):
        ray.get(actor.count.remote(), timeout=30)


def test_core_24_exit_actor_from_an_async_method() -> None:
    @ray.remote
    class Loop:
        async def exit(self) -> None:
            ray.actor.exit_actor()

        async def hi(self) -> str:
            return "hi"

    actor = Loop.remote()
    assert ray.get(actor.hi.remote()) == "hi"
    with pytest.raises(ActorDiedError):
        ray.get(actor.exit.remote(), timeout=30)
    with pytest.raises(ActorDiedError):
        ray.get(actor.hi.remote(), timeout=30)


@pytest.mark.parametrize("where", ["driver", "task"])
def test_core_24_exit_actor_outside_an_actor_is_a_type_error(where: str) -> None:
    if where == "driver":
        with pytest.raises(TypeError, match="actor"):
            ray.actor.exit_actor()
        return

    @ray.remote
    def leave() -> None:
        ray.actor.exit_actor()

    with pytest.raises(TypeError, match="actor"):
        ray.get(leave.remote())


def test_core_24_sys_exit_in_a_method_ends_the_actor() -> None:
    actor = mortal_class().remote()
    with pytest.raises(ActorDiedError):
        ray.get(actor.sys_exit.remote(), timeout=30)
    with pytest.raises(ActorDiedError):
        ray.get(actor.count.remote(), timeout=30)


def test_core_24_atexit_handlers_run_on_exit_actor(gate: Any) -> None:
    ran = gate("ran")

    @ray.remote
    class Cleans:
        def arm(self) -> None:
            import atexit

            atexit.register(ran.open)

        def exit(self) -> None:
            ray.actor.exit_actor()

    actor = Cleans.remote()
    ray.get(actor.arm.remote())
    with pytest.raises(ActorDiedError):
        ray.get(actor.exit.remote(), timeout=30)
    wait_for(ran.is_open, what="the actor's atexit handler to run")


# out of scope


def test_core_25_process_ends_when_the_last_handle_goes() -> None:
    actor = mortal_class().remote()
    pid = ray.get(actor.pid.remote())
    del actor
    gone(pid)


def test_core_25_a_copy_of_the_handle_keeps_the_actor() -> None:
    actor = mortal_class().remote()
    pid = ray.get(actor.pid.remote())
    copy = actor
    del actor
    assert ray.get(copy.pid.remote()) == pid
    del copy
    gone(pid)


def test_core_25_a_bound_method_keeps_the_actor() -> None:
    method = mortal_class().remote().count
    assert ray.get(method.remote(), timeout=30) == 1
    assert ray.get(method.remote(), timeout=30) == 2


def test_core_25_a_handle_inside_a_stored_object_keeps_the_actor() -> None:
    actor = mortal_class().remote()
    pid = ray.get(actor.pid.remote())
    box = ray.put([actor])
    del actor
    assert ray.get(ray.get(box)[0].pid.remote(), timeout=30) == pid
    del box
    gone(pid)


def test_core_25_a_handle_held_by_another_actor_keeps_the_actor() -> None:
    @ray.remote
    class Holder:
        def take(self, boxed: list[Any]) -> None:
            self.held = boxed[0]

        def ask(self) -> int:
            return ray.get(self.held.pid.remote())

        def drop(self) -> None:
            del self.held

    actor, holder = mortal_class().remote(), Holder.remote()
    pid = ray.get(actor.pid.remote())
    ray.get(holder.take.remote([actor]))
    del actor
    assert ray.get(holder.ask.remote(), timeout=30) == pid
    ray.get(holder.drop.remote())
    gone(pid)


def test_core_25_submitted_calls_finish_before_the_actor_ends(gate: Any) -> None:
    actor = mortal_class().remote()
    started, release = gate("started"), gate("release")
    held = actor.hold.remote(started, release)
    later = actor.count.remote()
    started.wait()
    del actor
    release.open()
    assert ray.get([held, later], timeout=30) == ["released", 1]


def test_core_25_children_end_with_the_actor_that_holds_them() -> None:
    mortal = mortal_class()

    @ray.remote
    class Parent:
        def __init__(self) -> None:
            self.child = mortal.remote()

        def child_pid(self) -> int:
            return ray.get(self.child.pid.remote())

    parent = Parent.remote()
    pid = ray.get(parent.child_pid.remote())
    ray.kill(parent)
    gone(pid)


def test_core_25_terminate_finishes_what_was_queued_before_it(gate: Any) -> None:
    actor = mortal_class().remote()
    pid = ray.get(actor.pid.remote())
    started, release = gate("started"), gate("release")
    refs = [actor.hold.remote(started, release), actor.count.remote()]
    ended = actor.__ray_terminate__.remote()
    started.wait()
    release.open()
    assert ray.get(refs, timeout=30) == ["released", 1]
    with pytest.raises(ActorDiedError):
        ray.get(ended, timeout=30)
    gone(pid)


def test_core_25_calls_after_terminate_fail() -> None:
    actor = mortal_class().remote()
    ray.get(actor.pid.remote())
    actor.__ray_terminate__.remote()
    with pytest.raises(ActorDiedError):
        ray.get(actor.count.remote(), timeout=30)


def test_core_25_terminated_actor_is_not_restarted() -> None:
    actor = mortal_class().options(max_restarts=-1).remote()
    pid = ray.get(actor.pid.remote())
    with pytest.raises(ActorDiedError):
        ray.get(actor.__ray_terminate__.remote(), timeout=30)
    gone(pid)
    with pytest.raises(ActorDiedError):
        ray.get(actor.pid.remote(), timeout=30)


def test_core_22_ray_ready_resolves_once_the_constructor_is_done(gate: Any) -> None:
    go = gate("go")

    @ray.remote
    class Slow:
        def __init__(self) -> None:
            go.wait()

    ready = Slow.remote().__ray_ready__.remote()
    with pytest.raises(GetTimeoutError):
        ray.get(ready, timeout=0.1)
    go.open()
    assert ray.get(ready, timeout=30) is True


def test_core_22_ray_ready_raises_what_the_constructor_raised() -> None:
    @ray.remote
    class Fails:
        def __init__(self) -> None:
            raise ValueError("not today")

    with pytest.raises(ActorDiedError, match="not today"):
        ray.get(Fails.remote().__ray_ready__.remote(), timeout=30)
