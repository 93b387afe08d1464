"""Ends the search when its best results no longer differ."""

from __future__ import annotations

from typing import Any

from skate.tune.stopper.stopper import Stopper


class ExperimentPlateauStopper(Stopper):
    """Ends the search once the best `top` results have had a standard deviation of at most `std` for
    `patience` further results.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(
        self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f'mode must be "min" or "max", got {mode!r}')
        if isinstance(top, bool) or not isinstance(top, int) or top <= 1:
            raise ValueError(f"top must be a number of results >= 2, got {top!r}")
        if not isinstance(patience, int) or patience < 0:
            raise ValueError(f"patience must be a number of results >= 0, not {patience!r}")
        if not isinstance(std, (int, float)) or std <= 0:
            raise ValueError(f"std must be above 0, got {std!r}")
        self._metric, self._mode, self._std, self._top, self._patience = metric, mode, std, top, patience
        self._iterations = 0
        self._best: list[float] = []

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self._best.append(result[self._metric])
        self._best = sorted(self._best, reverse=self._mode == "max")[: self._top]
        self._iterations = self._iterations + 1 if self.has_plateaued() else 0
        return self.stop_all()

    def has_plateaued(self) -> bool:
        """True if the best results hardly differ."""
        return len(self._best) == self._top and deviation(self._best) <= self._std

    def stop_all(self) -> bool:
        """True if the best results have hardly differed for long enough."""
        return self.has_plateaued() and self._iterations >= self._patience


def deviation(values: list[float]) -> float:
    """Return the population standard deviation of values."""
    mean = sum(values) / len(values)
    return float((sum((each - mean) ** 2 for each in values) / len(values)) ** 0.5)
