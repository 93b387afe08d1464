"""A driver that forks: the child is independent, the parent's session is not disturbed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.programs import Program

SETUP = """
    import multiprocessing, os, subprocess, sys, threading, traceback

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
    assert ray.get(counter.add.remote()) == 1
    big = ray.put(bytes(1 << 20))
    small = double.remote(4)
    ray.get(small)

    def in_child(function):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                function()
                code = 0
            except SystemExit as error:
                code = error.code
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def works():
        assert ray.get([double.remote(i) for i in range(50)]) == [2 * i for i in range(50)]
        assert len(ray.get(big)) == 1 << 20
"""

CHILDREN = {
    "does nothing": "pass",
    "drops everything": "globals().update(counter=None, big=None, small=None); import gc; gc.collect()",
    "shuts down": "ray.shutdown()",
    "runs a program": "assert subprocess.run([sys.executable, '-c', '1']).returncode == 0",
    "has a session of its own": (
        "assert not ray.is_initialized(); ray.init(START); "
        "assert ray.get([double.remote(i) for i in range(10)]) == [2 * i for i in range(10)]; "
        "assert ray.get(Counter.remote().add.remote()) == 1; ray.shutdown()"
    ),
    "starts one by its first call": "assert ray.get(double.remote(1)) == 2; ray.shutdown()",
    "never ends its session": "ray.init(START); ray.get(double.remote(1))",
}


@pytest.mark.parametrize("what", CHILDREN)
def test_child(what: str, run: Callable[..., Program]) -> None:
    run(
        SETUP
        + f"""
    def child():
        {CHILDREN[what]}
    assert in_child(child) == 0
    works()
    assert ray.get(counter.add.remote()) == 2
    """
    )


def test_refs_and_handles_of_the_parent_are_refused_in_the_child(run: Callable[..., Program]) -> None:
    done = run(
        SETUP
        + """
    def refused(call):
        try:
            call()
        except (ValueError, RuntimeError) as error:
            print(type(error).__name__, str(error), flush=True)
        else:
            raise AssertionError("was not refused")

    def child():
        refused(lambda: ray.get(big))
        refused(lambda: ray.get(small))
        refused(lambda: ray.wait([pending]))
        refused(lambda: counter.add.remote())
        refused(lambda: ray.get(double.remote(big)))
        refused(lambda: ray.get(double.remote([counter])))

    pending = ray.remote(num_cpus=0)(lambda: threading.Event().wait()).remote()
    assert in_child(child) == 0
    works()
    """
    )
    assert len(done.lines) == 6
    assert all("session" in line for line in done.lines), done.out


def test_child_that_ends_by_itself_runs_exit_handlers_and_disturbs_nobody(
    run: Callable[..., Program],
) -> None:
    run(
        SETUP
        + """
    import atexit
    owner = os.getpid()
    atexit.register(lambda: print("end of", "driver" if os.getpid() == owner else "child", flush=True))
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        works()
    """
    )


def test_fork_while_threads_use_the_session(run: Callable[..., Program]) -> None:
    run(
        SETUP
        + """
    stop = threading.Event()
    failed = []

    def use():
        while not stop.is_set():
            try:
                assert ray.get(double.remote(3)) == 6
            except BaseException as error:
                failed.append(error)
                return

    users = [threading.Thread(target=use) for _ in range(3)]
    for user in users: user.start()
    for _ in range(10):
        assert in_child(lambda: ray.is_initialized() and sys.exit(7)) == 0
    assert in_child(lambda: (ray.init(START), ray.get(double.remote(1)), ray.shutdown())) == 0
    stop.set()
    for user in users: user.join()
    assert not failed, failed
    works()
    """
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method: str, run: Callable[..., Program]) -> None:
    run(
        """
        import multiprocessing

        def square(x):
            return x * x

        def own(x):
            with ray.init(START):
                @ray.remote
                def inner(y):
                    return y + 1
                return ray.get(inner.remote(x))

        if __name__ == "__main__":
            ray.init(START)
            held = ray.put(bytes(1 << 20))
            context = multiprocessing.get_context("METHOD")
            with context.Pool(2) as pool:
                assert pool.map(square, range(10)) == [x * x for x in range(10)]
                assert pool.map(own, [1, 2]) == [2, 3]
            assert len(ray.get(held)) == 1 << 20
            queue = context.Queue()
            process = context.Process(target=queue.put, args=(5,))
            process.start()
            assert queue.get(timeout=20) == 5
            process.join(20)
            assert process.exitcode == 0
            queue.close()
            queue.join_thread()
            # multiprocessing keeps a process of its own for these two methods, as long as the driver lives.
        """.replace("METHOD", method)
    )


def test_multiprocessing_and_programs_in_tasks(run: Callable[..., Program]) -> None:
    done = run(
        """
        import multiprocessing, os, subprocess, sys
        ray.init(START)

        @ray.remote
        def through_a_program(x):
            return int(subprocess.run(["expr", str(x), "+", "1"], capture_output=True, check=True).stdout)

        @ray.remote
        def through_a_shell(x):
            return subprocess.getoutput(f"echo {x}")

        @ray.remote
        def through_a_pool(x):
            with multiprocessing.get_context("fork").Pool(2) as pool:
                return pool.map(abs, [-x, x])

        @ray.remote
        def through_a_fork(x):
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.write(write, str(x).encode())
                os._exit(0)
            os.waitpid(pid, 0)
            os.close(write)
            return int(os.read(read, 10))

        @ray.remote
        def forked_child_exits_as_python_does(x):
            pid = os.fork()
            if pid == 0:
                sys.exit(0)
            return os.waitpid(pid, 0)[1], x

        assert ray.get([through_a_program.remote(i) for i in range(4)]) == [1, 2, 3, 4]
        assert ray.get([through_a_shell.remote(i) for i in range(4)]) == ["0", "1", "2", "3"]
        assert ray.get(through_a_pool.remote(3)) == [3, 3]
        assert ray.get([through_a_fork.remote(i) for i in range(4)]) == [0, 1, 2, 3]
        print(ray.get([forked_child_exits_as_python_does.remote(i) for i in range(3)]))
        """
    )
    assert done.lines[-1] == "[(0, 0), (0, 1), (0, 2)]", done.story()


def test_child_of_a_task_that_is_terminated_at_once_ends(run: Callable[..., Program]) -> None:
    """As multiprocessing ends the processes of a pool that had nothing to do yet."""
    done = run(
        """
        import os, signal
        ray.init(START)

        @ray.remote
        def ends():
            found = set()
            for _ in range(100):
                pid = os.fork()
                if pid == 0:
                    signal.alarm(10)  # a child that lost the signal ends by this one
                    signal.pause()
                os.kill(pid, signal.SIGTERM)
                found.add(os.waitpid(pid, 0)[1])
            return found

        print(ray.get(ends.remote()))
        """
    )
    assert done.lines[-1] == "{15}", done.story()


def test_program_that_a_driver_starts_outlives_no_session_and_holds_none(run: Callable[..., Program]) -> None:
    """A child of the driver inherits none of the session's descriptors, so it cannot keep workers alive."""
    run(
        """
        import os, subprocess, sys
        ray.init(START)
        @ray.remote
        def f():
            return 1
        assert ray.get(f.remote()) == 1
        listing = '''if True:
            import os
            for n in os.listdir("/proc/self/fd"):
                if int(n) > 2 and os.path.exists(f"/proc/self/fd/{n}"):
                    print(os.readlink(f"/proc/self/fd/{n}"))
        '''
        found = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, close_fds=False).stdout
        assert "memfd" not in found and "socket" not in found and "event" not in found, found
        """
    )
