"""Tasks submitted by the driver: one at a time, and many in flight."""

from __future__ import annotations

from benchmarks.measure import batch_seconds, calls_per_second
from benchmarks.session import Figures, main, started

IN_FLIGHT = 3_000


def calls(target: str, full: bool) -> Figures:
    """Tasks that do nothing: submit and get one, then 3,000 in flight."""
    with started(target) as ray:

        @ray.remote
        def nothing() -> None:
            return None

        sync = calls_per_second(lambda: ray.get(nothing.remote()))
        seconds = batch_seconds(lambda: ray.get([nothing.remote() for _ in range(IN_FLIGHT)]))
    return {"task_sync": sync, "task_in_flight": IN_FLIGHT / seconds}


if __name__ == "__main__":
    main(calls)
