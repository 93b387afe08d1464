"""Large numbers of everything, each in a few seconds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.programs import Program

SETUP = """
    import os, resource, sys
    ray.init(START)
    @ray.remote
    def plus_one(x):
        return x + 1
    @ray.remote
    def total(*values):
        return sum(values)
    @ray.remote
    def total_of(refs):
        return sum(ray.get(refs))
"""

PROGRAMS = {
    "100,000 tasks queued": """
    @ray.remote
    def gate(path):
        import time
        while not os.path.exists(path):
            time.sleep(0.002)
    gates = [gate.remote(sys.argv[1]) for _ in range(2)]
    refs = [plus_one.remote(i) for i in range(100_000)]
    assert ray.wait(refs, num_returns=1, timeout=0)[0] == []
    open(sys.argv[1], "w").close()
    assert ray.get(refs) == list(range(1, 100_001))
    """,
    "100,000 refs held": """
    refs = [ray.put(i) for i in range(100_000)]
    assert ray.get(refs) == list(range(100_000))
    assert ray.get(total_of.remote(refs[:1000])) == sum(range(1000))
    del refs
    results = [plus_one.remote(i) for i in range(20_000)]
    ready, rest = ray.wait(results, num_returns=20_000)
    assert len(ready) == 20_000 and not rest
    """,
    "10,000 refs as arguments": """
    refs = [ray.put(i) for i in range(5000)] + [plus_one.remote(i - 1) for i in range(5000, 10_000)]
    assert ray.get(total.remote(*refs)) == sum(range(10_000))
    assert ray.get(total_of.remote(refs)) == sum(range(10_000))
    """,
    "10,000 results of one task": """
    @ray.remote
    def many(n):
        return list(range(n))
    assert ray.get(many.options(num_returns=10_000).remote(10_000)) == list(range(10_000))
    """,
    "a stream of 50,000 values": """
    @ray.remote
    def numbers(n):
        yield from range(n)
    assert sum(ray.get(ref) for ref in numbers.remote(50_000)) == sum(range(50_000))
    """,
    "a chain of 5,000 tasks": """
    ref = ray.put(0)
    for _ in range(5000):
        ref = plus_one.remote(ref)
    assert ray.get(ref) == 5000
    """,
    "20,000 calls of an actor in order": """
    @ray.remote
    class Log:
        def __init__(self):
            self.seen = []
        def add(self, n):
            self.seen.append(n)
        def all(self):
            return self.seen
    log = Log.remote()
    for n in range(20_000):
        log.add.remote(n)
    assert ray.get(log.all.remote()) == list(range(20_000))
    """,
    "2,000 large values": """
    refs = [ray.put(bytes([i % 256]) * 120_000) for i in range(2000)]
    for i in range(0, 2000, 97):
        assert ray.get(refs[i])[0] == i % 256
    """,
    "500 tasks that wait in get for each other": """
    @ray.remote(num_cpus=0)
    def nested(depth):
        return depth if depth == 0 else 1 + ray.get(nested.remote(depth - 1))
    assert ray.get(nested.remote(40)) == 40
    """,
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_program(what: str, run: Callable[..., Program], tmp_path: object) -> None:
    run(SETUP + PROGRAMS[what], str(tmp_path) + "/gate")


def test_a_thousand_actors_beyond_the_usual_limit_of_descriptors(run: Callable[..., Program]) -> None:
    done = run(
        """
        import os, resource, sys
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        ray.init(START)
        @ray.remote(num_cpus=0)
        class Small:
            def __init__(self, n):
                self.n = n
            def get(self):
                return self.n
            def memory(self):
                fields = dict(line.split(":") for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
                return int(fields["Private_Dirty"].split()[0]) + int(fields["Private_Clean"].split()[0])
        actors = [Small.remote(n) for n in range(1000)]
        assert ray.get([actor.get.remote() for actor in actors]) == list(range(1000))
        assert ray.get([actor.get.remote() for actor in reversed(actors)]) == list(reversed(range(1000)))
        private = ray.get([actor.memory.remote() for actor in actors[::100]])
        print("limit", resource.getrlimit(resource.RLIMIT_NOFILE)[0], "KiB", sum(private) // len(private))
        """
    )
    _, limit, _, kib = done.lines[-1].split()
    assert int(limit) > 1024
    assert int(kib) < 20_000  # the private memory of an actor; it shares the rest with the zygote


def test_limit_of_descriptors_that_cannot_be_raised_is_an_error_that_says_so(
    run: Callable[..., Program],
) -> None:
    done = run(
        """
        import os, resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        ray.init(START)
        @ray.remote(num_cpus=0)
        class Small:
            def get(self):
                return 1
        actors = [Small.remote() for _ in range(60)]
        errors = []
        for actor in actors:
            try:
                assert ray.get(actor.get.remote(), timeout=20) == 1
            except ray.exceptions.RayError as error:
                errors.append(error)
        print(len(errors))
        print(errors[0])
        del actors, actor
        @ray.remote
        def task():
            return "still works"
        errors.clear()
        import threading, time
        deadline, pause = time.monotonic() + 20, threading.Event()
        while len(os.listdir("/proc/self/fd")) > 80 and time.monotonic() < deadline:
            pause.wait(0.005)  # the actors' processes end first
        print(ray.get(task.remote(), timeout=20))
        """
    )
    assert 10 < int(done.lines[0]) < 60
    assert "descriptors" in done.out and "ulimit -n" in done.out
    assert done.lines[-1] == "still works"


def test_many_workers_one_after_the_other(run: Callable[..., Program]) -> None:
    """Three hundred processes that start and end leave no descriptor in the driver."""
    run(
        """
        import os
        ray.init(START)
        @ray.remote(max_retries=0)
        def dies():
            os._exit(1)
        @ray.remote
        class Actor:
            def get(self):
                return 1
        def cycle(count):
            for _ in range(count):
                try: ray.get(dies.remote())
                except ray.exceptions.WorkerCrashedError: pass
                actor = Actor.remote()
                assert ray.get(actor.get.remote()) == 1
                ray.kill(actor)
            del actor
            for _ in range(200):
                if ray.get(ray.put(1)) and len(os.listdir("/proc/self/fd")) <= 30: break
        cycle(5)
        before = len(os.listdir("/proc/self/fd"))
        cycle(145)
        after = len(os.listdir("/proc/self/fd"))
        assert after <= before + 12, (before, after)
        """
    )
