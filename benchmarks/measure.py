"""How a figure is timed: warm up, repeat for a bounded while, take the median."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROW_SECONDS = 1.5
GROWTH_SECONDS_MAX = 20.0
GROWTH_SECONDS_MAX_FULL = 1200.0
MEMORY_SHARE_MAX = 0.6


def calls_per_second(call: Callable[[], object], *, seconds: float = ROW_SECONDS) -> float:
    """Median rate of a call repeated one after the other for about `seconds`.

    The doubling that finds a batch of at least a tenth of a second is the warm-up as well.
    """
    count = 1
    while (elapsed := _seconds_of(call, count)) < 0.1:
        count = max(count * 2, min(count * 64, int(count * 0.12 / max(elapsed, 1e-7))))
    rates: list[float] = []
    deadline = time.perf_counter() + seconds
    while len(rates) < 3 or time.perf_counter() < deadline:
        rates.append(count / _seconds_of(call, count))
    return statistics.median(rates)


def _seconds_of(call: Callable[[], object], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - begin


def batch_seconds(
    batch: Callable[[], object],
    *,
    seconds: float = ROW_SECONDS,
    warmups: int = 1,
    least: int = 3,
    most: int = 100,
    after: Callable[[], object] | None = None,
) -> float:
    """Median wall time of one batch; `after` clears up between two batches and is not timed."""
    times: list[float] = []
    spent = 0.0
    while len(times) < warmups + least or (spent < seconds and len(times) < warmups + most):
        times.append(_seconds_of(batch, 1))
        if len(times) > warmups:
            spent += times[-1]
        if after is not None:
            after()
    return statistics.median(times[warmups:])


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one size of a growth row: wall seconds and, where it may matter, bytes of memory."""

    seconds: float
    bytes: int = 0


def grow(
    name: str, sizes: Sequence[int], once: Callable[[int], Cost], *, scale: float, full: bool
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Run `once` at each size and give the cost per item, in units of 1/`scale` s, as `name_size`.

    A size is left out, with the reason as a note, when the size before it foretells that it would take
    too long, preparations included (`full` allows far more), or most of the memory that is free. The rule
    is the same for every system, and keeps a slow one from holding up the run or taking the machine down.
    """
    seconds_max = GROWTH_SECONDS_MAX_FULL if full else GROWTH_SECONDS_MAX
    figures: dict[str, float | None] = {}
    notes: dict[str, str] = {}
    reason = ""
    for size, following in zip(sizes, (*sizes[1:], 0), strict=True):
        key = f"{name}_{size}"
        if reason:
            figures[key], notes[key] = None, reason
            continue
        begin = time.perf_counter()
        costs = [once(size)]
        whole_s = time.perf_counter() - begin
        while len(costs) < 3 and whole_s * len(costs) < 1.0:
            costs.append(once(size))
        figures[key] = statistics.median(cost.seconds for cost in costs) / size * scale
        foreseen_s = whole_s * following / size
        foreseen_bytes = max(cost.bytes for cost in costs) * following / size
        if foreseen_s > seconds_max:
            reason = f"{foreseen_s:.0f} s foreseen for {following:,}, over the {seconds_max:.0f} s allowed"
        elif foreseen_bytes > MEMORY_SHARE_MAX * available_bytes():
            reason = f"{foreseen_bytes / 1e9:.0f} GB foreseen for {following:,}, most of what is free"
    return figures, notes


def available_bytes() -> int:
    """Memory the kernel could hand out now, in bytes."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/meminfo names no MemAvailable; the growth rows need Linux 3.14 or newer")
