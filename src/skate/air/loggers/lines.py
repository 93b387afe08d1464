"""Results as lines of JSON in result.json, with their settings in params.json and params.pkl."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from typing import Any

from skate.air.flat import is_plain, plain
from skate.air.logger_callback import LoggerCallback
from skate.air.trial import LoggableTrial
from skate.air.trial_folder import trial_folder

NAME = "result.json"
SETTINGS = "params.json"
PICKLED_SETTINGS = "params.pkl"


class JsonLoggerCallback(LoggerCallback):
    """Writes `result.json`, one line per result, and the settings as `params.json` and `params.pkl`.

    Arrays are written as their numbers, other values that JSON cannot represent as their `repr`.
    """

    kept_files = (NAME,)

    def __init__(self) -> None:
        self._files: dict[Any, Any] = {}
        #: The settings of a trial as JSON: each line includes them, and they rarely change.
        self._settings: dict[Any, str] = {}

    def log_trial_start(self, trial: LoggableTrial) -> None:
        """Write the settings, and open the file for results."""
        self._end(trial)
        folder = trial_folder(trial)
        if folder is not None:
            self.update_config(trial, trial.config)
            path = os.path.join(folder, NAME)
            # Each line is one write: a killed search leaves complete lines.
            self._files[trial] = open(path, "ab", buffering=0)  # noqa: SIM115 - open as long as the trial

    def log_trial_restore(self, trial: LoggableTrial) -> None:
        """Handle changed settings: population based training replaces those of a trial."""
        if trial in self._files:
            self.update_config(trial, trial.config)

    def log_trial_result(self, iteration: int, trial: LoggableTrial, result: dict[str, Any]) -> None:
        """Append a line."""
        if trial not in self._files:
            self.log_trial_start(trial)
        file = self._files.get(trial)
        if file is None:
            return
        rest = {name: value for name, value in result.items() if name != "config"}
        text = json.dumps(rest, default=plain)
        if "config" in result:
            text = f'{text[:-1]}{", " if rest else ""}"config": {self._settings[trial]}}}'
        file.write(f"{text}\n".encode())

    def log_trial_end(self, trial: LoggableTrial, failed: bool = False) -> None:
        """Close the file."""
        self._end(trial)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Close the files of interrupted trials, also if some of them do not fit on the disk."""
        with contextlib.ExitStack() as stack:
            for trial in self._files:
                stack.callback(self._end, trial)

    def update_config(self, trial: LoggableTrial, config: dict[str, Any]) -> None:
        """Rewrite the files of settings."""
        folder = trial_folder(trial)
        if folder is None:
            return
        self._settings[trial] = json.dumps(config, default=plain, skipkeys=True)
        try:
            shown = json.dumps(config, default=plain, indent=2, skipkeys=True, sort_keys=True)
        except TypeError:  # names of several types have no order
            shown = json.dumps(config, default=plain, indent=2, skipkeys=True)
        with open(os.path.join(folder, SETTINGS), "wb", buffering=0) as file:
            file.write(shown.encode())
        pickled = _pickled(config)
        if pickled is not None:
            with open(os.path.join(folder, PICKLED_SETTINGS), "wb", buffering=0) as pickles:
                pickles.write(pickled)

    def _end(self, trial: LoggableTrial) -> None:
        self._settings.pop(trial, None)
        file = self._files.pop(trial, None)
        if file is not None:
            file.close()


def _pickled(config: dict[str, Any]) -> bytes | None:
    if is_plain(config):
        return pickle.dumps(config)
    from skate import cloudpickle  # plain settings do not need it

    try:
        found: bytes = cloudpickle.dumps(config)
        return found
    except Exception:  # an object's own pickling may raise anything; params.json has its repr
        return None
