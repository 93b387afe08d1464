"""How actors end and start again: kill, crash, restart, exit, and going out of scope."""

from __future__ import annotations

from typing import Any

import pytest
import ray
from mortals import answers, gone, mortal_class
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("cluster")


# kill


def test_core_19_calls_after_kill_raise_actor_died() -> None:
    actor = mortal_class().remote()
    pid = ray.get(actor.pid.remote())
    ray.kill(actor)
    gone(pid)
    with pytest.raises(ActorDiedError, match="kill"):
        ray.get(actor.pid.remote(), timeout=30)


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
    pid = ray.get(actor.pid.remote())
    ray.kill(actor)
    ray.kill(actor)
    gone(pid)
    with pytest.raises(ActorDiedError):
        ray.get(actor.pid.remote(), timeout=30)


def test_core_19_kill_ignores_restarts_by_default() -> None:
    actor = mortal_class().options(max_restarts=-1).remote()
    pid = ray.get(actor.pid.remote())
    ray.kill(actor)
    gone(pid)
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
