"""Aim: metrics and settings of runs in an Aim repository."""

from __future__ import annotations

import math
import os
from typing import Any

from skate.air.flat import flat, numbers
from skate.air.integrations.training import BESIDE_METRICS
from skate.air.logged_run import LoggedRun
from skate.air.logger_callback import LoggerCallback
from skate.air.trial import LoggableTrial
from skate.air.trial_folder import trial_folder
from skate.installed import require


class AimLoggerCallback(LoggerCallback):
    """Logs every trial of Tune, or a run of Train, as a run of Aim, in the process that called `fit`.

    Args:
        repo: a folder for Aim's repository, or an `aim.Repo`; by default the folder of the search, or of the run.
        experiment_name: by default the name of the search or run.
        metrics: the reported metrics to log; all by default. Nested ones have names such as "eval/loss".
        aim_run_kwargs: arguments of `aim.Run`.

    Metrics are tracked as "ray/tune/<metric>". The reported "context" and "epoch" are used as the metric's
    context and epoch.

    Raises:
        ImportError: aim is not installed.
        ValueError: `metrics` is empty.
    """

    def __init__(
        self,
        repo: Any = None,
        experiment_name: str | None = None,
        metrics: list[str] | None = None,
        **aim_run_kwargs: Any,
    ) -> None:
        self._aim = require("aim", "AimLoggerCallback")
        if metrics is not None and not metrics:
            raise ValueError(
                "metrics=[] would log nothing; name at least one metric, or leave it out to log all of them"
            )
        self.repo = repo
        self.experiment_name = experiment_name
        self.metrics = metrics
        self.aim_run_kwargs = aim_run_kwargs
        self._runs: dict[Any, Any] = {}

    def log_trial_start(self, trial: LoggableTrial) -> None:
        """Begin a run with the settings; a restarted trial gets a new one."""
        self._end(trial)
        folder = trial_folder(trial)
        home = folder
        if folder is not None and not isinstance(trial, LoggedRun):
            home = os.path.dirname(folder)
        run = self._runs[trial] = self._aim.Run(
            repo=self.repo or home,
            experiment=self.experiment_name or trial.experiment_dir_name,
            **self.aim_run_kwargs,
        )
        run["trial_id"] = trial.trial_id
        run["trial_log_dir"] = trial.path
        settings = {name: _setting(value) for name, value in flat(trial.evaluated_params or {}).items()}
        if settings:
            run["hparams"] = {name: value for name, value in settings.items() if not callable(value)}

    def log_trial_result(self, iteration: int, trial: LoggableTrial, result: dict[str, Any]) -> None:
        """Track the numbers of a result."""
        if trial not in self._runs:
            self.log_trial_start(trial)
        step = int(result.get("timesteps_total") or result.get("training_iteration", iteration))
        values = {name: value for name, value in result.items() if name not in BESIDE_METRICS}
        context, epoch = values.pop("context", None), values.pop("epoch", None)
        for name, value in numbers(values).items():
            if math.isfinite(value) and (self.metrics is None or name in self.metrics):
                self._runs[trial].track(
                    value, name=f"ray/tune/{name}", step=step, epoch=epoch, context=context
                )

    def log_trial_end(self, trial: LoggableTrial, failed: bool = False) -> None:
        """End the trial's run."""
        self._end(trial)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """End the runs of interrupted trials."""
        for trial in list(self._runs):
            self._end(trial)

    def _end(self, trial: LoggableTrial) -> None:
        run = self._runs.pop(trial, None)
        if run is not None:
            run.close()


def _setting(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
