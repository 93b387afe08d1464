"""Values put and got: small ones by the thousand, and 100 MB arrays."""

from __future__ import annotations

import itertools
import time
from typing import Any

from benchmarks.measure import batch_seconds, calls_per_second
from benchmarks.session import Figures, main, started

SMALL = 1_000
LARGE_BYTES = 100_000_000
FRESH = 8
TASKS = 300


def small(target: str, full: bool) -> Figures:
    """Integers: 1,000 puts whose refs are held until the batch ends, and gets of one ref at a time."""
    with started(target) as ray:
        refs: list[Any] = []
        put_s = batch_seconds(lambda: refs.extend(ray.put(i) for i in range(SMALL)), after=refs.clear)
        around = itertools.cycle([ray.put(i) for i in range(100)])
        get = calls_per_second(lambda: ray.get(next(around)))
    return {"put_small": SMALL / put_s, "get_small": get}


def put_large(target: str, full: bool) -> Figures:
    """A 100 MB array: put while all earlier copies are held, then again and again after its ref is gone."""
    import numpy

    value = numpy.ones(LARGE_BYTES, dtype=numpy.uint8)
    with started(target) as ray:
        ray.put(value[:1_000_000])
        begin = time.perf_counter()
        refs = [ray.put(value) for _ in range(FRESH)]
        fresh = FRESH / (time.perf_counter() - begin)
        refs.clear()

        def put() -> None:
            # The last ref goes before the next put, which may then take over its pages.
            refs.clear()
            refs.append(ray.put(value))

        warm = 1 / batch_seconds(put, warmups=5)
    return {"put_large_fresh": fresh, "put_large_warm": warm}


def read_large(target: str, full: bool) -> Figures:
    """One 100 MB array: got zero-copy by the driver, and taken as an argument by 300 tasks in flight."""
    import numpy

    with started(target) as ray:

        @ray.remote
        def last(array: Any) -> int:
            return int(array[-1])

        ref = ray.put(numpy.ones(LARGE_BYTES, dtype=numpy.uint8))
        get = calls_per_second(lambda: ray.get(ref)[-1])
        seconds = batch_seconds(lambda: ray.get([last.remote(ref) for _ in range(TASKS)]))
    return {"get_large": get, "task_large": TASKS / seconds}


if __name__ == "__main__":
    main(small, put_large, read_large)
