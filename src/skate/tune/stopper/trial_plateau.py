"""Ends trials that no longer change."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from skate.tune.stopper.experiment_plateau import deviation
from skate.tune.stopper.stopper import Stopper


class TrialPlateauStopper(Stopper):
    """Ends a trial when its last `num_results` values of a metric have a standard deviation of less than `std`.

    Args:
        metric: the metric to watch.
        std: the standard deviation.
        num_results: the number of values to consider.
        grace_period: the least number of results of a trial.
        metric_threshold: a trial continues while the metric is on the worse side of this ("min": above it).
        mode: "min" or "max"; required with `metric_threshold`.

    Raises:
        ValueError: a threshold was given without a mode.
    """

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: float | None = None,
        mode: str | None = None,
    ) -> None:
        if metric_threshold is not None and mode not in ("min", "max"):
            raise ValueError(f'with metric_threshold, mode must be "min" or "max", got {mode!r}')
        self._metric, self._mode, self._threshold = metric, mode, metric_threshold
        self._std, self._grace = std, grace_period
        self._count: defaultdict[str, int] = defaultdict(int)
        self._num_results = num_results
        self._values: dict[str, deque[float]] = {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        value = result.get(self._metric)
        values = self._values.setdefault(trial_id, deque(maxlen=self._num_results))
        self._count[trial_id] += 1
        if value is None:
            return False
        values.append(value)
        if self._count[trial_id] < self._grace or len(values) < self._num_results:
            return False
        if self._threshold is not None:
            if (self._mode == "min" and value > self._threshold) or (
                self._mode == "max" and value < self._threshold
            ):
                return False
        return deviation(list(values)) < self._std

    def stop_all(self) -> bool:
        """False: each trial has its own values."""
        return False
