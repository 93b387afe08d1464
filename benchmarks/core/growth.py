"""How the cost of one item changes with the number of items: it should not."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from benchmarks.measure import Cost, available_bytes, batch_seconds, grow
from benchmarks.session import Figures, main, started

MICROSECONDS = 1e6
MILLISECONDS = 1e3
CPUS = (1, 2, 4, 16, 64)
IN_FLIGHT = 3_000
Grown = tuple[Figures, dict[str, str]]


def queued_tasks(target: str, full: bool) -> Grown:
    """Tasks submitted all at once on two CPUs and got in one `get`: µs a task."""
    with started(target) as ray:

        @ray.remote
        def nothing() -> None:
            return None

        def once(count: int) -> Cost:
            begin = time.perf_counter()
            ray.get([nothing.remote() for _ in range(count)])
            return Cost(time.perf_counter() - begin)

        once(1_000)
        sizes = (10_000, 100_000, 1_000_000) if full else (10_000, 100_000)
        return grow("queued_tasks", sizes, once, scale=MICROSECONDS, full=full)


def get_many(target: str, full: bool) -> Grown:
    """One `get` of many refs to small values: µs a ref."""
    with started(target) as ray:

        def once(count: int) -> Cost:
            refs = [ray.put(i) for i in range(count)]
            begin = time.perf_counter()
            ray.get(refs)
            return Cost(time.perf_counter() - begin)

        once(100)
        return grow("get_many", (1_000, 10_000), once, scale=MICROSECONDS, full=full)


def wait_many(target: str, full: bool) -> Grown:
    """One `wait` for all of many refs that are ready: µs a ref."""
    with started(target) as ray:
        refs: list[Any] = []

        def once(count: int) -> Cost:
            refs.extend(ray.put(i) for i in range(count - len(refs)))
            begin = time.perf_counter()
            ray.wait(refs, num_returns=count)
            return Cost(time.perf_counter() - begin)

        once(100)
        return grow("wait_many", (1_000, 10_000, 100_000), once, scale=MICROSECONDS, full=full)


def actors(target: str, full: bool) -> Grown:
    """Actors created at once and each called: ms an actor, all of them alive together."""
    with started(target) as ray:

        @ray.remote
        class Member:
            def one(self) -> int:
                return 1

        def once(count: int) -> Cost:
            free = available_bytes()
            begin = time.perf_counter()
            members = [Member.remote() for _ in range(count)]
            ray.get([member.one.remote() for member in members])
            cost = Cost(time.perf_counter() - begin, max(0, free - available_bytes()))
            for member in members:
                ray.kill(member)
            return cost

        return grow("actors", (10, 100, 1_000), once, scale=MILLISECONDS, full=full)


def arguments(target: str, full: bool) -> Grown:
    """Refs to small values as arguments of one task: µs a ref, from the call to its result."""
    with started(target) as ray:

        @ray.remote
        def count_of(*values: int) -> int:
            return len(values)

        def once(count: int) -> Cost:
            refs = [ray.put(i) for i in range(count)]
            begin = time.perf_counter()
            ray.get(count_of.remote(*refs))
            return Cost(time.perf_counter() - begin)

        once(100)
        return grow("arguments", (1_000, 10_000), once, scale=MICROSECONDS, full=full)


def workers(target: str, full: bool) -> Figures:
    """Short tasks in flight on nodes of 1 to 64 CPUs, whatever the machine has: µs a task."""
    figures: Figures = {}
    for cpus in CPUS:
        with started(target, num_cpus=cpus) as ray:

            @ray.remote
            def echo(value: int) -> int:
                return value

            batch = partial(_echoes, ray, echo)
            batch()  # begins all workers
            figures[f"workers_{cpus}"] = batch_seconds(batch) / IN_FLIGHT * MICROSECONDS
    return figures


def _echoes(ray: Any, echo: Any) -> None:
    ray.get([echo.remote(at) for at in range(IN_FLIGHT)])


if __name__ == "__main__":
    main(queued_tasks, get_many, wait_many, actors, arguments, workers)
