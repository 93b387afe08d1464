"""Results as a CSV table, one row each: progress.csv."""

from __future__ import annotations

import contextlib
import csv
import os
from dataclasses import dataclass
from typing import Any, TextIO

from skate.air.flat import flat
from skate.air.logger_callback import LoggerCallback
from skate.air.trial import LoggableTrial
from skate.air.trial_folder import trial_folder

NAME = "progress.csv"


@dataclass
class _Table:
    file: TextIO
    writer: Any
    columns: list[str]


class CSVLoggerCallback(LoggerCallback):
    """Writes `progress.csv`; nested metrics become columns such as `eval/loss`.

    The first result determines the columns. Later ones are dropped: a table has one header; use
    `JsonLoggerCallback` for results of changing shape. A resumed run appends rows under the existing header.
    """

    kept_files = (NAME,)

    def __init__(self) -> None:
        self._tables: dict[Any, _Table] = {}

    def log_trial_start(self, trial: LoggableTrial) -> None:
        """Open the file when a trial starts or restarts."""
        self._end(trial)

    def log_trial_result(self, iteration: int, trial: LoggableTrial, result: dict[str, Any]) -> None:
        """Append a row."""
        row = flat({name: value for name, value in result.items() if name != "config"})
        table = self._tables.get(trial)
        if table is None:
            folder = trial_folder(trial)
            if folder is None:
                return
            table = self._tables[trial] = _open(os.path.join(folder, NAME), list(row))
        table.writer.writerow([row.get(name, "") for name in table.columns])
        table.file.flush()

    def log_trial_end(self, trial: LoggableTrial, failed: bool = False) -> None:
        """Close the file."""
        self._end(trial)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Close the files of interrupted trials, also if some of them do not fit on the disk."""
        with contextlib.ExitStack() as stack:
            for trial in self._tables:
                stack.callback(self._end, trial)

    def _end(self, trial: LoggableTrial) -> None:
        table = self._tables.pop(trial, None)
        if table is not None:
            table.file.close()


def _open(path: str, columns: list[str]) -> _Table:
    file = open(path, "a+", newline="")  # noqa: SIM115 - open as long as the trial
    heading = _heading(file)
    table = _Table(file, csv.writer(file, lineterminator="\n"), heading or columns)
    if not heading:
        table.writer.writerow(columns)
    return table


def _heading(file: TextIO) -> list[str]:
    """Return the columns of an existing table, and go to its end."""
    if not file.tell():
        return []
    file.seek(0)
    found = next(csv.reader(iter(file.readline, "")), [])
    file.seek(0, os.SEEK_END)
    return found
