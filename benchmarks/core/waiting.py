"""`ray.wait` as programs use it: take results one by one as they become ready."""

from __future__ import annotations

from benchmarks.measure import batch_seconds
from benchmarks.session import Figures, main, started

REFS = 1_000


def drain(target: str, full: bool) -> Figures:
    """1,000 tasks submitted, then `wait` with its defaults until no ref is left."""
    with started(target) as ray:

        @ray.remote
        def nothing() -> None:
            return None

        def run() -> None:
            left = [nothing.remote() for _ in range(REFS)]
            while left:
                _, left = ray.wait(left)

        seconds = batch_seconds(run)
    return {"wait_drain": seconds}


if __name__ == "__main__":
    main(drain)
