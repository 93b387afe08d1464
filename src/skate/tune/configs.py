"""Configuration of a search: number of trials, order, storage, failure handling."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from skate.air import config as air_config
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
            raise ValueError(f"num_samples must be a number of trials, or -1 for no limit, not {samples!r}")
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
        raise ValueError(f"time_budget_s must be a number of seconds above 0 or a timedelta, not {budget!r}")
    return float(budget)


@dataclass
class CheckpointConfig(air_config.CheckpointConfig):
    __doc__ = air_config.CheckpointConfig.__doc__


@dataclass
class FailureConfig(air_config.FailureConfig):
    __doc__ = air_config.FailureConfig.__doc__


@dataclass
class SyncConfig(air_config.SyncConfig):
    __doc__ = air_config.SyncConfig.__doc__


@dataclass
class RunConfig(air_config.RunConfig):
    __doc__ = air_config.RunConfig.__doc__

    _kinds = (FailureConfig, CheckpointConfig, SyncConfig)


def run_config_of(given: Any) -> air_config.RunConfig:
    """Convert a config to Tune's RunConfig; a config of Train contributes the common settings.

    Raises:
        TypeError: it is not a RunConfig.
    """
    if given is None:
        return RunConfig()
    if isinstance(given, air_config.RunConfig):
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
