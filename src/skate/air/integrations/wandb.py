"""Weights & Biases: metrics, settings and checkpoints of runs on its service."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Sequence
from typing import Any, ClassVar

import skate
from skate.air.flat import flat
from skate.air.integrations.training import run_identity
from skate.air.logger_callback import LoggerCallback
from skate.air.trial import LoggableTrial
from skate.air.trial_folder import trial_folder
from skate.installed import require

_log = logging.getLogger("skate.air")

WANDB_ENV_VAR = "WANDB_API_KEY"
WANDB_PROJECT_ENV_VAR = "WANDB_PROJECT_NAME"
WANDB_GROUP_ENV_VAR = "WANDB_GROUP_NAME"
WANDB_MODE_ENV_VAR = "WANDB_MODE"
#: Variables that name functions as "module.function": one that returns the API key, one that sets the
#: variables of project and group, and one that is called with each new run.
WANDB_SETUP_API_KEY_HOOK = "WANDB_SETUP_API_KEY_HOOK"
WANDB_POPULATE_RUN_LOCATION_HOOK = "WANDB_POPULATE_RUN_LOCATION_HOOK"
WANDB_PROCESS_RUN_INFO_HOOK = "WANDB_PROCESS_RUN_INFO_HOOK"

#: Settings of a run rather than its metrics, by Ray's names.
_FACTS = ("trial_id", "experiment_tag", "node_ip", "experiment_id", "hostname", "pid", "date")
_NEVER = ("done", "should_checkpoint")


def setup_wandb(
    config: dict[str, Any] | None = None,
    api_key: str | None = None,
    api_key_file: str | None = None,
    rank_zero_only: bool = True,
    **kwargs: Any,
) -> Any:
    """Begin a run of Weights & Biases in this training function or trial, and return it to log with.

    Args:
        config: the settings of the run.
        api_key, api_key_file: the login; by default WANDB_API_KEY, or the login stored by `wandb login`.
        rank_zero_only: in Train, other ranks get a disabled run.
        kwargs: arguments of `wandb.init`; they override the defaults: id and name of the trial, name of the run
            as the group.

    Raises:
        ImportError: wandb is not installed (a RuntimeError as well).
        ValueError: there is no API key, or two of them.
    """
    wandb = kwargs.pop("_wandb", None) or require("wandb", "setup_wandb")
    place = run_identity()
    if rank_zero_only and place.rank:
        return wandb.init(mode="disabled")
    _log_in(wandb, api_key, api_key_file)
    if not os.environ.get(WANDB_PROJECT_ENV_VAR) and "project" not in kwargs:
        _hooked(WANDB_POPULATE_RUN_LOCATION_HOOK)
    given: dict[str, Any] = {
        "id": kwargs.pop("trial_id", None) or place.trial_id,
        "name": kwargs.pop("trial_name", None) or place.trial_name,
        "group": os.environ.get(WANDB_GROUP_ENV_VAR) or place.experiment,
        "project": os.environ.get(WANDB_PROJECT_ENV_VAR),
        "resume": "allow",
        "reinit": True,
        "allow_val_change": True,
        "config": _clean(config or {}),
    }
    run = wandb.init(**{**given, **kwargs})
    _hooked(WANDB_PROCESS_RUN_INFO_HOOK, run)
    return run


def _hooked(variable: str, *args: Any) -> Any:
    """Call the function that a variable names; None if it is not set, or if the function fails, which is logged."""
    path = os.environ.get(variable)
    if not path:
        return None
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)(*args)
    except Exception as error:  # the run continues without it
        _log.warning("Error executing %s=%s: %s", variable, path, error, exc_info=error)
        return None


def _log_in(wandb: Any, key: str | None, file: str | None) -> None:
    """Make sure that `wandb.init` finds a key."""
    if os.environ.get(WANDB_MODE_ENV_VAR) in ("offline", "disabled"):
        return
    if file is not None:
        if key is not None:
            raise ValueError("both api_key and api_key_file are given; set only one of them")
        with open(os.path.expanduser(file)) as opened:
            key = opened.readline().strip()
    if key:
        os.environ[WANDB_ENV_VAR] = key
    known = os.environ.get(WANDB_ENV_VAR) or getattr(getattr(wandb, "api", None), "api_key", None)
    if not known:
        known = _hooked(WANDB_SETUP_API_KEY_HOOK)
        if known:
            os.environ[WANDB_ENV_VAR] = known
    if not known:
        raise ValueError(
            f"Weights & Biases needs an API key: set {WANDB_ENV_VAR}, pass api_key= or api_key_file=, run `wandb login`, "
            f"or keep runs on this machine with {WANDB_MODE_ENV_VAR}=offline"
        )


def _clean(value: Any) -> Any:
    """Convert a value for W&B: strings, numbers and lists unchanged, other values as text."""
    if isinstance(value, dict):
        return {str(name): _clean(each) for name, each in value.items() if name != "callbacks"}
    if isinstance(value, list | tuple | set):
        return [_clean(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.tolist() if hasattr(value, "tolist") else repr(value)


class _Recorder:
    """One run of W&B in a separate process: the library keeps state per process, and may wait for its service."""

    def __init__(self, folder: str | None, given: dict[str, Any]) -> None:
        self._wandb = require("wandb", "WandbLoggerCallback")
        if folder is not None:
            os.chdir(folder)
            given = {"dir": folder, **given}
        self._name = given["name"]
        self._run = self._wandb.init(**given)
        _hooked(WANDB_PROCESS_RUN_INFO_HOOK, self._run)

    def log(self, metrics: dict[str, Any], facts: dict[str, Any], step: int) -> None:
        if facts:
            self._run.config.update(facts, allow_val_change=True)
        self._run.log(metrics, step=step)

    def save(self, folder: str) -> None:
        artifact = self._wandb.Artifact(name=f"checkpoint_{self._name}", type="model")
        artifact.add_dir(folder)
        self._run.log_artifact(artifact)

    def finish(self, exit_code: int) -> None:
        self._run.finish(exit_code=exit_code)


class WandbLoggerCallback(LoggerCallback):
    """Logs every trial of Tune, or a run of Train, as a run of Weights & Biases, each from a separate process.

    Args:
        project: the project in W&B; by default WANDB_PROJECT_NAME. One of the two is required.
        group: by default the name of the run or experiment.
        api_key_file, api_key: the login.
        excludes: metrics and settings to leave out.
        log_config: True to log the settings with each result.
        upload_checkpoints: True to upload checkpoints on a local disk as artifacts.
        save_checkpoints: the old name of `upload_checkpoints`.
        upload_timeout: the time limit in seconds for uploads after the end.
        video_kwargs, image_kwargs: arguments of `wandb.Video`, for arrays of 5 axes, and of `wandb.Image`, for 3 or 4
            axes.
        kwargs: arguments of `wandb.init`.

    Raises:
        ImportError: wandb is not installed.
        ValueError: no project or no API key, when the run begins.
    """

    #: Entries logged as settings of a run, not as metrics.
    AUTO_CONFIG_KEYS: ClassVar[list[str]] = list(_FACTS)

    def __init__(
        self,
        project: str | None = None,
        group: str | None = None,
        api_key_file: str | None = None,
        api_key: str | None = None,
        excludes: list[str] | None = None,
        log_config: bool = False,
        upload_checkpoints: bool = False,
        save_checkpoints: bool = False,
        upload_timeout: int = 1800,
        video_kwargs: dict[str, Any] | None = None,
        image_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._wandb = require("wandb", "WandbLoggerCallback")
        self.project = project
        self.group = group
        self.api_key_file = api_key_file
        self.api_key = api_key
        self.excludes = list(excludes or ())
        self.log_config = log_config
        self.upload_checkpoints = upload_checkpoints or save_checkpoints
        self.upload_timeout = upload_timeout
        self.video_kwargs = video_kwargs or {}
        self.image_kwargs = image_kwargs or {}
        self.kwargs = kwargs
        self._recorders: dict[Any, Any] = {}
        self._calls: dict[Any, list[Any]] = {}

    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Log in, and determine the project."""
        _log_in(self._wandb, self.api_key, self.api_key_file)
        self.project = self.project or os.environ.get(WANDB_PROJECT_ENV_VAR)
        if not self.project:
            _hooked(WANDB_POPULATE_RUN_LOCATION_HOOK)
            self.project = os.environ.get(WANDB_PROJECT_ENV_VAR)
        if not self.project:
            raise ValueError(f"the W&B project is not set: pass project=, or set {WANDB_PROJECT_ENV_VAR}")

    def log_trial_start(self, trial: LoggableTrial) -> None:
        """Begin a run in a separate process; a restarted trial continues its run."""
        if trial in self._recorders:
            return
        settings = {
            name: value for name, value in _clean(trial.config or {}).items() if name not in self.excludes
        }
        given: dict[str, Any] = {
            "id": trial.trial_id,
            "name": str(trial),
            "group": self.group
            or os.environ.get(WANDB_GROUP_ENV_VAR)
            or getattr(trial, "experiment_dir_name", None),
            "project": self.project,
            "resume": "allow",
            "config": settings,
            **self.kwargs,
        }
        names = (WANDB_ENV_VAR, WANDB_MODE_ENV_VAR, WANDB_PROCESS_RUN_INFO_HOOK)
        kept = {name: os.environ[name] for name in names if name in os.environ}
        recorder = skate.remote(_Recorder).options(num_cpus=0, runtime_env={"env_vars": kept})
        self._recorders[trial] = recorder.remote(trial_folder(trial), given)
        self._calls[trial] = []

    def log_trial_result(self, iteration: int, trial: LoggableTrial, result: dict[str, Any]) -> None:
        """Log the numbers of a result, and its arrays as images and videos."""
        if trial not in self._recorders:
            self.log_trial_start(trial)
        left_out = (*_NEVER, *self.excludes, *(() if self.log_config else ("config",)))
        metrics, facts = {}, {}
        for name, value in flat(result).items():
            if _among(name, left_out):
                continue
            if _among(name, (*self.AUTO_CONFIG_KEYS, "config")):
                facts[name] = _clean(value)
                continue
            found = self._loggable(value)
            if found is not None:
                metrics[name] = found
        step = int(result.get("training_iteration", iteration))
        self._call(trial, self._recorders[trial].log.remote(metrics, facts, step))

    def _loggable(self, value: Any) -> Any:
        if isinstance(value, bool | int | float):
            return value
        shape = getattr(value, "shape", None)
        if shape is None:
            media = getattr(self._wandb, "Image", ()), getattr(self._wandb, "Video", ())
            return (
                value if any(isinstance(kind, type) and isinstance(value, kind) for kind in media) else None
            )
        if not len(shape) or value.size == 1:
            return value.item()
        if len(shape) == 3:
            return self._wandb.Image(value, **self.image_kwargs)
        if len(shape) == 4:
            return [self._wandb.Image(each, **self.image_kwargs) for each in value]
        if len(shape) == 5:
            return [self._wandb.Video(each, **self.video_kwargs) for each in value]
        return None

    def log_trial_save(self, trial: LoggableTrial) -> None:
        """Upload a checkpoint, if enabled."""
        checkpoint = getattr(trial, "checkpoint", None)
        if self.upload_checkpoints and checkpoint is not None and checkpoint._local:
            self._call(trial, self._recorders[trial].save.remote(checkpoint.path))

    def _call(self, trial: LoggableTrial, ref: Any) -> None:
        """Record a call without waiting for it; raise the error of an earlier one that failed."""
        calls = self._calls[trial]
        ended, calls[:] = skate.wait([*calls, ref], num_returns=len(calls) + 1, timeout=0)
        skate.get(ended)

    def log_trial_end(self, trial: LoggableTrial, failed: bool = False) -> None:
        """End the run; the end of the experiment waits for remaining uploads."""
        if trial in self._recorders:
            self._calls[trial].append(self._recorders[trial].finish.remote(1 if failed else 0))

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Wait for the uploads, and end the processes.

        Raises:
            TimeoutError: they take longer than `upload_timeout`.
        """
        calls: Sequence[Any] = [ref for each in self._calls.values() for ref in each]
        recorders, self._recorders, self._calls = self._recorders, {}, {}
        try:
            ended, late = skate.wait(list(calls), num_returns=len(calls), timeout=self.upload_timeout)
            skate.get(ended)
        finally:
            for recorder in recorders.values():
                skate.kill(recorder)
        if late:
            raise TimeoutError(
                f"W&B has not received all of {len(recorders)} runs after upload_timeout={self.upload_timeout} s"
            )


def _among(name: str, names: Sequence[str]) -> bool:
    return any(name == each or name.startswith(f"{each}/") for each in names)
