"""Tasks that use more memory than the limit, in real processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.programs import Program

SETUP = """
    import os, sys, time
    os.environ["SKATE_MEMORY_LIMIT"] = "600MiB"
    ray.init(num_cpus=2, num_gpus=0, object_store_memory=80 << 20, log_to_driver=False)

    def hoard(until=10_000):
        '''Take memory bit by bit, as something that grows does, and keep it.'''
        kept = []
        for _ in range(until):
            kept.append(bytearray(os.urandom(1 << 20)) * 10)
            time.sleep(0.01)
        return kept

    @ray.remote(max_retries=0)
    def hog():
        hoard()

    @ray.remote
    def modest(x):
        return x
"""

PROGRAMS = {
    "the error names who, how much, the limit and the largest": """
    try:
        ray.get(hog.remote(), timeout=60)
        raise AssertionError("it had room")
    except ray.exceptions.OutOfMemoryError as error:
        text = str(error)
    for part in ("hog (pid ", "of 600 MiB were in use (SKATE_MEMORY_LIMIT)", "largest at the last check", "max_retries is 0"):
        assert part in text, text
    assert ray.get([modest.remote(i) for i in range(20)], timeout=60) == list(range(20))
    """,
    "a task alone is tried again as often as it says and then fails": """
    path = sys.argv[1]

    @ray.remote(max_retries=1)
    def again():
        with open(path, "a") as file: file.write(".")
        hoard()

    try:
        ray.get(again.remote(), timeout=120)
        raise AssertionError("it had room")
    except ray.exceptions.OutOfMemoryError as error:
        assert "max_retries=1" in str(error), error
    assert open(path).read() == ".."
    """,
    "an actor that takes too much starts again, and its caller is told": """
    @ray.remote(max_restarts=1)
    class Actor:
        def hog(self): hoard()
        def one(self): return 1

    actor = Actor.remote()
    try:
        ray.get(actor.hog.remote(), timeout=60)
        raise AssertionError("it had room")
    except ray.exceptions.OutOfMemoryError as error:
        assert "Actor" in str(error) and "hog" in str(error), error
    while True:  # calls without retries are refused while it starts again
        try:
            assert ray.get(actor.one.remote(), timeout=60) == 1
            break
        except ray.exceptions.ActorUnavailableError:
            pass
    """,
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_program(what: str, run: Callable[..., Program], tmp_path: object) -> None:
    run(SETUP + PROGRAMS[what], str(tmp_path) + "/attempts")
