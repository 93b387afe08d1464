"""Processes and nodes that end or stop while handles and streams are active: what is lost, and what recovers."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI, WebSocket
from fastapi.responses import StreamingResponse
from serve.load import Calls, Load, wait_for
from starlette.responses import PlainTextResponse

import skate
from skate import procfs, serve
from skate.exceptions import ActorDiedError
from skate.serve.identity import CONTROLLER_NAME, NAMESPACE, REPLICA_PREFIX
from skate.util import list_named_actors

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


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


def app(word: str, **options: Any) -> Any:
    @serve.deployment(name="Works", **LIGHT, **options)
    class Works:
        async def __call__(self) -> str:
            await asyncio.sleep(0.002)  # the work itself
            return word

        async def pid(self) -> int:
            return os.getpid()

    return Works.bind()


def replicas(name: str) -> set[str]:
    """Return the replica actors of an application, including those unknown to the controller."""
    begin = f"{REPLICA_PREFIX}{name}#"
    found = list_named_actors(all_namespaces=True)
    return {each["name"] for each in found if each["name"].startswith(begin)}


def test_a_killed_replica_loses_only_what_it_had_begun(port: int) -> None:
    handle = serve.run(app("v", num_replicas=3, max_ongoing_requests=2), name="killed", route_prefix="/k")
    with Calls(handle) as calls:
        calls.more(100)
        for kills in (1, 2, 3):
            os.kill(handle.pid.remote().result(), signal.SIGKILL)
            calls.more(200)
            assert len(calls.errors) <= 2 * kills, calls.errors
    assert all(isinstance(each, ActorDiedError) for each in calls.errors), calls.errors
    wait_for(
        lambda: serve.status().applications["killed"].deployments["Works"].replica_states == {"RUNNING": 3},
        "the replicas to be replaced",
    )
    serve.delete("killed")


def test_all_replicas_killed_at_once_come_back(port: int) -> None:
    handle = serve.run(app("v", num_replicas=2, max_ongoing_requests=1), name="all", route_prefix="/all")
    with Calls(handle, threads=4) as calls:
        calls.more(50)
        pids = set()
        while len(pids) < 2:
            pids.add(handle.pid.remote().result())
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        calls.more(100)
    assert len(calls.errors) <= 2, calls.errors
    serve.delete("all")


def probe(**options: Any) -> Any:
    """Two replicas that tell their process, over HTTP and by handle."""

    @serve.deployment(name="Tells", num_replicas=2, max_ongoing_requests=5, **LIGHT, **options)
    class Probe:
        async def __call__(self, request: Any = None) -> Any:
            await asyncio.sleep(0.002)  # the work itself
            return os.getpid() if request is None else PlainTextResponse(str(os.getpid()))

    return Probe.bind()


def fresh(port: int, path: str) -> str:
    """The answer on a new connection, which must come soon."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def both(handle: Any) -> list[int]:
    """The processes of the two replicas."""
    pids: set[int] = set()
    wait_for(lambda: pids.add(handle.remote().result()) or len(pids) == 2, "calls to reach both replicas")
    return sorted(pids)


def stop(pid: int, calls: Calls) -> None:
    """Stop a replica; return when the other one has answered for so long that everybody has noticed."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: procfs.is_stopped(pid), "the replica to stop")
    calls.more(200)  # at least 80 ms, as 5 are at work at once, for 2 ms


def test_a_stopped_replica_delays_only_the_requests_that_it_had(port: int) -> None:
    """Requests that it had wait until it continues. All others go to the other one, also from another application's process."""
    handle = serve.run(probe(), name="stops", route_prefix="/stops")
    serve.run(app("x"), name="beside", route_prefix="/beside")  # accepts some of the connections
    stopped, other = both(handle)
    with Load(port, "/stops", threads=4) as load, Calls(handle, threads=8) as calls:
        wait_for(lambda: load.good() > 50, "answers over HTTP")
        calls.more(50)
        stop(stopped, calls)
        try:
            answers = [fresh(port, "/stops") for _ in range(30)]
            values = [handle.remote().result(timeout_s=20) for _ in range(30)]
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert set(answers) == {str(other)} and set(values) == {other}
        assert both(handle) == sorted((stopped, other))
        seen: set[str] = set()
        wait_for(lambda: seen.add(fresh(port, "/stops")) or len(seen) == 2, "both to serve over HTTP again")
    assert not calls.errors and not load.lost(), (calls.errors, load.lost())
    assert set(calls.answers) == {str(stopped), str(other)}
    serve.delete("stops")
    serve.delete("beside")


def test_a_replica_that_stays_stopped_is_replaced_and_its_calls_go_elsewhere(port: int) -> None:
    checks = {"health_check_period_s": 0.1, "health_check_timeout_s": 1, "graceful_shutdown_timeout_s": 0.1}
    handle = serve.run(probe(**checks), name="stays", route_prefix="/stays")
    stopped, other = both(handle)
    with Calls(handle) as calls:
        calls.more(50)
        stop(stopped, calls)
        wait_for(lambda: not procfs.stat(stopped), "the stopped replica to end")
        deployment = lambda: serve.status().applications["stays"].deployments["Tells"]  # noqa: E731
        wait_for(lambda: deployment().replica_states == {"RUNNING": 2}, "another replica in its place")
        assert other in both(handle)
        calls.more(50)
    # It had begun at most 5 when it stopped; those that had only been sent were sent again.
    assert len(calls.errors) <= 5, calls.errors
    assert all(isinstance(each, ActorDiedError) for each in calls.errors), calls.errors
    serve.delete("stays")


