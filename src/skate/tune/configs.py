"""Configuration of a search: number of trials, order, storage, failure handling."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from skate.train import configs as train_configs

_DEPRECATED = "DEPRECATED"


def checked_mode(mode: Any, several: bool = False) -> Any:
    """Check a mode and return it.

    Raises:
        ValueError: it is neither "min" nor "max".
    """
    if several and isinstance(mode, (list, tuple)):
        return [checked_mode(each) for each in mode]
    if mode not in (None, "min", "max"):
        hint = {"maximum": "max", "maximize": "max", "minimum": "min", "minimize": "min"}.get(
            str(mode).lower()
        )
        raise ValueError(
            f"The `mode` parameter must be one of ['min', 'max'], not {mode!r}"
            + (f'; did you mean "{hint}"?' if hint else "")
        )
    return mode


@dataclass
class TuneConfig:
    """How a search is run.

    Args:
        mode: "min" or "max": whether small or large values of the metric are better.
        metric: the reported metric used by searcher, scheduler and results.
        search_alg: the source of configurations; random draws and grids by default.
        scheduler: decides which trials continue; all run to their end by default.
        num_samples: the number of draws from the space (each runs all grid points); -1 for no limit.
        max_concurrent_trials: the most trials at a time; None or 0 for as many as resources allow.
        time_budget_s: seconds, or a timedelta, after which the search ends.
        reuse_actors: run several trials, one after the other, in the same process.
        trial_name_creator, trial_dirname_creator: functions of a trial that return its name and its folder name.

    Raises:
        ValueError: a value is out of range, or two contradict each other.
    """

    mode: Any = None
    metric: Any = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: int | float | datetime.timedelta | None = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Any], str] | None = None
    trial_dirname_creator: Callable[[Any], str] | None = None
    chdir_to_trial_dir: Any = _DEPRECATED

    def __post_init__(self) -> None:
        checked_mode(self.mode, several=True)
        if isinstance(self.metric, str) and not self.metric:
            raise ValueError("metric must be the name of a reported metric, got ''")
        samples = self.num_samples
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < -1:
            raise ValueError(f"num_samples is a number of trials, or -1 for without end, not {samples!r}")
        most = self.max_concurrent_trials
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
            raise ValueError(
                f"max_concurrent_trials must be a number of trials, or None for no limit, got {most!r}"
            )
        seconds_of(self.time_budget_s)


def seconds_of(budget: Any) -> float | None:
    """Return a time budget in seconds.

    Raises:
        ValueError: the budget is not a duration above 0.
    """
    if budget is None:
        return None
    if isinstance(budget, datetime.timedelta):
        budget = budget.total_seconds()
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or budget <= 0:
        raise ValueError(f"time_budget_s is a number of seconds above 0 or a timedelta, not {budget!r}")
    return float(budget)


@dataclass
class CheckpointConfig(train_configs.CheckpointConfig):
    """Which checkpoints of a trial are kept, and how often a class trainable saves one.

    Args:
        num_to_keep: how many; None keeps all. The last one stays in any case.
        checkpoint_score_attribute: the reported metric to rank by; None ranks by age.
        checkpoint_score_order: "max" or "min": which end of the metric is best.
        checkpoint_frequency: iterations of a class trainable between checkpoints; 0 for none. Functions report their own.
        checkpoint_at_end: whether a class trainable saves one when its trial ends.
    """

    checkpoint_frequency: Any = 0
    checkpoint_at_end: Any = None
    _checkpoint_keep_all_ranks: Any = _DEPRECATED
    _checkpoint_upload_from_workers: Any = _DEPRECATED

    def __post_init__(self) -> None:
        if self.checkpoint_frequency == _DEPRECATED:
            self.checkpoint_frequency = 0
        if self.checkpoint_at_end == _DEPRECATED:
            self.checkpoint_at_end = None
        if not isinstance(self.checkpoint_frequency, int) or self.checkpoint_frequency < 0:
            raise ValueError(f"checkpoint_frequency must be >=0, got {self.checkpoint_frequency!r}")
        if self.checkpoint_score_order not in ("max", "min"):
            raise ValueError(
                f'checkpoint_score_order must be either "max" or "min", got {self.checkpoint_score_order!r}'
            )
        plain = (self.num_to_keep, self.checkpoint_score_attribute, self.checkpoint_score_order)
        train_configs.CheckpointConfig(*plain)


@dataclass
class FailureConfig:
    """How often a trial may fail and start again.

    Args:
        max_failures: failures of one trial that are followed by another start, from its last checkpoint; -1 for any number.
        fail_fast: True ends the whole search at the first trial that fails; "raise" also raises its error.
    """

    max_failures: int = 0
    fail_fast: bool | str = False

    def __post_init__(self) -> None:
        if (
            isinstance(self.max_failures, bool)
            or not isinstance(self.max_failures, int)
            or self.max_failures < -1
        ):
            raise ValueError(
                f"max_failures must be a number of failures, or -1 for no limit, got {self.max_failures!r}"
            )
        if not (isinstance(self.fail_fast, bool) or self.fail_fast == "raise"):
            raise ValueError(f"fail_fast must be one of {{bool, 'raise'}}. Got {self.fail_fast!r}")
        if self.fail_fast and self.max_failures:
            raise ValueError(
                f"max_failures must be 0 if fail_fast={self.fail_fast}. That ends the search at the first failure, "
                f"max_failures={self.max_failures} restarts a failed trial; leave one of them out"
            )


@dataclass
class SyncConfig:
    """Accepted for compatibility: trials write to the storage themselves, so there is nothing to synchronize."""

    sync_period: int = 300
    sync_timeout: int = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True


@dataclass
class RunConfig:
    """The name and storage of a search, and its settings for failures, checkpoints and output.

    Args:
        name: the name of the search, a folder in `storage_path`; generated if omitted.
        storage_path: a folder or a URL such as "s3://bucket/folder"; by default ~/ray_results.
        storage_filesystem: a pyarrow filesystem for `storage_path`.
        failure_config, checkpoint_config: see FailureConfig and CheckpointConfig.
        sync_config: accepted for compatibility.
        verbose: 0 for no output, 1 for the table of trials, 2 for results as well; by default 1 in a terminal
            and in a notebook, else 0.
        stop: when a trial ends: {"training_iteration": 10}, a function of trial id and result, or a `Stopper`.
        callbacks: `ray.tune.Callback`s.
        progress_reporter: shows the progress of the search.
        log_to_file: True, or file names, to write the output of trials to files in their folders.
    """

    name: str | None = None
    storage_path: str | None = None
    storage_filesystem: Any = None
    failure_config: FailureConfig | None = None
    checkpoint_config: Any = None
    sync_config: Any = None
    verbose: Any = None
    stop: Any = None
    callbacks: list[Any] | None = None
    progress_reporter: Any = None
    log_to_file: bool | str | tuple[str, str] = False
    local_dir: Any = None

    def __post_init__(self) -> None:
        if self.local_dir is not None:
            raise DeprecationWarning(
                "The `RunConfig(local_dir)` argument is deprecated and has been removed. You should "
                "set the `RunConfig(storage_path)` instead"
            )
        self.failure_config = self.failure_config or FailureConfig()
        self.checkpoint_config = _checkpoint_config(self.checkpoint_config)
        if self.storage_path is not None:
            self.storage_path = str(self.storage_path)
        if self.name is not None and not all(part.strip(".") for part in self.name.split("/")):
            raise ValueError(f"a search's name is the name of a folder, not {self.name!r}")
        log = self.log_to_file
        pair = isinstance(log, (tuple, list)) and len(log) == 2 and all(isinstance(each, str) for each in log)
        if not (isinstance(log, (bool, str)) or pair):
            raise ValueError(
                f"log_to_file must be True, a file name, or a pair of them for output and errors, got {log!r}"
            )


def _checkpoint_config(given: Any) -> CheckpointConfig:
    if given is None:
        return CheckpointConfig()
    if isinstance(given, Mapping):
        return CheckpointConfig(**given)
    if isinstance(given, CheckpointConfig):
        return given
    if isinstance(given, train_configs.CheckpointConfig):
        return CheckpointConfig(
            given.num_to_keep, given.checkpoint_score_attribute, given.checkpoint_score_order
        )
    raise ValueError(f"checkpoint_config must be a ray.tune.CheckpointConfig, got {type(given).__name__}")


def run_config_of(given: Any) -> RunConfig:
    """Convert a config to Tune's RunConfig; from one of Train, the common settings are taken.

    Raises:
        TypeError: it is neither.
    """
    if given is None:
        return RunConfig()
    if isinstance(given, RunConfig):
        return given
    if isinstance(given, train_configs.RunConfig):
        failures = given.failure_config.max_failures if given.failure_config else 0
        return RunConfig(
            name=given.name,
            storage_path=given.storage_path,
            storage_filesystem=given.storage_filesystem,
            failure_config=FailureConfig(failures),
            checkpoint_config=given.checkpoint_config,
        )
    raise TypeError(f"run_config must be a ray.tune.RunConfig, got {type(given).__name__}: {given!r:.80}")


class ResumeType(Enum):
    """How a restored search treats a trial: resume it, restart it, or skip it."""

    RESUME = "resume"
    RESTART = "restart"
    SKIP = "skip"


@dataclass
class ResumeConfig:
    """How a restored search treats finished, unfinished and failed trials."""

    finished: Any = ResumeType.SKIP
    unfinished: Any = ResumeType.RESUME
    errored: Any = ResumeType.SKIP
    ResumeType: Any = field(default=ResumeType, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("finished", "unfinished", "errored"):
            value = getattr(self, name)
            try:
                setattr(self, name, ResumeType(value))
            except ValueError:
                raise ValueError(f'{name} must be "resume", "restart" or "skip", got {value!r}') from None


ResumeConfig.ResumeType = ResumeType
