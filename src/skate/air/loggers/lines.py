"""Results as lines of JSON, result.json, and the settings they belong to, params.json and params.pkl."""

from __future__ import annotations

import json
import os
import pickle
from typing import Any, TextIO

from skate.air.flat import plain
from skate.air.logger_callback import LoggerCallback
from skate.air.trial_folder import trial_folder

NAME = "result.json"
SETTINGS = "params.json"
PICKLED_SETTINGS = "params.pkl"


class JsonLoggerCallback(LoggerCallback):
    """Writes `result.json`, one line a result, and the settings as `params.json` and `params.pkl`.

    What JSON cannot hold is written as its numbers (arrays) or its `repr`.
    """

    kept_files = (NAME,)

    def __init__(self) -> None:
        self._files: dict[Any, TextIO] = {}

    def log_trial_start(self, trial: Any) -> None:
        """Write the settings, and open the file for results."""
        self._end(trial)
        folder = trial_folder(trial)
        if folder is not None:
            self.update_config(trial, trial.config)
            self._files[trial] = open(os.path.join(folder, NAME), "a")  # noqa: SIM115 - open as long as the trial

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Add a line."""
        if trial not in self._files:
            self.log_trial_start(trial)
        file = self._files.get(trial)
        if file is not None:
            file.write(json.dumps(result, default=plain) + "\n")
            file.flush()

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Close the file."""
        self._end(trial)

    def update_config(self, trial: Any, config: dict[str, Any]) -> None:
        """Write the settings anew."""
        folder = trial_folder(trial)
        if folder is None:
            return
        with open(os.path.join(folder, SETTINGS), "w") as file:
            json.dump(config, file, indent=2, sort_keys=True, default=plain)
        import cloudpickle  # Tune and Train have loaded it; other programs never come here

        try:
            pickled = cloudpickle.dumps(config)
        except (TypeError, ValueError, AttributeError, pickle.PicklingError):  # they are in params.json
            return
        with open(os.path.join(folder, PICKLED_SETTINGS), "wb") as pickles:
            pickles.write(pickled)

    def _end(self, trial: Any) -> None:
        file = self._files.pop(trial, None)
        if file is not None:
            file.close()
