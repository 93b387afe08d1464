"""Updates, deaths and restarts under continuous load."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from serve.load import Calls, Load

import skate
from skate import serve
from skate.serve.handle.handle import _answer
from skate.serve.handle.response import DeploymentBroadcastResponse
from skate.serve.identity import CONTROLLER_NAME, NAMESPACE
from skate.serve.routing.call import Call


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 30) -> Any:
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}; last: {value!r}"
        pause.wait(0.005)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        number = sock.getsockname()[1]
    skate.init(num_cpus=8, log_to_driver=False, preload=["skate.serve.replica.preload"])
    serve.start(http_options={"port": number})
    yield number
    serve.shutdown()
    skate.shutdown()


def version(word: str, **options: Any) -> Any:
    @serve.deployment(
        name="Versioned", ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=20, **options
    )
    class Versioned:
        async def __call__(self, request: Any = None) -> str:
            return word

        async def pid(self) -> int:
            return os.getpid()

    return Versioned.bind()


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_rolling_update_fails_no_request(port: int, replicas: int) -> None:
    serve.run(version("v1", num_replicas=replicas))
    with Load(port) as load:
        wait_for(lambda: load.good() > 100, "the first answers")
        for number in (2, 3):
            serve.run(version(f"v{number}", num_replicas=replicas))
            wait_for(lambda word=f"200 v{number}": load.answers[word] > 50, "answers of the new version")
    assert not load.lost(), load.answers
    serve.delete("default")


def test_fewer_replicas_fail_no_request(port: int) -> None:
    serve.run(version("v", num_replicas=4))
    with Load(port) as load:
        for count in (1, 3, 2):
            serve.run(version("v", num_replicas=count))
            before = load.good()
            wait_for(lambda before=before: load.good() > before + 100, "more answers")
    assert not load.lost(), load.answers
    serve.delete("default")


def test_clients_over_http_leave_places_to_callers_of_a_handle(port: int) -> None:
    """More clients than places: those over HTTP wait at the replica, and take each place that becomes free."""

    @serve.deployment(name="Full", ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=2)
    class Full:
        async def __call__(self, request: Any = None) -> str:
            await asyncio.sleep(0.002)  # the work itself
            return "v"

    handle = serve.run(Full.bind())
    with Load(port, threads=12) as load:
        wait_for(lambda: load.good() > 100, "the first answers")
        with Calls(handle, threads=4) as calls:
            calls.more(30)
        assert not calls.errors, calls.errors
    assert not load.lost(), load.answers
    serve.delete("default")


def test_a_killed_replica_takes_no_request_along_but_its_own(port: int) -> None:
    handle = serve.run(version("v", num_replicas=2))
    with Load(port, threads=8) as load:
        wait_for(lambda: load.good() > 100, "the first answers")
        os.kill(handle.pid.remote().result(), signal.SIGKILL)
        before = load.good()
        wait_for(lambda: load.good() > before + 200, "answers after the kill")
    # Each connection of the dead process loses at most its current request.
    assert sum(load.lost().values()) <= 8, load.answers
    wait_for(
        lambda: (
            serve.status().applications["default"].deployments["Versioned"].replica_states == {"RUNNING": 2}
        ),
        "the replica to be replaced",
    )
    serve.delete("default")


def test_a_killed_controller_is_not_noticed_by_requests(port: int) -> None:
    handle = serve.run(version("v", num_replicas=2))
    pids = {handle.pid.remote().result() for _ in range(30)}
    with Load(port) as load:
        wait_for(lambda: load.good() > 100, "the first answers")
        controller = skate.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
        old = skate.get(controller.ping.remote())
        os.kill(old, signal.SIGKILL)
        new = wait_for(lambda: skate.get(controller.ping.remote()), "the controller to start again")
        assert new != old
        before = load.good()
        wait_for(lambda: load.good() > before + 100, "more answers")
        status = wait_for(
            lambda: serve.status().applications.get("default"), "the controller to know the application"
        )
    assert not load.lost(), load.answers
    wait_for(
        lambda: serve.status().applications["default"].status == "RUNNING", "the application to be checked"
    )
    assert status.deployments["Versioned"].replica_states
    assert {handle.pid.remote().result() for _ in range(30)} == pids
    # Serve continues to work: an update, more replicas, another application.
    assert serve.run(version("after", num_replicas=1)).remote().result() == "after"
    serve.delete("default")


def leaving(word: str) -> Any:
    @serve.deployment(
        name="Leaving", ray_actor_options={"num_cpus": 0.1}, graceful_shutdown_timeout_s=60, version=word
    )
    class Leaving:
        async def __call__(self, request: Any = None) -> str:
            return word

        async def pid(self) -> int:
            return os.getpid()

        async def words(self) -> Any:
            yield word

        async def __del__(self) -> None:
            if word == "v1":
                await asyncio.Event().wait()  # it ends only when it is killed

    return Leaving.bind()


async def _awaited(answers: Any) -> Any:
    return await answers


def test_a_request_that_is_sent_after_its_replica_was_drained(port: int) -> None:
    """A caller that chose the replica before an update sends to it while it ends, is killed, and is gone."""
    handle = serve.run(leaving("v1"))
    process = handle.pid.remote().result()
    router = handle._way()
    (chosen,) = router._ready
    serve.run(leaving("v2"))
    wait_for(chosen.view.closed, "the old replica to be drained")

    def late(method: str = "__call__", stream: bool = False, pinned: bool = False) -> Any:
        call = Call((os.urandom(16).hex(), method, "", "default", "", ""), (), {}, stream)
        call.pinned = pinned
        answer = _answer(call, router)
        router._send(chosen, call)
        return answer

    assert late().result(timeout_s=30) == "v2", "it is refused, and sent to the other replica"
    assert list(late("words", stream=True)) == ["v2"]
    broadcast = handle.broadcast("pid")
    assert [each._call.pinned for each in broadcast._answers] == [True]
    answered = broadcast.results(timeout_s=30)
    # A caller that has not yet heard that the old replica left asks both; each answers once, or not at all.
    everyone = [
        DeploymentBroadcastResponse([late("pid", pinned=True), handle.pid.remote()]) for _ in range(2)
    ]
    assert everyone[0].results(timeout_s=30) == asyncio.run(_awaited(everyone[1])) == answered
    os.kill(process, signal.SIGSTOP)
    sent = late()
    skate.kill(chosen.entry.actor)
    assert sent.result(timeout_s=30) == "v2", "the replica was killed before it could refuse"
    assert late().result(timeout_s=30) == "v2", "the replica is gone"
    assert handle.remote().result(timeout_s=30) == "v2"
    chosen.view.close()  # this test has kept it
    serve.delete("default")
