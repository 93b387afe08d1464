"""Content of the line about a run: progress, last metrics, speed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Metrics that show the progress of a run; they are shown first.
_COURSE = ("epoch", "step", "global_step", "iteration", "batch")
#: Metrics that count the work of a rank.
_COUNTS = ("rows", "samples", "examples", "images", "tokens", "num_rows", "num_samples", "num_tokens")
_SHOWN = 6


class RunMetrics:
    """Counts reports, and rows if a metric names them."""

    def __init__(self) -> None:
        self.reports = 0
        self.checkpoints = 0
        self.metrics: Mapping[str, Any] = {}
        #: The unit that is counted, such as "rows"; empty if no metric names it.
        self.unit = ""
        self._seen: dict[int, _Count] = {}

    def reported(self, metrics: Sequence[Mapping[str, Any]], with_checkpoint: bool) -> None:
        """Record a report of all ranks: their metrics by rank."""
        self.reports += 1
        self.checkpoints += with_checkpoint
        self.metrics = metrics[0]
        for rank, each in enumerate(metrics):
            name = next((name for name in _COUNTS if _is_number(each.get(name))), None)
            if name is not None:
                self.unit = name.removeprefix("num_")
                self._seen.setdefault(rank, _Count()).add(float(each[name]))

    @property
    def counted(self) -> float:
        """Return the amount of work done by all ranks."""
        return sum(each.total for each in self._seen.values())

    def course(self) -> list[str]:
        """Describe the progress and the last metrics, such as "epoch 3" and "loss 0.25"."""
        names = [name for name in _COURSE if _is_number(self.metrics.get(name))]
        names += [name for name in self.metrics if name not in names and name not in _COUNTS]
        shown = [name for name in names if _is_number(self.metrics[name])]
        words = [f"{name} {number_text(self.metrics[name])}" for name in shown[:_SHOWN]]
        return words + ["..."] * (len(shown) > _SHOWN)

    def speed(self, seconds: float) -> list[str]:
        """Describe the speed."""
        if not self.reports or seconds <= 0:
            return []
        found = [f"{self.reports / seconds:,.1f} reports/s"]
        if self.unit:
            found.append(f"{self.counted / seconds:,.0f} {self.unit}/s")
        return found


class _Count:
    """A counting metric: the increase since the last report, or the total if it only grows."""

    def __init__(self) -> None:
        self._last = 0.0
        self._sum = 0.0
        self._grows = True

    def add(self, value: float) -> None:
        self._grows = self._grows and value > self._last
        self._last = value
        self._sum += value

    @property
    def total(self) -> float:
        return self._last if self._grows else self._sum


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def number_text(value: float) -> str:
    """Format a number with four significant digits."""
    if isinstance(value, int) or (abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def seconds_text(seconds: float) -> str:
    """Format a duration for the terminal: 4.2 s, 1:05, 2:00:09."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
