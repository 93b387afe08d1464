"""Drivers that are killed at bad moments or run in difficult environments: nothing is left, and failures are
reported."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.waiting import wait_for
from tests.process.programs import SOURCE, Program

SETUP = """
    import ctypes, os, resource, signal, subprocess, sys, threading, time
    from skate.client.session import session
    from waiting import wait_for

    ray.init(START)

    @ray.remote
    def quick(x):
        return x

    @ray.remote(num_cpus=0)
    class Small:
        def pid(self):
            return os.getpid()
"""

# The driver's work when it is killed; it prints "up" once it has started.
BUSY = {
    "idle": "",
    "workers busy in Python": """
    @ray.remote(num_cpus=0)
    def spin():
        while True: pass
    refs = [spin.remote() for _ in range(8)]
    """,
    "workers busy in C, with the GIL held": """
    @ray.remote(num_cpus=0)
    def spin():
        sum(range(10 ** 11))
    refs = [spin.remote() for _ in range(4)]
    """,
    "workers that mask and ignore all signals": """
    @ray.remote(num_cpus=0)
    class Deaf:
        def deaf(self):
            for number in set(range(1, 65)) - {9, 19, 32, 33}:
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
            return 1
        def sleep(self):
            ctypes.CDLL(None).sleep(1000)
    actors = [Deaf.remote() for _ in range(4)]
    ray.get([actor.deaf.remote() for actor in actors])
    refs = [actor.sleep.remote() for actor in actors]
    """,
    "stopped workers": """
    @ray.remote(num_cpus=0)
    def stops():
        os.kill(os.getpid(), signal.SIGSTOP)
    refs = [stops.remote() for _ in range(3)]
    """,
    "10,000 tasks queued": """
    refs = [quick.remote(i) for i in range(10_000)]
    """,
    "200 actors": """
    actors = [Small.remote() for _ in range(200)]
    ray.get([actor.pid.remote() for actor in actors])
    """,
    "values in the overflow file": """
    refs = [ray.put(bytes(64 << 20)) for _ in range(6)]
    """,
    "a thread that prints": """
    @ray.remote(num_cpus=0)
    def prints():
        while True: print("x" * 1000)
    refs = [prints.remote() for _ in range(3)]
    """,
    "a forked child that lives on for a while": """
    actor = Small.remote()
    ray.get(actor.pid.remote())
    def child():
        pid = os.fork()
        if not pid:
            os.environ.clear()
            wait_for(lambda: os.path.exists(sys.argv[1]), 60, "the test to have looked")
            os._exit(0)
        return pid
    print("child", child(), flush=True)
    """,
    "a thread in get": """
    @ray.remote
    def sleeps():
        time.sleep(1000)
    ref = sleeps.remote()
    threading.Thread(target=ray.get, args=(ref,), daemon=True).start()
    """,
}


@pytest.mark.parametrize("what", BUSY)
def test_killed_driver_leaves_nothing(what: str, program: Callable[..., Program], tmp_path: Path) -> None:
    temporary, home = tmp_path / "temporary", tmp_path / "home"
    temporary.mkdir()
    home.mkdir()
    shared = set(os.listdir("/dev/shm"))
    gate = tmp_path / "gate"
    started = program(
        SETUP + BUSY[what] + "\n    print('up', flush=True)\n    threading.Event().wait()\n",
        str(gate),
        TMPDIR=str(temporary),
        HOME=str(home),
    )
    started.wait_for_output("^up")
    started.process.kill()
    started.process.wait()
    child = [int(line.split()[1]) for line in started.lines if line.startswith("child")]
    try:
        wait_for(
            lambda: set(started.others()) <= set(child),
            2.0,
            f"the end of what it started: {started.others()}",
        )
    finally:
        gate.touch()
    started.gone()
    assert not list(temporary.iterdir()) and not list(home.iterdir())
    assert set(os.listdir("/dev/shm")) <= shared


def test_driver_killed_at_any_moment_of_its_start_leaves_nothing(program: Callable[..., Program]) -> None:
    moments = random.Random(5)
    for _ in range(12):
        started = program(
            """
            print("begun", flush=True)
            ray.init(START)
            @ray.remote(num_cpus=0)
            class Small: pass
            actors = []
            while True:
                actors = [*actors[-20:], Small.remote()]
            """
        )
        started.wait_for_output("^begun")
        threading.Event().wait(moments.uniform(0, 0.5))
        started.process.kill()
        started.gone()


LAST = {
    "tasks pending at the end": (
        "refs = [quick.options(num_cpus=1).remote(None) for _ in range(2000)]",
        0,
    ),
    "a daemon thread in get": (
        "threading.Thread(target=ray.get, args=(sleeps.remote(),), daemon=True).start(); "
        "pump = session.current().pump; "
        "wait_for(lambda: pump._driver and not pump._background_drives, what='the thread in get')",
        0,
    ),
    "an exception in a callback at exit": ("import atexit; atexit.register(lambda: 1 / 0)", 0),
    "os.abort": ("os.abort()", -signal.SIGABRT),
    "exec of another program": ("os.execv('/bin/true', ['true'])", 0),
    "stop in the middle of a put": (
        "threading.Timer(0.05, os._exit, (6,)).start()\n    while True: ray.put(bytes(8 << 20))",
        6,
    ),
}


@pytest.mark.parametrize("what", LAST)
def test_driver_that_ends_oddly_leaves_nothing(what: str, program: Callable[..., Program]) -> None:
    text, code = LAST[what]
    started = program(
        SETUP
        + f"""
    @ray.remote
    def sleeps():
        time.sleep(1000)
    actor = Small.remote()
    ray.get(actor.pid.remote())
    {text}
    """
    )
    assert started.end() == code, started.story()
    started.gone()


SURROUNDINGS: dict[str, tuple[str, dict[str, str | None]]] = {
    "no HOME": ("", {"HOME": None}),
    "a HOME that is not there": ("", {"HOME": "/nonexistent/home"}),
    "a TMPDIR that is not there": ("", {"TMPDIR": "/nonexistent/tmp"}),
    "an empty environment": ("", {"*": None}),
    "no stdin": ("0<&-", {}),
    "no stdin, stdout or stderr": ("0<&- >&- 2>&-", {}),
    "other limits of descriptors": ("; ulimit -n 256", {}),
    "no core files, a small stack": ("; ulimit -c 0; ulimit -s 1024", {}),
}

WORKS = """
import os, sys
sys.path.insert(0, SOURCE)
import skate as ray
ray.init(num_cpus=2, num_gpus=0, object_store_memory=2**27)
@ray.remote
def double(x):
    print("working")
    return 2 * x
