"""Results for TensorBoard."""

from __future__ import annotations

import math
from typing import Any

from skate.tune.logger.events import EventFile
from skate.tune.logger.logger import LoggerCallback, trial_folder
from skate.tune.metrics import flat, number

_LEFT_OUT = frozenset(
    (
        "config",
        "pid",
        "timestamp",
        "time_total_s",
        "training_iteration",
        "trial_id",
        "date",
        "done",
        "hostname",
    )
)


class TBXLoggerCallback(LoggerCallback):
    """Writes an event file for each trial, its tags "ray/tune/<metric>"."""

    def __init__(self) -> None:
        self._open: dict[str, EventFile] = {}

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Write the numbers of a result."""
        file = self._open.get(trial.trial_id)
        if file is None:
            folder = trial_folder(trial)
            if folder is None:
                return
            file = self._open[trial.trial_id] = EventFile(folder)
        step = result.get("timesteps_total") or result.get("training_iteration") or 0
        values = {}
        for name, value in flat({n: v for n, v in result.items() if n not in _LEFT_OUT}).items():
            found = number(value)
            if found is not None and (found == found or math.isnan(found)):
                values[f"ray/tune/{name}"] = max(min(found, 3.4e38), -3.4e38)
        file.add(int(step), values)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Close the file."""
        file = self._open.pop(trial.trial_id, None)
        if file is not None:
            file.close()

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Close what trials that were cut off have left open."""
        for file in self._open.values():
            file.close()
        self._open.clear()
