"""Comet: metrics, settings and checkpoints of runs on its service."""

from __future__ import annotations

import os
from typing import Any

from skate.air.flat import flat, numbers
from skate.air.logger_callback import LoggerCallback
from skate.air.trial import LoggableTrial
from skate.installed import require

_QUIET = ("auto_output_logging", "log_git_metadata", "log_git_patch", "log_env_cpu", "log_env_gpu")
_NEVER = ("done", "should_checkpoint", "config")
_SYSTEM = ("node_ip", "hostname", "pid", "date")
_OTHER = ("trial_id", "experiment_id", "experiment_tag")


class CometLoggerCallback(LoggerCallback):
    """Logs every trial of Tune, or a run of Train, as an experiment of Comet.

    Args:
        online: False to write experiments to disk for a later upload.
        tags: the tags of each experiment.
        save_checkpoints: True to log checkpoints on a local disk as artifacts.
        experiment_kwargs: arguments of `comet_ml.Experiment` or `OfflineExperiment`; automatic logging is off by
            default.

    Raises:
        ImportError: comet_ml is not installed.
    """

    def __init__(
        self,
        online: bool = True,
        tags: list[str] | None = None,
        save_checkpoints: bool = False,
        **experiment_kwargs: Any,
    ) -> None:
        os.environ.setdefault("COMET_DISABLE_AUTO_LOGGING", "1")
        self._comet = require("comet_ml", "CometLoggerCallback", "comet-ml")
        self.online = online
        self.tags = list(tags or ())
        self.save_checkpoints = save_checkpoints
        self.experiment_kwargs = {**dict.fromkeys(_QUIET, False), **experiment_kwargs}
        self._experiments: dict[Any, Any] = {}

    def log_trial_start(self, trial: LoggableTrial) -> None:
        """Begin an experiment with the settings."""
        if trial not in self._experiments:
            kind = self._comet.Experiment if self.online else self._comet.OfflineExperiment
            self._experiments[trial] = kind(**self.experiment_kwargs)
            # Otherwise the next trial's experiment would end this one.
            require("comet_ml.config", "CometLoggerCallback").set_global_experiment(None)
        experiment = self._experiments[trial]
        experiment.set_name(str(trial))
        experiment.add_tags(self.tags)
        experiment.log_other("Created from", "Skate")
        experiment.log_parameters(flat(trial.config or {}))

    def log_trial_result(self, iteration: int, trial: LoggableTrial, result: dict[str, Any]) -> None:
        """Log the numbers of a result."""
        if trial not in self._experiments:
            self.log_trial_start(trial)
        experiment = self._experiments[trial]
        step = int(result.get("training_iteration", iteration))
        for name in _OTHER:
            if name in result:
                experiment.log_other(name, result[name])
        for name in _SYSTEM:
            if name in result:
                experiment.log_system_info(name, result[name])
        beside = (*_NEVER, *_SYSTEM, *_OTHER)
        metrics = {name: value for name, value in result.items() if name not in beside}
        experiment.log_metrics(numbers(metrics), step=step)

    def log_trial_save(self, trial: LoggableTrial) -> None:
        """Log a checkpoint as an artifact, if enabled."""
        checkpoint = getattr(trial, "checkpoint", None)
        if not self.save_checkpoints or checkpoint is None or not checkpoint._local:
            return
        artifact = self._comet.Artifact(name=f"checkpoint_{trial}", artifact_type="model")
        for folder, _, names in os.walk(checkpoint.path):
            for name in names:
                path = os.path.join(folder, name)
                artifact.add(path, logical_path=os.path.relpath(path, checkpoint.path))
        self._experiments[trial].log_artifact(artifact)

    def log_trial_end(self, trial: LoggableTrial, failed: bool = False) -> None:
        """End the trial's experiment."""
        experiment = self._experiments.pop(trial, None)
        if experiment is not None:
            experiment.end()
