"""The state API beyond Ray's: unresponsive processes, output of workers, the memory table, and the commands."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import skate
from skate.client.session.session import host
from skate.command import main
from skate.node.memory.memory_monitor import NEVER
from skate.util import state
from skate.util.state.exceptions import RayStateApiException, ServerUnavailable
from tests.conformance.waiting import wait_for


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    skate.init(num_cpus=2, log_to_driver=False)
    yield
    skate.shutdown()


@skate.remote
class Printer:
    def print_line(self, text: str) -> int:
        print(text)
        return os.getpid()


def test_a_process_that_does_not_answer_is_named() -> None:
    printer = Printer.remote()
    pid = skate.get(printer.print_line.remote("hello"))
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(RayStateApiException, match=f"pid={pid}"):
            state.list_objects(timeout=0.3)
        ref = skate.put("still found")
        with pytest.warns(UserWarning, match=f"pid={pid}"):
            rows = state.list_objects(timeout=0.3, raise_on_missing_output=False)
        assert ref.hex() in [row.object_id for row in rows]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert state.list_objects() is not None


def test_a_lasting_wait_of_an_actor_is_shown() -> None:
    @skate.remote
    class Gate:
        def __init__(self) -> None:
            self.event = asyncio.Event()

        async def opened(self) -> None:
            await self.event.wait()

        async def open(self) -> None:
            self.event.set()

    @skate.remote
    class Waiter:
        def wait(self, gate: Any) -> str:
            skate.get(gate.opened.remote())
            return "ended"

    def state_of_wait() -> str:
        (row,) = state.list_tasks(filters=[("name", "=", "Waiter.wait")])
        return str(row.state)

    gate, waiter = Gate.remote(), Waiter.remote()
    ref = waiter.wait.remote(gate)
    wait_for(lambda: state_of_wait() == "RUNNING_IN_RAY_GET")
    skate.get(gate.open.remote())
    assert skate.get(ref) == "ended"
    assert state_of_wait() == "FINISHED"


def test_an_idle_asyncio_actor_answers_at_once() -> None:
    @skate.remote
    class Loop:
        async def turn(self) -> int:
            return os.getpid()

    loop = Loop.remote()
    pid = skate.get(loop.turn.remote())
    # With an answer missing, this is an error after the timeout.
    assert pid in [row.pid for row in state.list_workers(timeout=20)]


def test_a_process_that_dies_while_it_is_asked_is_not_waited_for() -> None:
    printer = Printer.remote()
    pid = skate.get(printer.print_line.remote("hello"))
    os.kill(pid, signal.SIGSTOP)
    skate.kill(printer)
    assert state.list_objects(timeout=20) is not None
    wait_for(lambda: pid not in [row.pid for row in state.list_workers() if row.is_alive], what="its end")


def test_an_answer_in_several_steps_wakes_the_thread_that_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    printer = Printer.remote()
    skate.get([printer.print_line.remote("hello") for _ in range(10)])
    node = host()
    assert node is not None
    monkeypatch.setattr(node.core.surveys, "slice", 2)
    monkeypatch.setattr(node.monitor, "asleep", False)
    monkeypatch.setattr(node.monitor, "due", NEVER)  # nothing else wakes it
    assert len([row for row in state.list_tasks(timeout=5) if row.name == "Printer.print_line"]) >= 10


def test_what_a_worker_printed_last_can_be_read() -> None:
    printer = Printer.remote()
    pid = skate.get([printer.print_line.remote(f"line {n}") for n in range(3)])[0]
    actor_id = printer._actor_id.hex()

    def text(**how: object) -> str:
        try:
            return "".join(state.get_log(**how))
        except RayStateApiException:
            return ""

    wait_for(lambda: "line 2" in text(pid=pid), what="the lines to be read")
    assert text(actor_id=actor_id, tail=2) == "line 1\nline 2\n"
    assert f"worker-{pid}.out" in state.list_logs()["worker_out"]
    assert text(filename=f"worker-{pid}.out", tail=1) == "line 2\n"
    with pytest.raises(RayStateApiException, match="list_logs"):
        next(iter(state.get_log(pid=1)))
    with pytest.raises(ValueError, match="task_id"):
        next(iter(state.get_log()))


def test_the_memory_table_shows_the_largest_first() -> None:
    small, large = skate.put("small"), skate.put(np.zeros(200_000))
    text = state.memory_summary()
    lines = [line for line in text.splitlines() if small.hex() in line or large.hex() in line]
    assert large.hex() in lines[0], text
    assert "LOCAL_REFERENCE" in lines[0]
    assert re.search(r"test_state\.py:\d+", lines[0])
    assert f"driver pid={os.getpid()}" in lines[0]
    assert "--- made at" in state.memory_summary(group_by="STACK_TRACE", units="MB")
    assert large.hex() not in state.memory_summary(stats_only=True)
    assert "more" in state.memory_summary(num_entries=1)
    with pytest.raises(ValueError, match="GB"):
        state.memory_summary(units="furlongs")


def test_the_verbs_print(capsys: pytest.CaptureFixture[str]) -> None:
    ref = skate.put(np.zeros(200_000))
    assert main(["memory", "--units", "MB"]) == 0
    assert ref.hex() in capsys.readouterr().out
    assert main(["list", "objects", "--filter", f"object_id={ref.hex()}", "--format", "json"]) == 0
    assert ref.hex() in capsys.readouterr().out
    assert main(["list", "placement-groups"]) == 0
    assert capsys.readouterr().out == "No resource in the cluster\n"
    assert main(["summary", "tasks"]) == 0
    assert "total_tasks: " in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["list", "tasks", "--filter", "nonsense=1"])
    assert "nonsense" in capsys.readouterr().err


def test_without_a_session_there_is_nobody_to_ask() -> None:
    skate.shutdown()
    try:
        with pytest.raises(ServerUnavailable, match="init"):
            state.list_tasks()
    finally:
        skate.init(num_cpus=2, log_to_driver=False)
