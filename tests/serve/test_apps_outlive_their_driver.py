"""On a standing node, applications outlive the program that deployed them, and the death of their controller."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("yaml")
pytest.importorskip("uvicorn")

from tests.conformance.waiting import wait_for
from tests.process.programs import Program
from tests.serve.standing import Site, get

PROGRAM = """
from skate import serve

@serve.deployment(ray_actor_options={"num_cpus": 0}, num_replicas=2)
class Adder:
    def add(self, number):
        return number + 1

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Ingress:
    def __init__(self, adder):
        self.adder = adder

    async def __call__(self, request):
        return str(await self.adder.add.remote(1))

app = Ingress.bind(Adder.bind())
"""
SECOND = """
from skate import serve

ray.init(address="auto")
status = serve.status().applications["default"]
print("status", status.status.value, sorted(status.deployments))
adder = serve.get_deployment_handle("Adder", "default")
print("sum", adder.add.remote(41).result(), flush=True)
for line in __import__("sys").stdin:
    print("again", adder.add.remote(int(line)).result(), flush=True)
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    made.write("program.py", PROGRAM)
    made.node.start()
    yield made
    made.end()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    started: list[Program] = []

    def start(text: str, **more: str) -> Program:
        started.append(Program(text, tmp_path / f"program{len(started)}", **more))
        return started[-1]

    yield start
    for each in started:
        each.kill()


class Load:
    """A thread that sends requests until `stop`, and records wrong answers."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers = 0
        self.wrong: list[tuple[int, str]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            answer = get(self.port)
            if answer == (200, "2"):
                self.answers += 1
            else:
                self.wrong.append(answer)

    def more(self, count: int) -> None:
        wanted = self.answers + count
        wait_for(lambda: self.answers >= wanted or self.wrong, 40, f"{count} more answers")

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def controller(site: Site) -> int:
    """Return the pid of the controller, or 0 while it restarts."""
    return site.node.actors().get("ServeController", {}).get("pid") or 0


def test_another_driver_and_a_killed_controller(site: Site, program: Callable[..., Program]) -> None:
    words = ["--address", "auto", "--port", str(site.port), "--non-blocking"]
    site.serve("run", "program:app", *words)
    second = program(SECOND, **site.node.environment)
    assert second.wait_for_output("^status .*") == "status RUNNING ['Adder', 'Ingress']"
    assert second.wait_for_output("^sum .*") == "sum 42"
    site.serve("start", "--http-port", str(site.port), "--rest-port", str(site.rest_port))
    before = site.pids("default")
    assert {len(pids) for pids in before.values()} == {1, 2}
    load = Load(site.port)
    try:
        for _ in range(2):  # the new controller can be replaced as well
            load.more(5)
            killed = controller(site)
            os.kill(killed, signal.SIGKILL)
            load.more(20)
            wait_for(lambda killed=killed: controller(site) not in (0, killed), 30, "a new controller")
            assert site.pids("default") == before, "the new controller takes over what runs"
        second.write_line("1")
        assert second.wait_for_output("^again .*") == "again 2"
        site.serve("run", "program:app", *words)
        assert site.pids("default") == before, "and knows its code"
        load.more(5)
    finally:
        load.stop()
    assert not load.wrong, load.wrong[:3]
    # A replica that dies now is replaced by the new controller.
    victim = next(iter(before["Ingress"]))
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: get(site.port) == (200, "2"), 30, "a new ingress")
    now = site.pids("default")
    assert now["Adder"] == before["Adder"] and not now["Ingress"] & before["Ingress"]
    site.serve("shutdown", "-y")
    assert get(site.port) == (0, "")
