"""`skate stack`: the lines of processes that sleep, hold the interpreter's lock, are stopped, or idle."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import skate as ray
from skate import stack_dumps
from skate.client.session import stack_reader
from skate.command import stack
from tests.conformance.waiting import Gate, wait_for


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    ray.init(num_cpus=4, log_to_driver=False)
    yield
    ray.shutdown()


@ray.remote
def computing(begun: Gate, pid_file: Path) -> None:
    pid_file.write_text(str(os.getpid()))
    begun.open()
    sum(range(10**12))  # hours, in one call of C


@ray.remote
def waiting(begun: Gate, pid_file: Path) -> None:
    def in_thread() -> None:
        threading.Event().wait()

    threading.Thread(target=in_thread, daemon=True).start()
    pid_file.write_text(str(os.getpid()))
    begun.open()
    threading.Event().wait()


@ray.remote
class Idle:
    async def pid(self) -> int:
        return os.getpid()

    async def wait(self) -> None:
        await asyncio.Event().wait()


def shown(pid: int, *words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert stack.main(["--pid", str(pid), *words]) == 0
    return capsys.readouterr().out


def running(function: ray.remote_function.RemoteFunction, folder: Path) -> tuple[int, ray.ObjectRef]:
    """Start a task; return the pid of its worker once it has begun."""
    gate, file = Gate(folder / "begun"), folder / "pid"
    ref = function.remote(gate, file)
    gate.wait()
    return int(file.read_text()), ref


def test_a_process_that_holds_the_interpreter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pid, ref = running(computing, tmp_path)
    text = wait_for(lambda: "sum(range" in (text := shown(pid, capsys=capsys)) and text)
    assert f"pid {pid}" in text and "in computing" in text
    assert f'File "{__file__}"' in text and "worker/call_runner.py" not in text
    assert "worker/call_runner.py" in shown(pid, "--all", capsys=capsys)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert f"it is stopped; continue it with: kill -CONT {pid}" in shown(pid, capsys=capsys)
    finally:
        os.kill(pid, signal.SIGCONT)
    ray.cancel(ref, force=True)


def test_threads_of_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pid, ref = running(waiting, tmp_path)
    text = wait_for(lambda: text if "thread 2 of 2" in (text := shown(pid, capsys=capsys)) else "")
    first, second = text.split("thread 2 of 2")
    assert "in waiting" in first and "in in_thread" in second
    ray.cancel(ref, force=True)


def test_an_actor_that_waits_and_the_driver(capsys: pytest.CaptureFixture[str]) -> None:
    actor = Idle.remote()
    pid = ray.get(actor.pid.remote())
    assert shown(pid, capsys=capsys).endswith("  idle\n")
    text = shown(os.getpid(), capsys=capsys)
    assert f"pid {os.getpid()}" in text and "test_an_actor_that_waits_and_the_driver" in text
    assert f"pid {pid}" in text, "workers are below their driver"


def test_dumps_do_not_add_up() -> None:
    texts = {stack_reader.dump(os.getpid()).count("most recent call first") for _ in range(20)}
    assert max(texts) <= threading.active_count()


def test_a_thread_that_blocks_all_signals_is_no_obstacle() -> None:
    over, begun = threading.Event(), threading.Event()

    def blocking() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        begun.set()
        over.wait()

    thread = threading.Thread(target=blocking)
    thread.start()
    assert begun.wait(20)
    try:
        assert "in blocking" in stack_reader.dump(os.getpid())
    finally:
        over.set()
        thread.join()


def test_there_is_nobody_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert stack.main(["--pid", str(other.pid)]) == 1
        assert f"no session of yours is process {other.pid} or runs below it" in capsys.readouterr().err
        with pytest.raises(stack_reader.NoAnswer, match="ended, or belongs to no session"):
            stack_reader.dump(other.pid)
        other.communicate(b"\n")


def test_a_session_that_has_ended() -> None:
    program = "import skate, sys; skate.init(); skate.shutdown(); print('over', flush=True); input(); print('alive')"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"over\n"
        assert other.pid not in stack_reader.offering()
        os.kill(other.pid, stack_dumps.SIGNAL)  # of a reader that was quicker than the end of the session
        assert other.communicate(b"\n")[0] == b"alive\n"
