"""`skate profile` and Ray's profile routes: shares of time, threads that wait, memory, files, processes that do not answer."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import skate as ray
from skate.client.profiler import sampler
from skate.command import profile
from skate.dashboard.app import guarded
from skate.util.profiling import take
from tests.conformance.waiting import Gate, wait_for
from tests.dashboard.asking import access, ask, bearer


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    ray.init(num_cpus=4, log_to_driver=False)
    yield
    ray.shutdown()


def in_python(until: float) -> None:
    while time.thread_time() < until:
        pass


def in_c(until: float) -> None:
    while time.thread_time() < until:
        sum(range(200_000))  # holds the interpreter's lock


@ray.remote
def alternating(pid_file: Path, done: Gate) -> float:
    """Run both functions in turn, and return the share of the first by the thread's own clock."""
    spent = [0.0, 0.0]
    pid_file.write_text(str(os.getpid()))
    while not done.is_open():
        for which, (function, seconds) in enumerate(((in_python, 0.006), (in_c, 0.018))):
            begun = time.thread_time()
            function(begun + seconds)
            spent[which] += time.thread_time() - begun
    return spent[0] / sum(spent)


@ray.remote
def holding(pid_file: Path, done: Gate) -> int:
    """Allocate, and wait without using the CPU."""
    kept = []
    pid_file.write_text(str(os.getpid()))
    while not done.is_open():
        kept.append(bytearray(100_000))
        threading.Event().wait(0.02)
    return len(kept)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[Any], tuple[int, Callable[[], Any]]]]:
    """Start one of the functions above; return its process, and a function that ends it."""
    done, pid_file = Gate(tmp_path / "done"), tmp_path / "pid"
    refs = []

    def start(function: Any) -> tuple[int, Callable[[], Any]]:
        refs.append(function.remote(pid_file, done))
        wait_for(lambda: pid_file.exists() and pid_file.read_text(), what="the task to begin")

        def end() -> Any:
            done.open()
            return ray.get(refs[0])

        return int(pid_file.read_text()), end

    yield start
    done.open()
    ray.get(refs)


def test_shares_are_those_of_the_threads_clock(started: Any) -> None:
    pid, end = started(alternating)
    spent: dict[str, int] = {}
    looks = 0
    while looks < 300:  # a loaded machine looks less often
        (found,), missing = take(1.0, 200.0, pids=[pid])
        assert (found.pid, found.name, missing) == (pid, "ray::alternating", [])
        assert found.samples.seconds >= 1.0 and found.samples.looks > 1
        looks += found.samples.looks
        for frames, micros in found.samples.stacks:
            for frame in frames:
                name = frame.split()[0]
                spent[name] = spent.get(name, 0) + micros
    share = spent["in_python"] / (spent["in_python"] + spent["in_c"])
    assert abs(share - end()) < 0.15  # six standard deviations
    assert spent["alternating"] >= spent["in_python"] + spent["in_c"]


def test_threads_that_wait_count_only_by_the_wall(started: Any) -> None:
    pid, _ = started(holding)
    (by_cpu,), _ = take(0.5, pids=[pid])
    (by_wall,), _ = take(0.5, pids=[pid], mode="wall")

    def waiting(found: Any) -> int:
        return sum(
            micros for frames, micros in found.samples.stacks if any("holding (" in frame for frame in frames)
        )

    assert waiting(by_wall) > 0.4e6 > 2 * waiting(by_cpu)


