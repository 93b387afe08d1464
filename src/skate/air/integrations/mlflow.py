"""MLflow: metrics, settings and files of runs on a tracking server or in a folder."""

from __future__ import annotations

import os
from typing import Any

from skate.air.flat import flat, numbers
from skate.air.integrations.training import run_identity
from skate.air.logger_callback import LoggerCallback
from skate.air.trial import LoggableTrial
from skate.air.trial_folder import trial_folder
from skate.installed import require


class _Nothing:
    """Replaces mlflow in ranks that log nothing: every attribute is callable and does nothing."""

    def __getattr__(self, name: str) -> _Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> _Nothing:
        return self

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *error: object) -> None: ...


def setup_mlflow(
    config: dict[str, Any] | None = None,
    tracking_uri: str | None = None,
    registry_uri: str | None = None,
    experiment_id: str | None = None,
    experiment_name: str | None = None,
    tracking_token: str | None = None,
    artifact_location: str | None = None,
    run_name: str | None = None,
    create_experiment_if_not_exists: bool = False,
    tags: dict[str, Any] | None = None,
    rank_zero_only: bool = True,
) -> Any:
    """Begin an MLflow run in this training function or trial, and return the module `mlflow` to log with.

    Args:
        config: logged as parameters, nested ones such as "optimizer/lr".
        tracking_uri, registry_uri: MLflow's storage; its own settings if omitted.
        experiment_id, experiment_name: the experiment; the id takes precedence. Next come MLFLOW_EXPERIMENT_ID
            and MLFLOW_EXPERIMENT_NAME, then the names of the trial or run.
        tracking_token: set as MLFLOW_TRACKING_TOKEN.
        artifact_location: the location of a new experiment.
        run_name: by default the experiment's name.
        create_experiment_if_not_exists: True to create a missing experiment.
        tags: the tags of the run.
        rank_zero_only: in Train, other ranks get an object that does nothing.

    Raises:
        ImportError: mlflow is not installed (a RuntimeError as well).
        ValueError: there is no such experiment.
    """
    mlflow = require("mlflow", "setup_mlflow")
    place = run_identity()
    if rank_zero_only and place.rank:
        return _Nothing()
    name = experiment_name or (place.trial_name if place.rank is None else None)
    experiment = _experiment(
        mlflow,
        (tracking_uri, registry_uri, tracking_token),
        experiment_id or place.trial_id,
        name,
        artifact_location,
        create_experiment_if_not_exists,
    )
    if mlflow.active_run() is None:
        mlflow.start_run(
            run_name=run_name or name or place.experiment, experiment_id=experiment, tags=tags or {}
        )
    for key, value in flat(config or {}).items():
        mlflow.log_param(key, value)
    return mlflow


def _experiment(
    mlflow: Any,
    server: tuple[str | None, str | None, str | None],
    wanted_id: str | None,
    wanted_name: str | None,
    artifacts: str | None,
    create: bool,
) -> str:
    """Configure MLflow's server and return the id of the experiment."""
    tracking_uri, registry_uri, token = server
    if token:
        os.environ["MLFLOW_TRACKING_TOKEN"] = token
    if tracking_uri is not None:
        mlflow.set_tracking_uri(tracking_uri)
    if registry_uri is not None:
        mlflow.set_registry_uri(registry_uri)
    by_id = wanted_id or os.environ.get("MLFLOW_EXPERIMENT_ID")
    if by_id is not None:
        try:
            return str(mlflow.get_experiment(by_id).experiment_id)
        except require("mlflow.exceptions", "MLflow").MlflowException:
            pass
    by_name = wanted_name or os.environ.get("MLFLOW_EXPERIMENT_NAME")
    if by_name is not None:
        found = mlflow.get_experiment_by_name(by_name)
        if found is not None:
            return str(found.experiment_id)
        if create:
            return str(mlflow.create_experiment(by_name, artifact_location=artifacts))
    requested = ", ".join(f"{kind} {value!r}" for kind, value in (("id", by_id), ("name", by_name)) if value)
    raise ValueError(
        f"MLflow has no experiment with {requested or 'no name'}; set experiment_name= with "
        "create_experiment_if_not_exists=True, or the name of an existing one"
        if requested
        else "the MLflow experiment is not set: pass experiment_name= or experiment_id=, or set "
        "MLFLOW_EXPERIMENT_NAME"
    )


