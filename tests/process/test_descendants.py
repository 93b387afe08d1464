"""Processes started by user code in a worker end with the worker, or at the latest with the session, however these end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.waiting import wait_for
from tests.process.programs import Program

SETUP = """
    import os, signal, subprocess, sys, time
    from waiting import wait_for

    ray.init(START)
    folder = sys.argv[1]
    SLEEP = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"

    def sleeper(**options):
        return subprocess.Popen([sys.executable, "-c", SLEEP], **options).pid

    def family():
        '''A child, a grandchild whose parent has gone, one in a session of its own, a forked one that masks all signals.'''
        first = sleeper()
        text = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {SLEEP!r}], stdout=2).pid)"
        second = int(subprocess.check_output([sys.executable, "-c", text]))
        third = sleeper(start_new_session=True)
        fourth = os.fork()
        if not fourth:
            signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
            time.sleep(1000)
        return first, second, third, fourth

    @ray.remote(max_retries=0)
    def starts(name):
        pids = family()
        open(f"{folder}/{name}", "w").write(" ".join(map(str, pids)))
        time.sleep(1000)

    @ray.remote
    class Starts:
        def family(self):
            return family()
        def pid(self):
            return os.getpid()

    def alive(pids):
        states = []
        for pid in pids:
            try: states.append(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] not in "ZX")
            except OSError: states.append(False)
        return states

    def read(name):
        there = lambda: os.path.exists(f"{folder}/{name}") and len(open(f"{folder}/{name}").read().split()) == 4
        wait_for(there, what=f"the four of {name}")
        return [int(pid) for pid in open(f"{folder}/{name}").read().split()]
"""


@pytest.mark.parametrize("ending", ["SIGKILL", "SIGTERM", "returns", "os._exit"])
def test_all_that_tasks_and_actors_started_ends_with_the_driver(
    ending: str, program: Callable[..., Program], tmp_path: Path
) -> None:
    # Python notices a signal that arrives just before a call blocks only when the call returns, so the calls are short.
    short = "while True: time.sleep(0.05)"
    last = {"returns": "sys.stdin.readline()", "os._exit": "sys.stdin.readline(); os._exit(0)"}.get(
        ending, short
    )
    started = program(
        SETUP
        + f"""
    ref = starts.remote("task")
    actor = Starts.remote()
    pids = [*ray.get(actor.family.remote()), *read("task")]
    assert all(alive(pids)), alive(pids)
    print("up", flush=True)
    {last}
    """,
        str(tmp_path),
    )
    started.wait_for_output("^up")
    assert len(started.others()) >= 11  # the zygote, two workers, eight below them
    if ending.startswith("SIG"):
        os.kill(started.process.pid, getattr(signal, ending))
    else:
        started.write_line("")
    started.gone()


def test_what_a_worker_started_ends_with_the_worker(run: Callable[..., Program], tmp_path: Path) -> None:
    run(
        SETUP
        + """
    ref = starts.remote("task")
    pids = read("task")
    ray.cancel(ref, force=True)
    # What has left the group of the worker is on its own as long as the session runs.
    wait_for(lambda: alive(pids) == [False, False, True, False], what="the end of descendants")

    actor = Starts.remote()
    pids = ray.get(actor.family.remote())
    ray.kill(actor)
    wait_for(lambda: alive(pids) == [False, False, True, False], what="the end of descendants")

    actor = Starts.remote()
    pids = ray.get(actor.family.remote())
    os.kill(ray.get(actor.pid.remote()), signal.SIGSEGV)
    wait_for(lambda: alive(pids) == [False, False, True, False], what="the end of descendants")

    actor = Starts.remote()
    pids = ray.get(actor.family.remote())
    del actor
    wait_for(lambda: alive(pids) == [False, False, True, False], what="the end of descendants")
    """,
        str(tmp_path),
    )


def test_what_a_task_started_outlives_the_task_as_long_as_its_worker(
    run: Callable[..., Program], tmp_path: Path
) -> None:
    run(
        SETUP
        + """
    @ray.remote
    def leaves_one():
        return sleeper()

    @ray.remote
    def quick():
        return 1

    pid = ray.get(leaves_one.remote())
    assert ray.get([quick.remote() for _ in range(20)]) == [1] * 20
    assert alive([pid]) == [True]
    """,
        str(tmp_path),
    )


def test_a_killed_zygote_takes_along_what_its_workers_started(
    program: Callable[..., Program], tmp_path: Path
) -> None:
    started = program(
        SETUP
        + """
    @ray.remote(max_restarts=1, max_task_retries=1)
    class Restarts:
        def family(self):
            return [sleeper(), sleeper()]
        def pid(self):
            return os.getpid()

    actor = Restarts.remote()
    pids = ray.get(actor.family.remote())
    first = ray.get(actor.pid.remote())
    print("up", flush=True)
    sys.stdin.readline()
    wait_for(lambda: alive(pids) == [False, False], what="the end of descendants")
    assert ray.get(actor.pid.remote(), timeout=20) != first
    """,
        str(tmp_path),
    )
    started.wait_for_output("^up")
    os.kill(zygote_of(started), signal.SIGKILL)
    started.write_line("")
    assert started.end() == 0, started.story()
    started.gone()


def test_a_driver_killed_while_modules_are_preloaded_leaves_nothing(
    program: Callable[..., Program], tmp_path: Path
) -> None:
    (tmp_path / "slow_module.py").write_text(
        f"import time; open({str(tmp_path / 'begun')!r}, 'w').close()\nwhile True: time.sleep(0.01)\n"
    )
    started = program(
        "ray.init(START, preload=['slow_module']); import time; time.sleep(60)", PYTHONPATH=str(tmp_path)
    )
    wait_for((tmp_path / "begun").exists, what="the import in the zygote")
    started.process.kill()
    started.gone()


def zygote_of(started: Program) -> int:
    """Return the only child of the driver."""
    parents = {
        pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] for pid in started.others()
    }
    found = [pid for pid, parent in parents.items() if parent == str(started.process.pid)]
    assert len(found) == 1, parents
    return found[0]


def test_an_installer_and_what_it_started_end_with_a_killed_driver(
    program: Callable[..., Program], tmp_path: Path
) -> None:
    started = program(
        """
        import pathlib, sys
        from skate.runtime_env.deadline import Deadline
        from skate.runtime_env.packages.installers import run
        folder = pathlib.Path(sys.argv[1])
        # As pip does for a package that has to be built.
        script = f"sleep 1000 & echo $! > {folder}/begun; sleep 1000"
        run(["sh", "-c", script], "installing", folder / "log", Deadline(None), {})
        """,
        str(tmp_path),
    )
    wait_for(lambda: (tmp_path / "begun").exists() and len(started.others()) >= 3, what="the installer")
    started.process.kill()
    started.gone()


def test_an_installer_ends_as_its_command_does(run: Callable[..., Program], tmp_path: Path) -> None:
    run(
        """
        import pathlib, sys
        from skate.exceptions import RuntimeEnvSetupError
        from skate.runtime_env.deadline import Deadline
        from skate.runtime_env.packages.installers import run
        def code(*command):
            try:
                run(command, "installing", pathlib.Path(sys.argv[1]) / "log", Deadline(None), {})
            except RuntimeEnvSetupError as error:
                return str(error)
        assert code("true") is None
        assert "code 3" in code("sh", "-c", "exit 3")
        assert "code 247" in code("sh", "-c", "kill -9 $$")
        assert "no-such-installer" in code("no-such-installer")
        """,
        str(tmp_path),
    )
