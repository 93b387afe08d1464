"""Whole programs: the contents of ``__main__``, the end of a program, and its messages about unretrieved errors."""

from __future__ import annotations


def test_functions_and_classes_of_the_main_module_reach_the_workers(script):
    done = script("""
        import dataclasses
        import ray

        @dataclasses.dataclass
        class Point:
            x: int

        def shift(point):
            return Point(point.x + 1)

        @ray.remote
        def move(point):
            return shift(point)

        @ray.remote
        class Pen:
            def __init__(self, point):
                self.point = point

            def move(self):
                self.point = shift(self.point)
                return self.point

        if __name__ == "__main__":
            ray.init(num_cpus=1, START)
            assert ray.get(move.remote(Point(1))) == Point(2)
            assert isinstance(ray.get(Pen.remote(Point(5)).move.remote()), Point)
            print("all is well")
    """)
    assert done.returncode == 0, done.stderr
    assert "all is well" in done.stdout


def test_program_without_a_main_guard_runs_once(script):
    done = script("""
        import ray
        print("top of the program")
        ray.init(num_cpus=1, START)

        @ray.remote
        def one():
            return 1

        print("sum", sum(ray.get([one.remote() for _ in range(4)])))
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("top of the program") == 1
    assert "sum 4" in done.stdout


def test_program_that_never_calls_shutdown_ends_by_itself(script):
    done = script("""
        import ray
        ray.init(num_cpus=1, START)

        @ray.remote
        class Actor:
            def ping(self):
                return "pong"

        actor = Actor.remote()
        print(ray.get(actor.ping.remote()))
    """)
    assert done.returncode == 0, done.stderr
    assert "pong" in done.stdout


def test_program_that_ends_while_a_task_runs_does_not_wait_for_it(script):
    done = script("""
        import time
        import ray
        ray.init(num_cpus=1, START)

        @ray.remote
        def long():
            time.sleep(600)

        ref = long.remote()
        ray.wait([ref], timeout=0.2)
        print("leaving")
    """)
    assert done.returncode == 0, done.stderr
    assert "leaving" in done.stdout


def test_program_that_dies_of_a_remote_error_shows_its_traceback_and_exit_code(script):
    done = script("""
        import ray
        ray.init(num_cpus=1, START)

        @ray.remote
        def fail():
            raise ValueError("told to the user")

        ray.get(fail.remote())
    """)
    assert done.returncode == 1
    assert "told to the user" in done.stderr
    assert "in fail" in done.stderr


def test_program_exit_code_is_kept(script):
    done = script("""
        import sys
        import ray
        ray.init(num_cpus=1, START)
        ray.get(ray.put(1))
        sys.exit(7)
    """)
    assert done.returncode == 7


def test_init_in_a_thread_other_than_the_main_one(script):
    done = script("""
        import threading
        import ray

        @ray.remote
        def one():
            return 1

        def body():
            ray.init(num_cpus=1, START)
            print("got", ray.get(one.remote()))

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        ray.shutdown()
    """)
    assert done.returncode == 0, done.stderr
    assert "got 1" in done.stdout


def test_interrupted_get_raises_keyboard_interrupt(script):
    done = script("""
        import os
        import signal
        import threading
        import time
        import ray
        ray.init(num_cpus=1, START)

        @ray.remote
        def long():
            time.sleep(600)

        ref = long.remote()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            ray.get(ref)
        except KeyboardInterrupt:
            print("interrupted")
    """)
    assert done.returncode == 0, done.stderr
    assert "interrupted" in done.stdout


LOSES_AN_ERROR = """
    import gc
    import os
    import pathlib
    import time
    import ray

    said = pathlib.Path(__file__).with_name("stderr.txt")
    os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2)
    ray.init(num_cpus=1, START)

    @ray.remote
    def fail():
        raise ValueError("nobody fetched me")

    @ray.remote
    def fine():
        return 1

    ref = fail.remote()
    # With one CPU, the second runs after the first.
    ray.get(fine.remote())
    del ref
    gc.collect()

    # It is said while the program lives on, so it must not end at once.
    deadline = time.monotonic() + float(os.environ["PATIENCE_S"])
    while "Unhandled error" not in said.read_text() and time.monotonic() < deadline:
        ray.get(fine.remote())
    print(said.read_text())
"""


def test_core_45_error_that_nobody_fetched_is_logged(script):
    done = script(LOSES_AN_ERROR, PATIENCE_S="20")
    assert done.returncode == 0, done.stdout
    assert "Unhandled error (suppress with" in done.stdout
    assert "RAY_IGNORE_UNHANDLED_ERRORS=1" in done.stdout
    assert "nobody fetched me" in done.stdout


def test_core_45_log_of_unhandled_errors_can_be_turned_off(script):
    done = script(LOSES_AN_ERROR, PATIENCE_S="0.5", RAY_IGNORE_UNHANDLED_ERRORS="1")
    assert done.returncode == 0, done.stdout
    assert "Unhandled error" not in done.stdout


def test_core_45_error_that_was_fetched_is_not_logged(script):
    done = script("""
        import gc
        import ray
        ray.init(num_cpus=1, START)

        @ray.remote
        def fail():
            raise ValueError("fetched")

        ref = fail.remote()
        try:
            ray.get(ref)
        except ValueError:
            pass
        del ref
        gc.collect()
        ray.shutdown()
    """)
    assert done.returncode == 0, done.stderr
    assert "Unhandled error" not in done.stderr
