"""Values four times as large as the store together: put, got back, and the memory that took."""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks.processes import adopt_orphans, descendants
from benchmarks.session import Figures, main, started

STORE = 256 << 20
PART = 16 << 20
COUNT = 4 * STORE // PART
MB = 1e6


def spill(target: str, full: bool) -> Figures:
    """Put four times the store, then get each value once, looking at all of its bytes."""
    import numpy as np

    adopt_orphans()
    with started(target, object_store_memory=STORE) as ray:
        array = np.ones(PART, np.uint8)
        refs: list[Any] = []
        begun = time.perf_counter()
        for _ in range(COUNT):
            refs.append(ray.put(array))
        put = time.perf_counter() - begun
        begun = time.perf_counter()
        for ref in refs:
            assert int(ray.get(ref).sum()) == PART
        got = time.perf_counter() - begun
        peak = max(map(peak_bytes, [os.getpid(), *descendants(os.getpid())]))
    total = COUNT * PART / MB
    return {
        "spill_put": total / put,
        "spill_get": total / got,
        "spill_peak": peak / MB,
    }


def peak_bytes(pid: int) -> int:
    """The most memory that a process ever had, what it shares included."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):  # it ended meanwhile
        return 0


if __name__ == "__main__":
    main(spill)
