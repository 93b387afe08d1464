"""A driver leaves no process, port, file, descriptor or thread behind, however it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.waiting import wait_for
from tests.process.programs import Program, listening_ports

BUSY = """
    import os, sys, time, threading

    ray.init(START)

    @ray.remote
    def spin():
        while True:
            time.sleep(0.01)

    @ray.remote
    class Keeper:
        def pid(self):
            return os.getpid()

    keeper = Keeper.remote()
    big = ray.put(bytes(1 << 20))
    running = spin.remote()
    ray.get(keeper.pid.remote())
"""

ENDINGS = {
    "returns": ("", 0),
    "raises": ("raise KeyError('no such thing')", 1),
    "sys.exit": ("sys.exit(3)", 3),
    "os._exit": ("os._exit(4)", 4),
    "exit in a thread": (
        "t = threading.Thread(target=lambda: os._exit(5)); t.start(); t.join(); time.sleep(30)",
        5,
    ),
    "kills itself": ("os.kill(os.getpid(), 9)", -9),
    "segfault": ("import ctypes; ctypes.string_at(0)", -11),
    "shut down": ("ray.shutdown()", 0),
    "atexit that uses the session": (
        "import atexit; atexit.register(lambda: print('last', ray.get(keeper.pid.remote()) > 0))",
        0,
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_driver_that_ends_leaves_no_process(ending: str, program: Callable[..., Program]) -> None:
    text, code = ENDINGS[ending]
    started = program(BUSY + "    " + text)
    assert started.end() == code, started.story()
    started.gone()
    if ending.startswith("atexit"):
        assert "last True" in started.out


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT]
)
def test_driver_that_is_killed_leaves_no_process(
    number: signal.Signals, program: Callable[..., Program]
) -> None:
    # What a shell starts in the background without job control ignores SIGQUIT, and what `nohup` starts SIGHUP; and so does
    # all that they start.
    heard = "    import signal\n" + "".join(
        f"    signal.signal(signal.{each}, signal.SIG_DFL)\n" for each in ("SIGQUIT", "SIGHUP")
    )
    started = program(BUSY + heard + "    print('up', flush=True)\n    while True: signal.pause()")
    started.wait_for_output("^up")
    assert len(started.others()) >= 3  # the zygote, the actor, the task
    os.kill(started.process.pid, number)
    started.gone()
    # SIGTERM ends a program as sys.exit does, so that its atexit functions run.
    assert started.process.returncode == (15 if number == signal.SIGTERM else -number)


def test_zygote_that_is_killed_takes_its_workers_along(program: Callable[..., Program]) -> None:
    started = program(
        BUSY
        + """
    @ray.remote
    def waits(path):
        while not os.path.exists(path):
            time.sleep(0.005)
        return os.getpid()

    path = sys.argv[0] + ".open"
    ray.cancel(running, force=True)
    ref = waits.remote(path)
    print("up", ray.get(keeper.pid.remote()), flush=True)
    sys.stdin.readline()
    try:
        ray.get(keeper.pid.remote())
    except ray.exceptions.ActorDiedError as error:
        print("actor died", str(error).splitlines()[0], flush=True)
    open(path, "w").close()
    print("retried", ray.get(ref) > 0, flush=True)
    print("new actor", ray.get(Keeper.remote().pid.remote()) > 0, flush=True)
    """
    )
    started.wait_for_output("^up")
    children = [
        pid
        for pid in started.others()
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] == str(started.process.pid)
    ]
    assert len(children) == 1, started.others()
    actor = int(started.wait_for_output(r"^up \d+").split()[1])
    os.kill(children[0], signal.SIGKILL)
    wait_for(lambda: actor not in started.others(), what="the end of the actor's process")
    started.write_line("")
    assert started.end() == 0, started.story()
    started.gone()
    assert "actor died" in started.out and "retried True" in started.out and "new actor True" in started.out


def test_no_port_is_opened_and_no_file_is_left(program: Callable[..., Program], tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    started = program(
        BUSY + "    print('up', flush=True); sys.stdin.readline()", TMPDIR=str(temporary), HOME=str(tmp_path)
    )
    started.wait_for_output("^up")
    pids = [started.process.pid, *started.others()]
    assert not list(listening_ports(pids))
    assert os.listdir(temporary) == []
    started.process.kill()
    started.gone()
    assert os.listdir(temporary) == []
    assert {name for name in os.listdir("/dev/shm") if "skate" in name} <= before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program0", "temporary"]


def test_twenty_sessions_in_one_process_leak_nothing(run: Callable[..., Program]) -> None:
    done = run(
        """
        import gc, os, signal, threading

        def state():
            gc.collect()
            fds = [n for n in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{n}")]
            maps = [line.split(None, 5)[-1] for line in open("/proc/self/maps") if "memfd" in line]
            return len(fds), threading.active_count(), maps, signal.getsignal(signal.SIGINT)

        def session():
            ray.init(START)

            @ray.remote
            def double(x):
                return 2 * x

            @ray.remote
            class Counter:
                def __init__(self):
                    self.n = 0
                def add(self):
                    self.n += 1
                    return self.n

            counter = Counter.remote()
            ref = ray.put(bytes(1 << 20))
            assert ray.get([double.remote(i) for i in range(10)]) == [2 * i for i in range(10)]
            assert ray.get([counter.add.remote() for _ in range(3)]) == [1, 2, 3]
            assert len(ray.get(double.remote(ref))) == 2 << 20
            ray.shutdown()

        session()
        before = state()
        for _ in range(19):
            session()
        assert state() == before, (before, state())
        print("same", before)
        """
    )
    assert done.lines[-1].startswith("same")


def test_files_and_threads_of_the_users_are_left_alone(run: Callable[..., Program]) -> None:
    run(
        """
        import os, threading
        kept = open(os.devnull)
        stop = threading.Event()
        mine = threading.Thread(target=stop.wait); mine.start()
        for _ in range(2):
            ray.init(START)
            ray.get(ray.put(1))
            ray.shutdown()
        assert mine.is_alive() and not kept.closed
        os.fstat(kept.fileno())
        stop.set()
        """
    )


def test_driver_whose_directory_is_deleted_works(run: Callable[..., Program], tmp_path: Path) -> None:
    run(
        """
        import os, shutil, sys
        os.makedirs(sys.argv[1]); os.chdir(sys.argv[1]); os.rmdir(sys.argv[1])
        ray.init(START)
        @ray.remote
        def f():
            return 1
        assert ray.get(f.remote()) == 1
        """,
        str(tmp_path / "gone"),
    )
