"""The contract of a logger."""

from __future__ import annotations

import json
import os
from typing import Any

from skate.tune.callback import Callback
from skate.tune.journal.encoding import plain


class LoggerCallback(Callback):
    """A callback that writes what single trials report; subclasses define the `log_trial_*` methods."""

    _logging: set[str] | None = None

    def log_trial_start(self, trial: Any) -> None:
        """A trial starts."""

    def log_trial_restore(self, trial: Any) -> None:
        """A trial goes on from a checkpoint."""

    def log_trial_save(self, trial: Any) -> None:
        """A trial was saved."""

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """A trial has reported."""

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """A trial has ended."""

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """A trial has reported."""
        self._started(trial)
        self.log_trial_result(iteration, trial, result)

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial starts."""
        self._started(trial)

    def on_trial_restore(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial goes on from a checkpoint."""
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial was saved."""
        self.log_trial_save(trial)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial has ended."""
        self._ended(trial, False)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial has failed."""
        self._ended(trial, True)

    def _started(self, trial: Any) -> None:
        if self._logging is None:
            self._logging = set()
        if trial.trial_id not in self._logging:
            self._logging.add(trial.trial_id)
            self.log_trial_start(trial)

    def _ended(self, trial: Any, failed: bool) -> None:
        self.log_trial_end(trial, failed)
        (self._logging or set()).discard(trial.trial_id)


def trial_folder(trial: Any) -> str | None:
    """The folder that a trial's files go to, made if it is not there; None if it is on no disk."""
    folder = trial.folder
    if not folder.local:
        return None
    os.makedirs(folder.path, exist_ok=True)
    found: str = folder.path
    return found


def pretty_print(result: dict[str, Any], exclude: set[str] | None = None) -> str:
    """A result as text, a line for each value that is not None."""
    shown = {
        name: value for name, value in result.items() if value is not None and name not in (exclude or set())
    }
    shown.pop("config", None)
    lines = []
    for name, value in json.loads(json.dumps(shown, default=plain)).items():
        lines.append(f"{name}: {json.dumps(value) if isinstance(value, (dict, list)) else value}")
    return "\n".join(lines) + "\n"
