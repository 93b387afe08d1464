"""How actors leave: by exit codes, with a last method, by SIGTERM, with their owner; and what their callers see."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
from typing import Any

import pytest
import ray
from mortals import alive, answers, gone, mortal_class
from ray.exceptions import ActorDiedError, ActorUnavailableError
from waiting import Gate, wait_for

pytestmark = pytest.mark.usefixtures("cluster")

KINDS = pytest.mark.parametrize("kind", ["plain", "threaded", "async"])


def leaver(kind: str, **options: Any) -> Any:
    """An actor that leaves with the code it is given."""
    if kind == "async":

        class Async:
            async def leave(self, code: Any) -> None:
                sys.exit(code)

            async def pid(self) -> int:
                return os.getpid()

        return ray.remote(num_cpus=0, **options)(Async).remote()

    class Sync:
        def leave(self, code: Any) -> None:
            sys.exit(code)

        def pid(self) -> int:
            return os.getpid()

    return ray.remote(num_cpus=0, max_concurrency=2 if kind == "threaded" else 1, **options)(Sync).remote()


@KINDS
def test_exit_code_of_zero_ends_an_actor_for_good(kind: str) -> None:
    actor = leaver(kind, max_restarts=-1)
    pid = ray.get(actor.pid.remote())
    with pytest.raises(ActorDiedError, match="INTENDED_USER_EXIT"):
        ray.get(actor.leave.remote(0), timeout=30)
    gone(pid)
    with pytest.raises(ActorDiedError):
        ray.get(actor.pid.remote(), timeout=30)


@KINDS
@pytest.mark.parametrize("code", [1, None, "in words"])
def test_other_exit_code_is_a_crash_that_restarts_the_actor(kind: str, code: Any) -> None:
    actor = leaver(kind, max_restarts=1)
    pid = ray.get(actor.pid.remote())
    with pytest.raises(ActorUnavailableError, match="The actor is temporarily unavailable"):
        ray.get(actor.leave.remote(code), timeout=30)
    assert answers(actor.pid.remote) != pid


def test_call_that_exits_with_a_code_is_tried_again(tally: Any) -> None:
    attempts = tally("attempts")

    @ray.remote(max_restarts=1, max_task_retries=1, num_cpus=0)
    class Twice:
        def go(self) -> str:
            if attempts.add() == 1:
                sys.exit(1)
            return "second try"

    assert ray.get(Twice.remote().go.remote(), timeout=60) == "second try"


@pytest.mark.parametrize("code", [0, 1])
def test_exit_in_the_constructor_is_the_death_of_the_actor(code: int) -> None:
    @ray.remote(num_cpus=0)
    class Leaves:
        def __init__(self) -> None:
            sys.exit(code)

        def hi(self) -> None: ...

    with pytest.raises(ActorDiedError):
        ray.get(Leaves.remote().hi.remote(), timeout=30)


# the last method


def cleaning_class(log: Any) -> Any:
    class Cleans:
        def __init__(self) -> None:
            atexit.register(self.note, "atexit")

        def note(self, word: str) -> None:
            with open(log, "a") as file:
                file.write(word + "\n")

        def __ray_shutdown__(self) -> None:
            self.note("shutdown")

        def ready(self) -> int:
            return os.getpid()

        def leave(self, how: str) -> None:
            ray.actor.exit_actor() if how == "exit_actor" else sys.exit(int(how))

    return Cleans


def notes(log: Any) -> list[str]:
    return log.read_text().split() if log.exists() else []


@pytest.mark.parametrize("kind", ["plain", "threaded"])
@pytest.mark.parametrize("how", ["scope", "terminate", "exit_actor", "0", "1"])
def test_shutdown_method_is_called_before_exit_handlers(how: str, kind: str, tmp_path: Any) -> None:
    log = tmp_path / "log"
    options = {"max_concurrency": 2} if kind == "threaded" else {}
    actor = ray.remote(num_cpus=0, **options)(cleaning_class(log)).remote()
    ray.get(actor.ready.remote())
    if how == "terminate":
        actor.__ray_terminate__.remote()
    elif how != "scope":
        with pytest.raises(ActorDiedError):
            ray.get(actor.leave.remote(how), timeout=30)
    del actor
    wait_for(lambda: notes(log) == ["shutdown", "atexit"], what="the last words of the actor")


def test_shutdown_method_of_an_async_actor_is_called(tmp_path: Any) -> None:
    log = tmp_path / "log"

    class Async(cleaning_class(log)):  # type: ignore[misc]
        async def other(self) -> None: ...

    actor = ray.remote(num_cpus=0)(Async).remote()
    ray.get(actor.ready.remote())
    del actor
    wait_for(lambda: notes(log) == ["shutdown", "atexit"], what="the last words of the actor")


def test_shutdown_method_that_raises_does_not_keep_exit_handlers_from_running(tmp_path: Any) -> None:
    log = tmp_path / "log"

    class Fails(cleaning_class(log)):  # type: ignore[misc]
        def __ray_shutdown__(self) -> None:
            raise ValueError("in the last method")

    actor = ray.remote(num_cpus=0)(Fails).remote()
    ray.get(actor.ready.remote())
    del actor
    wait_for(lambda: notes(log) == ["atexit"], what="the exit handler to run")


# SIGTERM


def test_terminated_process_of_an_idle_actor_is_started_again() -> None:
    actor = mortal_class().options(max_restarts=1, num_cpus=0).remote()
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGTERM)
    gone(pid)
    assert answers(lambda: actor.pid.remote()) != pid


def test_terminated_process_without_restarts_is_the_death_of_its_actor() -> None:
    actor = mortal_class().options(num_cpus=0).remote()
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGTERM)
    gone(pid)
    with pytest.raises(ActorDiedError):
        ray.get(actor.pid.remote(), timeout=30)


def test_call_in_the_main_thread_is_ended_by_sigterm(gate: Any) -> None:
    actor = mortal_class().options(num_cpus=0).remote()
    pid, started = ray.get(actor.pid.remote()), gate("started")
    held = actor.hold.remote(started, gate("never"))
    started.wait()
    os.kill(pid, signal.SIGTERM)
    with pytest.raises(ActorDiedError):
        ray.get(held, timeout=15)


def test_calls_in_threads_end_before_a_terminated_actor_does(gate: Any) -> None:
    actor = mortal_class().options(num_cpus=0, max_concurrency=2).remote()
    pid, started, release = ray.get(actor.pid.remote()), gate("started"), gate("release")
    held = actor.hold.remote(started, release)
    started.wait()
    os.kill(pid, signal.SIGTERM)
    assert ray.wait([held], timeout=0.3)[0] == []
    release.open()
    assert ray.get(held, timeout=30) == "released"
    gone(pid)


def test_calls_of_an_async_actor_end_before_it_is_terminated(gate: Any) -> None:
    @ray.remote(num_cpus=0)
    class Async:
        async def pid(self) -> int:
            return os.getpid()

        async def hold(self, started: Gate, release: Gate) -> str:
            started.open()
            while not release.is_open():
                await asyncio.sleep(0.01)
            return "released"

    actor = Async.remote()
    pid, started, release = ray.get(actor.pid.remote()), gate("started"), gate("release")
    held = actor.hold.remote(started, release)
    started.wait()
    os.kill(pid, signal.SIGTERM)
    assert ray.wait([held], timeout=0.3)[0] == []
    release.open()
    assert ray.get(held, timeout=30) == "released"
    gone(pid)


def test_handler_of_ones_own_takes_sigterm_from_the_actor(gate: Any) -> None:
    handled = gate("heard")

    @ray.remote(num_cpus=0)
    class Listens:
        def __init__(self) -> None:
            signal.signal(signal.SIGTERM, lambda *_: handled.open())

        def pid(self) -> int:
            return os.getpid()

    actor = Listens.remote()
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGTERM)
    wait_for(handled.is_open, what="the handler to run")
    assert ray.get(actor.pid.remote(), timeout=30) == pid


# leaving an async actor


def test_coroutine_that_is_no_call_can_end_its_actor() -> None:
    @ray.remote(num_cpus=0)
    class Async:
        async def start(self) -> int:
            self.task = asyncio.create_task(self.leave())
            return os.getpid()

        async def leave(self) -> None:
            await asyncio.sleep(0.3)  # for the answer of the call that started it
            ray.actor.exit_actor()

    actor = Async.remote()
    gone(ray.get(actor.start.remote(), timeout=30))
    with pytest.raises(ActorDiedError):
        ray.get(actor.start.remote(), timeout=30)


def test_calls_behind_exit_actor_do_not_run(tally: Any) -> None:
    ran = tally("ran")

    @ray.remote(num_cpus=0)
    class Async:
        async def leave(self) -> None:
            ray.actor.exit_actor()

        def ping(self) -> int:
            return ran.add()

    actor = Async.remote()
    ray.get(actor.ping.remote())
    actor.leave.remote()
    refs = [actor.ping.remote() for _ in range(500)]
    with pytest.raises(ActorDiedError):
        ray.get(refs[-1], timeout=30)
    assert ran.count() < 501


# the owner


def family() -> tuple[Any, Any]:
    @ray.remote(num_cpus=0)
    class Child:
        def pid(self) -> int:
            return os.getpid()

    @ray.remote(num_cpus=0, max_restarts=1)
    class Owner:
        def make(self, **options: Any) -> Any:
            self.child = Child.options(**options).remote()
            return self.child

        def leave(self, how: str) -> None:
            if how == "crash":
                os._exit(1)
            ray.actor.exit_actor()

    return Owner.remote(), Child


@pytest.mark.parametrize("how", ["crash", "exit", "kill", "scope"])
def test_actor_ends_with_the_actor_that_made_it(how: str) -> None:
    owner, _ = family()
    child = ray.get(owner.make.remote())
    pid = ray.get(child.pid.remote())
    if how == "kill":
        ray.kill(owner)
    elif how != "scope":
        owner.leave.remote(how)
    del owner
    gone(pid)
    with pytest.raises(ActorDiedError, match="[Oo]wner"):
        ray.get(child.pid.remote(), timeout=30)


def test_detached_actor_outlives_its_maker() -> None:
    owner, _ = family()
    child = ray.get(owner.make.remote(lifetime="detached", name=f"outlives-{os.getpid()}"))
    pid = ray.get(child.pid.remote())
    ray.kill(owner)
    with pytest.raises(ActorDiedError):
        ray.get(owner.make.remote(), timeout=30)
    assert ray.get(child.pid.remote(), timeout=30) == pid
    ray.kill(child)
    gone(pid)


def test_actor_made_by_a_task_lives_on_after_the_task() -> None:
    _, child_class = family()

    @ray.remote
    def make() -> Any:
        return child_class.remote()

    child = ray.get(make.remote())
    pid = ray.get(child.pid.remote(), timeout=30)
    assert alive(pid)


# while it restarts


def test_call_to_an_actor_that_restarts_is_refused_at_once(gate: Any) -> None:
    go, again = gate("go"), gate("again")

    @ray.remote(num_cpus=0, max_restarts=-1)
    class Slow:
        def __init__(self) -> None:
            if ray.get_runtime_context().was_current_actor_reconstructed:
                again.open()
                go.wait()

        def pid(self) -> int:
            return os.getpid()

    actor = Slow.remote()
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)
    again.wait()
    with pytest.raises(
        ActorUnavailableError, match="The actor is temporarily unavailable.*[Tt]he actor is restarting"
    ) as raised:
        ray.get(actor.pid.remote(), timeout=5)
    assert raised.value.actor_id == actor._actor_id.hex()
    assert "may or may not have been executed" in str(raised.value)
    go.open()
    assert answers(actor.pid.remote) != pid


@pytest.mark.chosen_difference(
    "a call with retries waits for its actor to be there again", id="D-restart-retries"
)
def test_call_with_retries_waits_for_the_restart(gate: Any) -> None:
    go, again = gate("go"), gate("again")

    @ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=1)
    class Slow:
        def __init__(self) -> None:
            if ray.get_runtime_context().was_current_actor_reconstructed:
                again.open()
                go.wait()

        def pid(self) -> int:
            return os.getpid()

    actor = Slow.remote()
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)
    again.wait()
    waiting = actor.pid.remote()
    assert ray.wait([waiting], timeout=0.2)[0] == []
    go.open()
    assert ray.get(waiting, timeout=30) != pid
