"""The end of a session during work, and its effects on the next one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.programs import Program

SETUP = """
    import asyncio, os, sys, threading, time

    path = sys.argv[1]

    @ray.remote
    def double(x):
        return 2 * x

    @ray.remote
    def never():
        while True:
            time.sleep(0.01)

    @ray.remote
    def numbers():
        yield 1
        while True:
            time.sleep(0.01)

    @ray.remote
    class Counter:
        def __init__(self): self.n = 0
        def add(self):
            self.n += 1
            return self.n
        def never(self):
            while True:
                time.sleep(0.01)

    def refused(call, *words):
        try:
            value = call()
        except (ray.exceptions.RayError, ValueError, RuntimeError, TypeError) as error:
            text = str(error)
            assert "session" in text or "init" in text, repr(error)
        else:
            raise AssertionError(f"was not refused: {value!r}")

    def in_thread(function):
        outcome = []
        begun = threading.Event()
        def work():
            begun.set()
            try:
                outcome.append(function())
            except BaseException as error:
                outcome.append(error)
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        def join():
            thread.join(10)
            assert not thread.is_alive(), "the thread hangs"
            return outcome[0]
        return join

    ray.init(START)
"""

PROGRAMS = {
    "waits in other threads end with an error": """
    ref = never.remote()
    actor = Counter.remote()
    ray.get(actor.add.remote())
    stream = numbers.remote()
    next(stream)
    async def awaited(ref):
        return await ref
    waits = [
        in_thread(lambda: ray.get(ref)),
        in_thread(lambda: ray.get([ref, double.remote(1)])),
        in_thread(lambda: ray.get(ref, timeout=100)),
        in_thread(lambda: ray.wait([ref])),
        in_thread(lambda: ray.wait([ref], timeout=100)),
        in_thread(lambda: ray.get(actor.never.remote())),
        in_thread(lambda: next(stream)),
        in_thread(lambda: asyncio.run(awaited(ref))),
        in_thread(lambda: ref.future().result()),
    ]
    while threading.active_count() < len(waits):
        time.sleep(0.001)
    time.sleep(0.1)  # some may not be waiting yet; they are refused then, and the outcome is the same
    ray.shutdown()
    for join in waits:
        outcome = join()
        assert isinstance(outcome, (RuntimeError, ValueError, ray.exceptions.RayError)), repr(outcome)
        assert "session" in str(outcome), repr(outcome)
    ray.init(START)
    assert ray.get(double.remote(2)) == 4
    """,
    "what is of an old session is refused in the next": """
    small, big = ray.put(1), ray.put(bytes(1 << 20))
    result, pending = double.remote(1), never.remote()
    ray.get(result)
    counter = Counter.remote()
    ray.get(counter.add.remote())
    stream = numbers.remote()
    next(stream)
    for again in (False, True):
        ray.shutdown()
        if again:
            ray.init(START)
            ray.get(double.remote(1))
        for ref in (small, big, result, pending):
            refused(lambda: ray.get(ref))
            refused(lambda: ray.get([ref]))
            refused(lambda: ray.wait([ref]))
            refused(lambda: double.remote(ref))
            refused(lambda: double.remote([ref]))
            refused(lambda: ray.put([ref]))
            refused(lambda: ref.future().result(10))
        refused(lambda: counter.add.remote())
        refused(lambda: double.remote(counter))
        ray.kill(counter)  # it has ended already, which is what was wanted
        refused(lambda: next(stream))
    assert ray.get(double.remote(2)) == 4
    """,
    "submissions in other threads while it ends": """
    stop = threading.Event()
    def submit():
        while not stop.is_set():
            ray.get([double.remote(i) for i in range(20)])
            ray.put(bytes(200_000))
        return "stopped"
    threads = [in_thread(submit) for _ in range(3)]
    assert ray.get(double.remote(1)) == 2
    ray.shutdown()
    stop.set()
    for join in threads:
        outcome = join()
        assert outcome == "stopped" or isinstance(outcome, (RuntimeError, ValueError)), repr(outcome)
    ray.shutdown()
    """,
    "shutdown in many threads at once": """
    refs = [never.remote() for _ in range(2)]
    joins = [in_thread(ray.shutdown) for _ in range(5)]
    assert [join() for join in joins] == [None] * 5
    assert not ray.is_initialized()
    """,
    "views outlive their session": """
    import numpy
    array = ray.get(ray.put(numpy.arange(200_000)))
    ray.shutdown()
    ray.init(START)
    other = ray.get(ray.put(numpy.zeros(200_000)))
    assert int(array.sum()) == sum(range(200_000)) and not other.any()
    """,
    "objects that die after their session": """
    import gc
    keep = [ray.put(bytes(200_000)), double.remote(1), Counter.remote(), numbers.remote()]
    keep.append(ray.get(keep[0]))
    ray.shutdown()
    keep.clear()
    gc.collect()
    ray.init(START)
    assert ray.get(double.remote(1)) == 2
    """,
    "shutdown from a callback and in a finalizer": """
    class Ends:
        def __del__(self):
            ray.shutdown()
    ends = Ends()
    del ends
    assert not ray.is_initialized()
    """,
    "with": """
    ray.shutdown()
    with ray.init(START):
        pending = never.remote()
        assert ray.get(double.remote(1)) == 2
    assert not ray.is_initialized()
    refused(lambda: ray.get(pending))
    """,
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_program(what: str, run: Callable[..., Program], tmp_path: object) -> None:
    done = run(SETUP + PROGRAMS[what], str(tmp_path))
    assert "Traceback" not in done.err, done.story()
