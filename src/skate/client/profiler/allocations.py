"""A profile of memory: the stacks that allocate what is still held at the end, by Python's `tracemalloc`."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

from skate.client.profiler.sampler import Samples, Stack, short

FRAMES_MAX = 30
_TICK_SECONDS = 0.05


def sample(seconds: float, ended: Callable[[], bool]) -> Samples:
    """Record allocations for some seconds; weights are the bytes that are still held then.

    Only memory that Python and libraries such as NumPy report is seen. The process is several times slower meanwhile. A process
    that records already, because its program has started `tracemalloc`, continues to.

    Args:
        seconds: How long.
        ended: Checked now and then; ends the recording if it is true.
    """
    begun = time.monotonic()
    recorded = tracemalloc.is_tracing()
    if not recorded:
        tracemalloc.start(FRAMES_MAX)
    try:
        while not ended() and time.monotonic() < begun + seconds:
            time.sleep(_TICK_SECONDS)
        snapshot = tracemalloc.take_snapshot()
    finally:
        if not recorded:
            tracemalloc.stop()
    own = snapshot.filter_traces(
        [tracemalloc.Filter(False, __file__), tracemalloc.Filter(False, tracemalloc.__file__)]
    )
    stacks: list[Stack] = []
    for each in own.statistics("traceback"):
        if each.size > 0:
            stacks.append(
                ([f"{short(frame.filename)}:{frame.lineno}" for frame in each.traceback], each.size)
            )
    return Samples(stacks, time.monotonic() - begun, 0)
