"""Results as a CSV table, one row each: progress.csv."""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Iterable
from typing import Any

from skate.air.flat import flat
from skate.air.logger_callback import LoggerCallback
from skate.air.loggers.append_file import AppendFile
from skate.air.trial import LoggableTrial
from skate.air.trial_folder import trial_folder

NAME = "progress.csv"


class _Table:
    """The rows of a file, each written at once."""

    __slots__ = ("_file", "_texts", "_writer", "columns")

    def __init__(self, path: str, columns: list[str]) -> None:
        heading = _heading(path)
        self.columns = heading or columns
        self._texts: list[str] = []
        self._writer = csv.writer(self, lineterminator="\n")
        self._file = AppendFile(path)
        if not heading:
            self._writer.writerow(columns)

    def write(self, text: str) -> None:
        """Take the text of a row from the writer."""
        self._texts.append(text)

    def add(self, row: Iterable[Any]) -> None:
        """Append a row to the file, after the heading if the file is new."""
        self._writer.writerow(row)
        data = "".join(self._texts).encode()
        self._texts.clear()
        self._file.write(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


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
            table = self._tables[trial] = _Table(f"{folder}/{NAME}", list(row))
        table.add([row.get(name, "") for name in table.columns])

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
            table.close()


def _heading(path: str) -> list[str]:
    """Return the columns of an existing table."""
    try:
        if not os.stat(path).st_size:
            return []
    except FileNotFoundError:
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return next(csv.reader(file), [])
