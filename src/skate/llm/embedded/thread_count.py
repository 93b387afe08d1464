"""The number of threads that pays at the moment: pure decisions, testable without load.

Threads of one product wait for each other many times in each step. If another process takes the CPU of one, all wait for
it, so two threads on a busy machine are many times slower than one. A thread pays only if a CPU is free for it.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Seconds between decisions. The kernel counts CPU time in hundredths of a second.
_WINDOW_S = 0.2
#: A longer window says too little about now, so that the number of running processes decides.
_STALE_S = 1.0
#: The part of a CPU that others may use before the last thread stops to pay, and before it starts to pay.
_LOST = 0.5
_FREE = 0.25
#: The windows in a row with free CPUs before the count rises, and their most after a rise that did not last.
_PATIENCE = 2
_PATIENCE_MAX = 32
#: A count that held so long did last.
_LASTED_S = 10.0


@dataclass(frozen=True)
class CpuSample:
    """Counters at one moment.

    Args:
        at: the time in seconds.
        busy: CPU seconds that all processes have used on the CPUs of this process.
        own: CPU seconds that this process has used.
        running: the processes that run or wait for a CPU, this one included.
    """

    at: float
    busy: float
    own: float
    running: int


class ThreadCount:
    """Chooses the number of threads from samples of the CPUs.

    Args:
        most: the most threads.
        cpus: the CPUs that this process may use.
    """

    def __init__(self, most: int, cpus: int) -> None:
        self._most = max(1, min(most, cpus))
        self._cpus = cpus
        self.count = 1
        self._last: CpuSample | None = None
        self._quiet = 0
        self._patience = _PATIENCE
        self._rose_at = float("-inf")

    def due(self, now: float) -> bool:
        """Return True if it is time for another sample."""
        return self._most > 1 and (self._last is None or now - self._last.at >= _WINDOW_S)

    def observe(self, sample: CpuSample) -> int:
        """Take a sample and return the number of threads."""
        last, self._last = self._last, sample
        if last is None or sample.at - last.at > _STALE_S * max(1, self.count):
            self._quiet = 0
            self.count = self._most_for(float(self._cpus - max(0, sample.running - 1)))
            self._rose_at = sample.at
            return self.count
        seconds = max(sample.at - last.at, 1e-3)
        others = max(0.0, (sample.busy - last.busy) - (sample.own - last.own)) / seconds
        self._decide(self._cpus - others, sample.at)
        return self.count

    def _decide(self, free: float, now: float) -> None:
        if self.count > 1 and now - self._rose_at > _LASTED_S:
            self._patience = _PATIENCE
        if self.count > 1 and free < self.count - _LOST:
            self.count = self._most_for(free)
            self._quiet = 0
            # A load that comes and goes would make the count change all the time.
            if now - self._rose_at < _LASTED_S:
                self._patience = min(2 * self._patience, _PATIENCE_MAX)
        elif self._most_for(free) > self.count:
            self._quiet += 1
            if self._quiet >= self._patience:
                self.count = self._most_for(free)
                self._quiet = 0
                self._rose_at = now
        else:
            self._quiet = 0

    def _most_for(self, free: float) -> int:
        return max(1, min(self._most, int(free + _FREE)))
