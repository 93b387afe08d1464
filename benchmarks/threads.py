"""Pure Python in threads beside worker processes, which shows what a free-threaded interpreter changes.

    python -m benchmarks.threads [--workers 2] [--rounds 5]

Each side runs the same calls, in turn. With the global interpreter lock, threads take as long as one after another. Figures are
milliseconds of one round, medians of all.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import skate
from benchmarks.session import INIT

CALLS, STEPS = 16, 200_000


def work(steps: int) -> int:
    """Compute without releasing the lock."""
    value = 1
    for step in range(steps):
        value = (value * 31 + step) % 1_000_003
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure threads beside worker processes.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    skate.init(**{**INIT, "num_cpus": args.workers})
    remote = skate.remote(work)
    with ThreadPoolExecutor(args.workers) as pool:
        sides: dict[str, Callable[[], list[int]]] = {
            "one after another": lambda: [work(STEPS) for _ in range(CALLS)],
            "threads": lambda: list(pool.map(work, [STEPS] * CALLS)),
            "Skate's workers": lambda: skate.get([remote.remote(STEPS) for _ in range(CALLS)]),
        }
        found: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(args.rounds + 1):
            for name, run in sides.items():
                begun = time.perf_counter()
                answers = run()
                if number:  # the first round starts processes and threads
                    found[name].append((time.perf_counter() - begun) * 1000)
                if answers != [work(STEPS)] * CALLS:
                    sys.exit(f"{name}: wrong answers {answers}")
    skate.shutdown()
    enabled = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, global interpreter lock {'on' if enabled else 'off'}")
    for name, seconds in found.items():
        print(f"{name:<20}{statistics.median(seconds):>8.1f} ms")


if __name__ == "__main__":
    main()
