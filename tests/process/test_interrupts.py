"""Ctrl-C: KeyboardInterrupt is raised promptly wherever the driver is, the session continues, workers are not
affected."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.process.programs import Program

SETUP = """
    import asyncio, os, signal, sys, time, threading

    ray.init(START)

    @ray.remote
    def quick(x):
        return x

    @ray.remote
    def slow(path):
        while not os.path.exists(path):
            time.sleep(0.005)
        return "slow"

    @ray.remote
    def numbers():
        n = 0
        while True:
            yield n
            n += 1
            if n == 3:
                while not os.path.exists(gate):
                    time.sleep(0.005)

    @ray.remote
    class Counter:
        def __init__(self):
            self.n = 0
        def add(self):
            self.n += 1
            return self.n
        def wait(self, path):
            while not os.path.exists(path):
                time.sleep(0.005)
            return self.n

    gate = sys.argv[1]
    counter = Counter.remote()
    assert ray.get(counter.add.remote()) == 1
    ray.get([quick.remote(i) for i in range(10)])
    held = slow.remote(gate)
"""

AFTERWARDS = """
    try:
        interrupted()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    else:
        print("not interrupted", flush=True)
    open(gate, "w").close()
    assert ray.get([quick.remote(i) for i in range(100)]) == list(range(100))
    assert ray.get(counter.add.remote()) == 2
    assert ray.get(held) == "slow"
    print("continues", flush=True)
