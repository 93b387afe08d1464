"""Sets torch's number of threads in the engine's thread, by what else runs on the machine."""

from __future__ import annotations

import os
import time

import torch

from skate.llm.embedded.thread_count import CpuSample, ThreadCount

_STAT = "/proc/stat"


class ThreadGovernor:
    """Follows the load of the machine. Created and called by the engine's thread only.

    Args:
        fixed: the number of threads to keep; None to follow the load, with torch's default as the most.
    """

    def __init__(self, fixed: int | None) -> None:
        self._counts: ThreadCount | None = None
        if fixed is not None:
            torch.set_num_threads(fixed)
            return
        most = torch.get_num_threads()
        if most > 1 and os.path.exists(_STAT):
            self._cpus = os.sched_getaffinity(0)
            self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
            self._counts = ThreadCount(most, len(self._cpus))
            self._set = most

    def follow(self) -> None:
        """Set the number of threads for the next step."""
        counts = self._counts
        if counts is None or not counts.due(time.monotonic()):
            return
        count = counts.observe(self._sample())
        if count != self._set:
            torch.set_num_threads(count)
            self._set = count

    def _sample(self) -> CpuSample:
        with open(_STAT) as file:
            busy, running = cpu_times(file.read(), self._cpus)
        return CpuSample(time.monotonic(), busy * self._tick_s, time.process_time(), running)


def cpu_times(stat: str, cpus: set[int]) -> tuple[int, int]:
    """Read /proc/stat: return the ticks in which some CPUs were not idle, and the number of running processes."""
    busy = running = 0
    for line in stat.splitlines():
        name, _, rest = line.partition(" ")
        if name == "procs_running":
            running = int(rest)
        elif name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, rest.split()[:8])
            busy += user + nice + system + irq + softirq + steal
    return busy, running