class MLflowLoggerCallback(LoggerCallback):
    """Logs every trial of Tune, or a run of Train, as a run of MLflow, in the process that called `fit`.

    Args:
        tracking_uri, registry_uri: MLflow's storage.
        experiment_name: created if it does not exist; by default the run's or experiment's own name.
        tags: the tags of each run.
        tracking_token: set as MLFLOW_TRACKING_TOKEN.
        save_artifact: True to upload the folder of the trial or run when it ends.
        log_params_on_trial_end: True to log the settings at the end rather than at the start.

    Raises:
        ImportError: mlflow is not installed.
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        registry_uri: str | None = None,
        experiment_name: str | None = None,
        tags: dict[str, Any] | None = None,
        tracking_token: str | None = None,
        save_artifact: bool = False,
        log_params_on_trial_end: bool = False,
    ) -> None:
        self._mlflow = require("mlflow", "MLflowLoggerCallback")
        self.tracking_uri = tracking_uri
        self.registry_uri = registry_uri
        self.experiment_name = experiment_name
        self.tags = tags
        self.tracking_token = tracking_token
        self.should_save_artifact = save_artifact
        self.log_params_on_trial_end = log_params_on_trial_end
        self._client: Any = None
        self._experiment: str | None = None
        self._runs: dict[Any, str] = {}

    def _begin(self, trial: LoggableTrial) -> None:
        if self._client is not None:
            return
        mlflow = self._mlflow
        name = self.experiment_name or getattr(trial, "experiment_dir_name", None) or "skate"
        server = (self.tracking_uri, self.registry_uri, self.tracking_token)
        self._experiment = _experiment(mlflow, server, None, name, None, create=True)
        self._client = require("mlflow.tracking", "MLflow").MlflowClient(
            tracking_uri=mlflow.get_tracking_uri(), registry_uri=mlflow.get_registry_uri()
        )

    def log_trial_start(self, trial: LoggableTrial) -> None:
        """Make a run, and log the settings."""
        self._begin(trial)
        if trial not in self._runs:
            tags = {**(self.tags or {}), "trial_name": str(trial)}
            run = self._client.create_run(experiment_id=self._experiment, run_name=str(trial), tags=tags)
            self._runs[trial] = run.info.run_id
        if not self.log_params_on_trial_end:
            self._log_settings(trial)

    def _log_settings(self, trial: LoggableTrial) -> None:
        for key, value in flat(trial.config or {}).items():
            self._client.log_param(self._runs[trial], key, value)

    def log_trial_result(self, iteration: int, trial: LoggableTrial, result: dict[str, Any]) -> None:
        """Log the numbers of a result."""
        step = int(result.get("timesteps_total") or result.get("training_iteration", iteration))
        values = {name: value for name, value in result.items() if name != "config"}
        for key, value in numbers(values).items():
            self._client.log_metric(self._runs[trial], key, value, step=step)

    def log_trial_end(self, trial: LoggableTrial, failed: bool = False) -> None:
        """End the run, and upload its files if enabled."""
        run = self._runs.pop(trial, None)
        if run is None:
            return
        folder = trial_folder(trial) if self.should_save_artifact else None
        if folder is not None:
            self._client.log_artifacts(run, folder)
        if self.log_params_on_trial_end:
            for key, value in flat(trial.config or {}).items():
                self._client.log_param(run, key, value)
        self._client.set_terminated(run, "FAILED" if failed else "FINISHED")
