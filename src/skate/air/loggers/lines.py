"""Results as lines of JSON in result.json, with their settings in params.json and params.pkl."""

from __future__ import annotations

import contextlib
import json
import pickle
from typing import Any

from skate.air.flat import is_plain, plain
from skate.air.logger_callback import LoggerCallback
from skate.air.loggers.append_file import AppendFile, write_file
from skate.air.trial import LoggableTrial
from skate.air.trial_folder import trial_folder

NAME = "result.json"
SETTINGS = "params.json"
PICKLED_SETTINGS = "params.pkl"
#: Made once, because `json.dumps` makes one for each text that is not encoded in the default way.
_RESULTS = json.JSONEncoder(default=plain)
_PARAMS = json.JSONEncoder(default=plain, skipkeys=True)


class JsonLoggerCallback(LoggerCallback):
    """Writes `result.json`, one line per result, and the settings as `params.json` and `params.pkl`.

    Arrays are written as their numbers, other values that JSON cannot represent as their `repr`.
    """

    kept_files = (NAME,)

    def __init__(self) -> None:
        self._files: dict[Any, AppendFile] = {}
        #: The settings of a trial as JSON: each line includes them, and they rarely change.
        self._settings: dict[Any, str] = {}

    def log_trial_start(self, trial: LoggableTrial) -> None:
        """Write the settings, and open the file for results."""
        self._end(trial)
        folder = trial_folder(trial)
        if folder is not None:
            self._write_config(trial, folder, trial.config)
            # Each line is one write: a killed search leaves complete lines.
            self._files[trial] = AppendFile(f"{folder}/{NAME}")

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
        text = _RESULTS.encode(rest)
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
        if folder is not None:
            self._write_config(trial, folder, config)

    def _write_config(self, trial: LoggableTrial, folder: str, config: dict[str, Any]) -> None:
        self._settings[trial] = _PARAMS.encode(config)
        write_file(f"{folder}/{SETTINGS}", _indented(config).encode())
        pickled = _pickled(config)
        if pickled is not None:
            write_file(f"{folder}/{PICKLED_SETTINGS}", pickled)

    def _end(self, trial: LoggableTrial) -> None:
        self._settings.pop(trial, None)
        file = self._files.pop(trial, None)
        if file is not None:
            file.close()


def _indented(config: dict[str, Any]) -> str:
    """Return settings as JSON with a line for each; a flat dict without Python's slow encoder of indented texts."""
    if config and all(
        type(name) is str and (value is None or type(value) in (bool, int, float, str))
        for name, value in config.items()
    ):
        encode = _PARAMS.encode
        lines = [f"  {encode(name)}: {encode(config[name])}" for name in sorted(config)]
        return "{\n" + ",\n".join(lines) + "\n}"
    try:
        return json.dumps(config, default=plain, indent=2, skipkeys=True, sort_keys=True)
    except TypeError:  # names of several types have no order
        return json.dumps(config, default=plain, indent=2, skipkeys=True)


def _pickled(config: dict[str, Any]) -> bytes | None:
    if is_plain(config):
        return pickle.dumps(config)
    from skate import cloudpickle  # plain settings do not need it

    try:
        found: bytes = cloudpickle.dumps(config)
        return found
    except Exception:  # an object's own pickling may raise anything; params.json has its repr
        return None
