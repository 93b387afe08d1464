"""Results as lines of JSON, and the configuration: result.json, params.json, params.pkl."""

from __future__ import annotations

import json
import os
from typing import Any

from skate.tune.journal.encoding import dumped, is_exact, plain
from skate.tune.logger.logger import LoggerCallback, trial_folder


class JsonLoggerCallback(LoggerCallback):
    """Writes a line for each result."""

    def __init__(self) -> None:
        self._files: dict[str, Any] = {}
        self._configs: dict[str, str] = {}

    def log_trial_start(self, trial: Any) -> None:
        """Write the configuration, and open the file."""
        folder = trial_folder(trial)
        if folder is None:
            return
        self.update_config(trial, trial.config)
        self._files[trial.trial_id] = open(os.path.join(folder, "result.json"), "ab", buffering=0)  # noqa: SIM115

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Write a line."""
        file = self._files.get(trial.trial_id)
        if file is None:
            return
        rest = {name: value for name, value in result.items() if name != "config"}
        text = json.dumps(rest, default=plain)
        file.write(f'{text[:-1]}, "config": {self._configs[trial.trial_id]}}}\n'.encode())

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Close the file."""
        file = self._files.pop(trial.trial_id, None)
        self._configs.pop(trial.trial_id, None)
        if file is not None:
            file.close()

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Close what trials that were cut off have left open."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def update_config(self, trial: Any, config: dict[str, Any]) -> None:
        """Write the configuration anew."""
        folder = trial_folder(trial)
        if folder is None:
            return
        self._configs[trial.trial_id] = json.dumps(config, default=plain, skipkeys=True)
        with open(os.path.join(folder, "params.json"), "w") as text:
            text.write(json.dumps(config, default=plain, indent=2, skipkeys=True))
        with open(os.path.join(folder, "params.pkl"), "wb") as binary:
            if is_exact(config):
                import pickle  # as plain as it gets

                pickle.dump(config, binary)
            else:
                binary.write(dumped(config))

    def on_trial_restore(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """The configuration may be another."""
        if trial.trial_id in self._files:
            self.update_config(trial, trial.config)