"""

PLACES = {
    "get": "ray.get(held)",
    "get with a timeout": "ray.get(held, timeout=600)",
    "wait": "ray.wait([held])",
    "wait with a timeout": "ray.wait([held], timeout=600)",
    "get of an actor's call": "ray.get(counter.wait.remote(gate))",
    "a stream": "[ray.get(each) for each in numbers.remote()]",
    "a loop of submissions": "while True: quick.remote(1)",
    "a loop of puts": "while True: ray.put(bytes(200_000))",
    "a loop of gets": "while True: ray.get(quick.remote(1))",
    "a loop of calls": "while True: ray.get(counter.__ray_ready__.remote())",
    "a list of many": "ray.get([quick.remote(i) for i in range(10_000_000)])",
    "plain python": "while True: pass",
    "await": "asyncio.run(awaited(held))",
    "get after a thread took the loop": "threading.Thread(target=ray.get, args=(held,)).start(); ray.get(held)",
}


def place(text: str) -> str:
    return (
        SETUP
        + "\n    async def awaited(ref):\n        return await ref\n"
        + f"\n    def interrupted():\n        print('ready', flush=True)\n        {text}\n"
        + AFTERWARDS
    )


@pytest.mark.parametrize("group", [False, True], ids=["driver", "group"])
@pytest.mark.parametrize("where", PLACES)
def test_interrupt(where: str, group: bool, program: Callable[..., Program], tmp_path: object) -> None:
    started = program(place(PLACES[where]), str(tmp_path) + "/gate")
    started.wait_for_output("^ready\n")
    (os.killpg if group else os.kill)(started.process.pid, signal.SIGINT)
    started.wait_for_output("^interrupted", 5.0)
    assert started.end() == 0, started.story()
    assert "continues" in started.out
    started.gone()


def test_many_interrupts_in_a_row(program: Callable[..., Program], tmp_path: object) -> None:
    started = program(
        SETUP
        + """
    seen = 0
    while seen < 20:
        try:
            print("ready", seen, flush=True)
            while True:
                ray.get([quick.remote(i) for i in range(50)])
                ray.put(bytes(200_000))
                ray.get(counter.__ray_ready__.remote())
        except KeyboardInterrupt:
            seen += 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    def interrupted():
        raise KeyboardInterrupt
    """
        + AFTERWARDS,
        str(tmp_path) + "/gate",
    )
    for n in range(20):
        started.wait_for_output(f"^ready {n}\n")
        os.killpg(started.process.pid, signal.SIGINT)
    assert started.end() == 0, started.story()
    assert "continues" in started.out


def test_interrupt_nobody_catches_ends_the_driver(program: Callable[..., Program], tmp_path: object) -> None:
    started = program(place("ray.get(held)").split("try:")[0] + "interrupted()", str(tmp_path) + "/gate")
    started.wait_for_output("^ready\n")
    os.killpg(started.process.pid, signal.SIGINT)
    started.gone()
    assert started.process.returncode == -signal.SIGINT
    assert started.err.rstrip().endswith("KeyboardInterrupt")


def test_interrupts_while_sessions_begin_and_end(program: Callable[..., Program]) -> None:
    """No partial session is left if a signal arrives at any point of init or shutdown."""
    started = program(
        """
        import os, random, signal, threading, time
        @ray.remote
        def double(x):
            return 2 * x
        def state():
            return len(os.listdir("/proc/self/fd")), threading.active_count()
        ray.init(START); ray.get(double.remote(1)); ray.shutdown()
        before = state()
        seen = 0
        random.seed(1)
        for _ in range(40):
            timer = threading.Timer(random.random() * 0.15, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                while True:
                    ray.init(START)
                    assert ray.get(double.remote(1)) == 2
                    ray.shutdown()
            except KeyboardInterrupt:
                seen += 1
            timer.join()
            ray.shutdown()
        assert seen == 40
        assert state() == before, (before, state())
        print("clean", flush=True)
        import sys
        sys.stdin.readline()
        """
    )
    started.wait_for_output("^clean")
    assert not started.others(), started.others()
    assert started.end() == 0, started.story()


def test_a_handler_of_the_users_is_left_alone(program: Callable[..., Program], tmp_path: object) -> None:
    started = program(
        """
    import os, signal
    class Stop(Exception): pass
    def handler(number, frame):
        raise Stop
    signal.signal(signal.SIGINT, handler)
    """
        + SETUP
        + """
    assert signal.getsignal(signal.SIGINT) is handler
    for _ in range(2):
        try:
            print("ready", flush=True)
            ray.get(held)
        except Stop:
            print("stopped", flush=True)
            assert ray.get(quick.remote(1)) == 1
            break
    """,
        str(tmp_path) + "/gate",
    )
    started.wait_for_output("^ready\n")
    os.kill(started.process.pid, signal.SIGINT)
    started.wait_for_output("^stopped", 5.0)
    assert started.end() == 0, started.story()


def test_task_that_ignores_interrupts_may_do_so_and_a_worker_goes_on(
    program: Callable[..., Program], tmp_path: object
) -> None:
    """Ctrl-C in a terminal reaches all processes of the group, but ends no task."""
    started = program(
        SETUP
        + """
    @ray.remote
    def pid():
        return os.getpid()
    before = ray.get(pid.remote())
    print("ready", flush=True)
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        assert ray.get(pid.remote()) == before
        print("same worker", flush=True)
    """,
        str(tmp_path) + "/gate",
    )
    started.wait_for_output("^ready\n")
    for pid in started.others():  # first, as the program ends soon after its own
        os.kill(pid, signal.SIGINT)
    os.killpg(started.process.pid, signal.SIGINT)
    started.wait_for_output("^same worker", 5.0)
    assert started.end() == 0, started.story()
    started.gone()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_the_main_thread_misses_is_sent_again(
    number: signal.Signals, program: Callable[..., Program]
) -> None:
    """A signal that another thread receives does not interrupt the main thread's call, like one that arrives just before it."""
    started = program(
        f"""
    import signal, sys, threading

    ray.init(START)
    def send():
        print("sending", flush=True)
        signal.pthread_kill(threading.get_ident(), {int(number)})
        print("sent", flush=True)

    threading.Timer(0.2, send).start()
    try:
        sys.stdin.readline()
    finally:
        print("noticed", flush=True)
    """
    )
    started.wait_for_output("^noticed", 5.0)
    started.gone()
    assert "Error" not in started.err.replace("KeyboardInterrupt", ""), started.story()


def test_a_cancellation_that_a_worker_misses_is_repeated(run: Callable[..., Program]) -> None:
    done = run(
        """
        import os, signal, sys, time

        ray.init(START)

        @ray.remote(max_retries=0)
        def sleeps(path):
            send, sent = signal.pthread_kill, []
            def lose_the_first(*args):
                sent.append(args)
                if len(sent) > 1:
                    send(*args)
            signal.pthread_kill = lose_the_first
            open(path, "w").close()
            time.sleep(60)

        path = sys.argv[0] + ".begun"
        ref = sleeps.remote(path)
        while not os.path.exists(path):
            time.sleep(0.005)
        ray.cancel(ref)
        try:
            ray.get(ref, timeout=10)
        except ray.exceptions.TaskCancelledError:
            print("cancelled", flush=True)
        """
    )
    assert "cancelled" in done.out, done.story()
