"""A soak: everything the engine can do, again and again under a seed, while its memory and its tables are watched.

`python -m benchmarks.soak --minutes 10` prints a line of figures every ten seconds. Before each it lets go of all it holds and
waits for the tables to empty, so a line shows what stays although nobody has a use for it. At the end each figure is judged by
its slope over the second half (Theil and Sen: the median of the slopes between all pairs, which a few odd samples do not move).
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import skate as ray
from benchmarks.churn import Churn
from benchmarks.processes import descendants
from skate.client.session import session
from skate.core.actor.actor_table import DEAD
from skate.protocol.states import GroupState

MIB = 1 << 20
STORE_BYTES = 96 * MIB
SETTLE_SECONDS = 30.0


@dataclass(frozen=True)
class Figure:
    """One thing that is watched: how it is read, and how much more of it the second half may end with."""

    name: str
    read: Callable[[], float]
    allowed: float
    unit: str = ""


def anonymous_mib(pid: int | str) -> float:
    """Memory that a process has for itself or shares by having been forked, its part of it, without the arena, in MiB."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                if line.startswith("Pss_Anon:"):
                    return int(line.split()[1]) / 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0.0


def workers_mib() -> float:
    """The memory of all processes below this one, divided by their number."""
    below = descendants(os.getpid())
    return sum(map(anonymous_mib, below)) / max(1, len(below))


def figures() -> list[Figure]:
    """The watched figures."""
    host: Any = session.host()
    core, process = host.core, session.current()
    return [
        Figure("driver", lambda: anonymous_mib("self"), 4, "MiB"),
        Figure("per worker", workers_mib, 8, "MiB"),
        Figure("processes", lambda: len(descendants(os.getpid())), 2),
        Figure("arena", lambda: core.allocator.used / MIB, 1, "MiB"),
        Figure("resident", lambda: host.arena.resident() / MIB, STORE_BYTES / MIB, "MiB"),
        Figure("objects", lambda: len(core.objects.records), 2),
        Figure("tasks", lambda: len(core.tasks), 1),
        Figure("actors", lambda: sum(actor.state != DEAD for actor in core.actors.actors.values()), 1),
        Figure(
            "groups",
            lambda: sum(group.state != GroupState.REMOVED for group in core.placement.groups.values()),
            1,
        ),
        Figure("functions", lambda: len(core.functions), 50),
        Figure("templates", lambda: len(core.templates), 50),
        Figure("classes", lambda: len(core.scheduler.classes), 50),
        Figure("exported", lambda: len(process.exported), 50),
        Figure("known", lambda: len(process.known) + len(process.actors) + len(process.pending), 2),
        Figure("fds", lambda: len(os.listdir("/proc/self/fd")), 3),
        Figure("threads", threading.active_count, 1),
    ]


def settle(watched: list[Figure]) -> None:
    """Wait until nothing is under way any more: no task, and as few objects and actors as there will be."""
    by_name = {each.name: each.read for each in watched}
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        gc.collect()
        ray.get(ray.put(None))
        if not any(by_name[name]() for name in ("tasks", "actors", "objects", "groups", "known")):
            return
        time.sleep(0.02)


def slope(samples: list[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs of samples."""
    pairs = itertools.combinations(samples, 2)
    return statistics.median((y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in pairs if x1 > x0)


def judge(watched: list[Figure], history: list[tuple[float, list[float]]]) -> bool:
    """Print how each figure changed in the second half; True if none grew by more than it may."""
    second = history[len(history) // 2 :]
    seconds = second[-1][0] - second[0][0]
    good = True
    print(f"\n{'figure':<12} {'first':>9} {'last':>9}  growth over the last {seconds:.0f} s")
    for index, figure in enumerate(watched):
        growth = slope([(at, values[index]) for at, values in second]) * seconds
        fine = growth <= figure.allowed
        good = good and fine
        verdict = "" if fine else f"  FAIL: more than {figure.allowed:g} {figure.unit}"
        first, last = history[0][1][index], history[-1][1][index]
        print(f"{figure.name:<12} {first:>9.1f} {last:>9.1f}  {growth:+.2f} {figure.unit}{verdict}")
    return good


def soak(minutes: float, seed: int, every: float) -> bool:
    """Run for so long; returns the verdict."""
    ray.init(num_cpus=2, num_gpus=0, object_store_memory=STORE_BYTES, log_to_driver=False)
    watched = figures()
    history: list[tuple[float, list[float]]] = []
    with tempfile.TemporaryDirectory(prefix="skate-soak-") as folder:
        churn = Churn(seed, folder)
        begun = time.monotonic()
        print(f"seed {seed}, {minutes:g} minutes; memory in MiB, after all refs and actors were let go")
        print("     s  steps/s " + " ".join(f"{each.name:>10}" for each in watched), flush=True)
        while time.monotonic() - begun < minutes * 60 or len(history) < 4:
            until, before = time.monotonic() + every, churn.count
            started = time.monotonic()
            while time.monotonic() < until:
                churn.step()
            rate = (churn.count - before) / (time.monotonic() - started)
            churn.kept.clear()
            settle(watched)
            values = [float(each.read()) for each in watched]
            history.append((time.monotonic() - begun, values))
            shown = " ".join(f"{value:>10.1f}" for value in values)
            print(f"{history[-1][0]:>6.0f} {rate:>8.1f} {shown}", flush=True)
        print(f"\n{churn.count} steps: " + ", ".join(f"{n} {name}" for name, n in sorted(churn.done.items())))
    good = judge(watched, history)
    ray.shutdown()
    return good


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two lines")
    args = parser.parse_args()
    good = soak(args.minutes, args.seed, args.every)
    print("PASS" if good else "FAIL")
    sys.exit(not good)


if __name__ == "__main__":
    main()