def test_a_rolling_update_and_fewer_replicas_fail_no_call_of_a_handle(port: int) -> None:
    handle = serve.run(app("v1", num_replicas=3), name="rolls", route_prefix="/rolls")
    with Calls(handle) as calls:
        calls.more(100)
        serve.run(app("v2", num_replicas=3), name="rolls", route_prefix="/rolls")
        calls.more(100)
        serve.run(app("v2", num_replicas=1), name="rolls", route_prefix="/rolls")
        calls.more(100)
    assert not calls.errors and set(calls.answers) == {"v1", "v2"}, (calls.errors, calls.answers)
    serve.delete("rolls")


def test_a_controller_killed_while_it_deploys_leaves_nothing_unknown(port: int) -> None:
    """The next controller completes the deployment, and no unknown replica is left."""
    handle = serve.run(app("v0", num_replicas=2), name="mid", route_prefix="/mid")
    with Calls(handle, threads=2) as calls:
        for number, moment in ((1, 0.03), (2, 0.12)):
            controller = skate.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
            timer = threading.Timer(moment, os.kill, (skate.get(controller.ping.remote()), signal.SIGKILL))
            timer.start()
            serve.run(app(f"v{number}", num_replicas=2), name="mid", route_prefix="/mid")
            timer.join()
            wait_for(
                lambda: serve.status().applications["mid"].status == "RUNNING" and len(replicas("mid")) == 2,
                "two replicas, and no other",
            )
            assert handle.remote().result() == f"v{number}"
    assert not calls.errors, calls.errors
    serve.delete("mid")
    assert not replicas("mid")


def slow(word: str) -> Any:
    """Return an application with plain requests, streams that take a second, and an echoing WebSocket."""
    web = FastAPI()

    @serve.deployment(name="Slow", num_replicas=2, max_ongoing_requests=20, **LIGHT)
    @serve.ingress(web)
    class Slow:
        @web.get("/word")
        async def word(self) -> str:
            return word

        @web.get("/stream")
        async def stream(self) -> StreamingResponse:
            async def parts() -> Any:
                for number in range(20):
                    yield f"{word}{number} "
                    await asyncio.sleep(0.05)  # the work itself

            return StreamingResponse(parts(), media_type="text/plain")

        @web.websocket("/echo")
        async def echo(self, socket: WebSocket) -> None:
            await socket.accept()
            for _ in range(10):
                await socket.send_text(word + await socket.receive_text())
            await socket.close()

    return Slow.bind()


def test_streams_and_web_sockets_end_well_during_an_update(port: int) -> None:
    websockets = pytest.importorskip("websockets")
    serve.run(slow("old"), name="slow", route_prefix="/slow")
    texts: list[str] = []

    def read() -> None:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
        client.request("GET", "/slow/stream")
        texts.append(client.getresponse().read().decode())
        client.close()

    async def main() -> list[str]:
        address = f"ws://127.0.0.1:{port}/slow/echo"
        loop = asyncio.get_running_loop()
        async with websockets.connect(address, proxy=None) as socket:
            received = []
            readers = [loop.run_in_executor(None, read) for _ in range(4)]
            for number in range(5):
                await socket.send(str(number))
                received.append(await socket.recv())
            update = loop.run_in_executor(
                None, lambda: serve.run(slow("new"), name="slow", route_prefix="/slow")
            )
            for number in range(5, 10):
                await asyncio.sleep(0.05)  # the client's own pause
                await socket.send(str(number))
                received.append(await socket.recv())
                if number == 8:  # the last message is sent once the update is complete
                    await update
            await asyncio.gather(*readers)
            return received

    assert asyncio.run(main()) == [f"old{number}" for number in range(10)]
    whole = {"".join(f"{word}{number} " for number in range(20)) for word in ("old", "new")}
    assert len(texts) == 4 and set(texts) <= whole, texts
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
    client.request("GET", "/slow/word")
    assert client.getresponse().read() == b'"new"'
    client.close()
    serve.delete("slow")


def test_a_web_socket_that_is_closed_ends_its_work(port: int, tmp_path: Any) -> None:
    websockets = pytest.importorskip("websockets")
    web = FastAPI()
    ended = tmp_path / "ended"

    @serve.deployment(name="Talks", **LIGHT)
    @serve.ingress(web)
    class Talks:
        @web.websocket("/talk")
        async def talk(self, socket: WebSocket) -> None:
            await socket.accept()
            try:
                while True:
                    await socket.send_text("word")
                    await socket.receive_text()
            finally:
                ended.touch()

    serve.run(Talks.bind(), name="talks", route_prefix="/talks")

    async def main() -> None:
        async with websockets.connect(f"ws://127.0.0.1:{port}/talks/talk", proxy=None) as socket:
            assert await socket.recv() == "word"

    asyncio.run(main())
    wait_for(ended.exists, "the work to end with its client")
    serve.delete("talks")