def test_memory_that_is_still_held(started: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pid, _ = started(holding)
    assert profile.main(["--memory", "--seconds", "1", str(pid)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"pid {pid} ray::holding: ")
    first = out.splitlines()[2]
    assert "test_profile.py:" in first and "MiB" in first


def test_files(started: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pid, _ = started(alternating)
    outputs = [tmp_path / name for name in ("a.svg", "a.json", "a.txt")]
    for path in outputs:
        assert profile.main([str(pid), "-d", "0.5", "-o", str(path)]) == 0
        assert str(path) in capsys.readouterr().out
    texts = [path.read_text() for path in outputs]
    titles = [
        each.text or "" for each in ElementTree.fromstring(texts[0]).iter("{http://www.w3.org/2000/svg}title")
    ]
    assert any(title.startswith("alternating (") for title in titles)
    assert titles[0].startswith(f"pid {pid} ray::alternating: ") and titles[0].endswith(" 100.0 %")
    scope = json.loads(texts[1])
    names = [each["name"] for each in scope["shared"]["frames"]]
    (process,) = scope["profiles"]
    assert len(process["samples"]) == len(process["weights"]) and process["endValue"] == sum(
        process["weights"]
    )
    assert any(names[number].startswith("in_c (") for sample in process["samples"] for number in sample)
    lines = texts[2].splitlines()
    assert all(
        line.startswith(f"pid {pid} ray::alternating;") and int(line.split()[-1]) >= 0 for line in lines
    )


def test_all_processes_answer_at_once(started: Any) -> None:
    pid, _ = started(alternating)
    begun = time.monotonic()
    profiles, missing = take(0.3)
    assert {pid, os.getpid()} <= {each.pid for each in profiles} and not missing
    assert time.monotonic() - begun < 0.3 + 5


def test_a_stopped_process_is_named(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pid, _ = started(holding)
    monkeypatch.setattr("skate.util.profiling.requests.GRACE_SECONDS", 0.3)
    os.kill(pid, signal.SIGSTOP)
    try:
        profiles, missing = take(0.1)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert pid not in {each.pid for each in profiles}
    assert any(f"pid {pid} " in line and "stopped" in line for line in missing)


def test_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        profile.main(["-o", "profile.png"])
    assert ".svg, .json, .txt, got 'profile.png'" in capsys.readouterr().err
    for arguments, reason in (
        (["-d", "0"], "more than 0 and at most 600 s"),
        (["-d", "nan"], "more than 0 and at most 600 s"),
        (["-r", "5000"], "from 1 to 1000 samples"),
    ):
        assert profile.main(arguments) == 1
        assert reason in capsys.readouterr().err
    assert profile.main(["-d", "0.1", "1"]) == 1
    assert "no process of the session has the id 1" in capsys.readouterr().err


def test_routes(started: Any, tmp_path: Path) -> None:
    pid, _ = started(alternating)
    app = guarded(access())
    node_id = ray.get_runtime_context().get_node_id()

    def get(path: str) -> Any:
        return ask(app, path, headers=[bearer("control")])

    where = f"pid={pid}&node_id={node_id}"
    assert b"in alternating" in get(f"/worker/traceback?{where}").body
    answer = get(f"/worker/cpu_profile?{where}&duration=1")
    assert answer.headers["content-type"] == "image/svg+xml" and b"alternating" in answer.body
    raw = get(f"/worker/cpu_profile?pid={pid}&ip=127.0.0.1&duration=1&format=raw")
    assert raw.status == 200 and b";alternating (test_profile.py:" in raw.body
    (task,) = ray.util.state.list_tasks(filters=[("name", "=", "alternating"), ("state", "=", "RUNNING")])
    of_task = f"task_id={task.task_id}&attempt_number=0&node_id={node_id}"
    assert b"in alternating" in get(f"/task/traceback?{of_task}").body
    table = get(f"/memory_profile?{of_task}&duration=1&format=table")
    assert table.status == 200 and b"function (file:line)" in table.body
    refused = {
        "/worker/traceback": 400,
        f"/worker/traceback?pid=x&node_id={node_id}": 400,
        f"/worker/traceback?pid=1&node_id={node_id}": 404,
        f"/worker/cpu_profile?pid={pid}&node_id=ff": 404,
        f"/worker/cpu_profile?{where}&duration=0": 400,
        f"/worker/cpu_profile?{where}&format=png": 400,
        f"/task/cpu_profile?task_id=ff&attempt_number=0&node_id={node_id}": 404,
        f"/task/cpu_profile?task_id=ff&node_id={node_id}": 400,
    }
    assert {path: get(path).status for path in refused} == refused


def test_a_process_that_holds_the_lock_has_a_traceback(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    @ray.remote(max_retries=0)
    def computing() -> None:
        pid_file.write_text(str(os.getpid()))
        sum(range(10**12))  # hours, in one call of C

    ref = computing.remote()
    wait_for(lambda: pid_file.exists() and pid_file.read_text(), what="the task to begin")
    pid, node_id = int(pid_file.read_text()), ray.get_runtime_context().get_node_id()
    answer = ask(
        guarded(access()), f"/worker/traceback?pid={pid}&node_id={node_id}", headers=[bearer("control")]
    )
    assert answer.status == 200 and b"in computing" in answer.body
    ray.cancel(ref, force=True)
    with pytest.raises(ray.exceptions.RayError):
        ray.get(ref)


def test_frames_deeper_than_the_limit() -> None:
    ready, done = threading.Event(), threading.Event()

    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        else:
            ready.set()
            done.wait()

    thread = threading.Thread(target=deep, args=(300,))
    thread.start()
    assert ready.wait(20)
    found = sampler.sample(0.05, 100, True, lambda: False)
    done.set()
    thread.join()
    assert max(len(frames) for frames, _ in found.stacks) == sampler.FRAMES_MAX