@ray.remote
class Counter:
    def add(self): return 1
assert ray.get([double.remote(i) for i in range(50)]) == [2 * i for i in range(50)]
assert ray.get(Counter.remote().add.remote()) == 1
assert len(ray.get(ray.put(bytes(1 << 20)))) == 1 << 20
ray.shutdown()
open(sys.argv[1], "w").write("done")
"""


@pytest.mark.parametrize("what", SURROUNDINGS)
def test_poor_surroundings(what: str, tmp_path: Path) -> None:
    shell, changes = SURROUNDINGS[what]
    environment = dict(os.environ) if "*" not in changes else {}
    for name, value in changes.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    path = tmp_path / "works.py"
    path.write_text(WORKS.replace("SOURCE", repr(SOURCE)))
    first, second = (f"{shell[1:]}; ", "") if shell.startswith(";") else ("", shell)
    script = f"{first}exec {sys.executable} {path} {tmp_path / 'said'} {second}"
    done = subprocess.run(
        ["/bin/bash", "-c", script],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "said").read_text() == "done"


def test_a_system_that_starts_no_more_processes_is_an_error_that_says_so(
    run: Callable[..., Program], tmp_path: Path
) -> None:
    (tmp_path / "refuses.py").write_text(
        """
import errno, os
fork = os.fork
def refused():
    if os.path.exists(os.environ["FULL"]):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()
os.fork = refused
"""
    )
    done = run(
        """
        import os
        ray.init(START, preload=["refuses"])
        @ray.remote(num_cpus=0)
        class Small:
            def get(self): return 1
        first = Small.remote()
        assert ray.get(first.get.remote()) == 1
        open(os.environ["FULL"], "w").close()
        actors = [Small.remote() for _ in range(3)]
        for actor in actors:
            try: ray.get(actor.get.remote(), timeout=20)
            except ray.exceptions.RayError as error: print(error)
        assert ray.get(first.get.remote()) == 1
        os.unlink(os.environ["FULL"])
        assert ray.get(Small.remote().get.remote()) == 1
        """,
        PYTHONPATH=str(tmp_path),
        FULL=str(tmp_path / "full"),
    )
    assert done.out.count("cannot start more processes") == 3 and "ulimit -u" in done.out, done.story()
