"""Results as a table: progress.csv."""

from __future__ import annotations

import csv
import os
from typing import Any

from skate.tune.logger.logger import LoggerCallback, trial_folder
from skate.tune.metrics import flat


class CSVLoggerCallback(LoggerCallback):
    """Writes a row for each result; the first result says what the columns are."""

    def __init__(self) -> None:
        self._tables: dict[str, tuple[Any, Any, list[str]]] = {}

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Write a row."""
        row = flat({name: value for name, value in result.items() if name != "config"})
        table = self._tables.get(trial.trial_id)
        if table is None:
            table = self._open(trial, list(row))
            if table is None:
                return
        file, writer, columns = table
        writer.writerow([row.get(name, "") for name in columns])
        file.flush()

    def _open(self, trial: Any, columns: list[str]) -> Any:
        folder = trial_folder(trial)
        if folder is None:
            return None
        path = os.path.join(folder, "progress.csv")
        if os.path.exists(path) and os.path.getsize(path):  # the trial goes on
            with open(path, newline="") as before:
                columns = next(csv.reader(before))
            file = open(path, "a", newline="")  # noqa: SIM115 - open as long as the trial
            writer = csv.writer(file, lineterminator="\n")
        else:
            file = open(path, "w", newline="")  # noqa: SIM115 - as above
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
        self._tables[trial.trial_id] = (file, writer, columns)
        return self._tables[trial.trial_id]

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Close the table."""
        table = self._tables.pop(trial.trial_id, None)
        if table is not None:
            table[0].close()

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Close what trials that were cut off have left open."""
        for file, _, _ in self._tables.values():
            file.close()
        self._tables.clear()
