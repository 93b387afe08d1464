"""`tune.run` and `tune.run_experiments`: a search as one call."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from skate.tune.analysis import ExperimentAnalysis
from skate.tune.configs import (
    CheckpointConfig,
    FailureConfig,
    ResumeConfig,
    ResumeType,
    RunConfig,
    TuneConfig,
)
from skate.tune.error import TuneError
from skate.tune.execution.launch import Launch, new_name
from skate.tune.experiment.experiment import Experiment, experiments_of
from skate.tune.experiment.trial import Trial
from skate.tune.journal.journal import newest
from skate.tune.trainable.bound_parameters import name_of
from skate.tune.trainable.trainer import is_trainer, trainable_of_trainer


def run(
    run_or_experiment: Any,
    *,
    name: str | None = None,
    metric: str | None = None,
    mode: str | None = None,
    stop: Any = None,
    time_budget_s: Any = None,
    config: dict[str, Any] | None = None,
    resources_per_trial: Any = None,
    num_samples: int = 1,
    storage_path: str | None = None,
    storage_filesystem: Any = None,
    search_alg: Any = None,
    scheduler: Any = None,
    checkpoint_config: Any = None,
    verbose: Any = None,
    progress_reporter: Any = None,
    log_to_file: Any = False,
    trial_name_creator: Any = None,
    trial_dirname_creator: Any = None,
    sync_config: Any = None,
    export_formats: Any = None,
    max_failures: int = 0,
    fail_fast: Any = False,
    restore: str | None = None,
    resume: Any = None,
    resume_config: ResumeConfig | None = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    callbacks: Any = None,
    max_concurrent_trials: int | None = None,
    keep_checkpoints_num: int | None = None,
    checkpoint_score_attr: str | None = None,
    checkpoint_freq: int = 0,
    checkpoint_at_end: bool = False,
    chdir_to_trial_dir: Any = "DEPRECATED",
    local_dir: str | None = None,
    _remote: Any = None,
    _remote_string_queue: Any = None,
    _entrypoint: Any = None,
) -> ExperimentAnalysis:
    """Run a search; the arguments are those of `Tuner`, `TuneConfig` and `RunConfig`, and these:

    Args:
        run_or_experiment: a trainable, or an `Experiment`.
        config: the space.
        resources_per_trial: such as {"cpu": 2, "gpu": 0.5}.
        keep_checkpoints_num, checkpoint_score_attr, checkpoint_freq, checkpoint_at_end: deprecated; see
            `CheckpointConfig`. A score attribute to minimize begins with "min-".
        resume: True or "AUTO" to resume the search of that name, if there is one.
        restore: a checkpoint that all trials start from.
        raise_on_failed_trial: True to raise if a trial has failed.

    Raises:
        TuneError: trials have failed; also the errors of `Tuner.fit`.
    """
    return _run(dict(locals()))


def _run(given: dict[str, Any]) -> ExperimentAnalysis:
    if given["local_dir"] is not None:
        raise DeprecationWarning(
            "The `local_dir` argument is deprecated and has been removed. You should set the `storage_path` instead"
        )
    given["checkpoint_config"] = _checkpoint_config(given)
    of_tune = (
        "metric",
        "mode",
        "search_alg",
        "scheduler",
        "num_samples",
        "max_concurrent_trials",
        "time_budget_s",
    )
    more = ("reuse_actors", "trial_name_creator", "trial_dirname_creator")
    tune_config = TuneConfig(**{name: given[name] for name in (*of_tune, *more)})
    of_run = (
        "name",
        "storage_path",
        "storage_filesystem",
        "checkpoint_config",
        "verbose",
        "stop",
        "callbacks",
    )
    run_config = RunConfig(
        failure_config=FailureConfig(given["max_failures"], given["fail_fast"]),
        **{name: given[name] for name in (*of_run, "progress_reporter", "log_to_file")},
    )
    what = given["run_or_experiment"]
    if isinstance(what, (Experiment, list, tuple, dict)):
        found = experiments_of(what)
    else:
        found = [
            _experiment(
                what, given["config"], given["resources_per_trial"], given["restore"], tune_config, run_config
            )
        ]
    analyses = [
        _one(each, tune_config, run_config, given["resume"], given["resume_config"]) for each in found
    ]
    analysis = analyses[0]
    for other in analyses[1:]:
        analysis.trials = [*analysis.trials, *other.trials]
    _complain(analysis.trials, given["raise_on_failed_trial"])
    return analysis


def _checkpoint_config(given: dict[str, Any]) -> Any:
    """Return the checkpoint config, including values of deprecated arguments."""
    number, score = given["keep_checkpoints_num"], given["checkpoint_score_attr"]
    old: dict[str, Any] = {}
    if number is not None:
        old["num_to_keep"] = number
        _warn_of("keep_checkpoints_num", "num_to_keep")
    if score is not None:
        old["checkpoint_score_attribute"] = str(score).removeprefix("min-")
        old["checkpoint_score_order"] = "min" if str(score).startswith("min-") else "max"
        _warn_of("checkpoint_score_attr", "checkpoint_score_attribute")
    if given["checkpoint_freq"]:
        old["checkpoint_frequency"] = given["checkpoint_freq"]
        _warn_of("checkpoint_freq", "checkpoint_frequency")
    if given["checkpoint_at_end"]:
        old["checkpoint_at_end"] = True
        _warn_of("checkpoint_at_end", "checkpoint_at_end")
    config = given["checkpoint_config"]
    if not old:
        return config
    config = config if config is not None else CheckpointConfig()
    return replace(config, **old)


def _warn_of(name: str, field: str) -> None:
    warnings.warn(
        f"{name} is deprecated and will be removed. use checkpoint_config.{field} instead.",
        DeprecationWarning,
        stacklevel=5,
    )


def _experiment(
    trainable: Any,
    config: Any,
    resources: Any,
    restore: str | None,
    tune_config: TuneConfig,
    run_config: RunConfig,
) -> Experiment:
    if is_trainer(trainable):
        trainable = trainable_of_trainer(trainable)
    label = trainable if isinstance(trainable, str) else name_of(trainable)
    assert run_config.failure_config is not None
    return Experiment(
        run_config.name or new_name(label),
        trainable,
        stop=run_config.stop,
        time_budget_s=tune_config.time_budget_s,
        config=config,
        resources_per_trial=resources,
        num_samples=tune_config.num_samples,
        storage_path=run_config.storage_path,
        storage_filesystem=run_config.storage_filesystem,
        checkpoint_config=run_config.checkpoint_config,
        log_to_file=run_config.log_to_file,
        max_failures=run_config.failure_config.max_failures,
        restore=restore,
    )


def _one(
    experiment: Experiment,
    tune_config: TuneConfig,
    run_config: RunConfig,
    resume: Any,
    resume_config: ResumeConfig | None,
) -> ExperimentAnalysis:
    found = None
    if resume or resume_config is not None:
        wanted = resume_config or _resume_of(resume)
        if newest(experiment.folder) > 0:
            found = wanted
    return Launch(experiment, tune_config, run_config, found).run()


def _resume_of(resume: Any) -> ResumeConfig:
    """Parse `resume=`: True or "AUTO", which "+ERRORED", "+RESTART_ERRORED", "+ERRORED_ONLY" and the like may follow."""
    errored, unfinished = ResumeType.SKIP, ResumeType.RESUME
    words = str(resume).upper().replace("-", "_").split("+")
    if words[0] in ("LOCAL", "REMOTE", "PROMPT", "ERRORED_ONLY"):
        raise DeprecationWarning(
            f"{resume!r} is deprecated as resume=. Please pass in one of (True, False, 'AUTO'), or such as 'AUTO+ERRORED_ONLY'"
        )
    known = {"TRUE", "AUTO", "ERRORED", "RESTART_ERRORED", "ERRORED_ONLY", "RESTART_ERRORED_ONLY"}
    unknown = [word for word in words if word not in known]
    if unknown:
        raise ValueError(
            f'Invalid resume setting: {unknown[0]!r}. resume must be True, or "AUTO", which may be followed by "+ERRORED", '
            f'"+RESTART_ERRORED", "+ERRORED_ONLY" or "+RESTART_ERRORED_ONLY", got {resume!r}'
        )
    for word in words:
        if word.endswith("_ONLY"):
            unfinished = ResumeType.SKIP
        if "RESTART_ERRORED" in word:
            errored = ResumeType.RESTART
        elif "ERRORED" in word:
            errored = ResumeType.RESUME
    return ResumeConfig(unfinished=unfinished, errored=errored)


def _complain(trials: list[Trial], raising: bool) -> None:
    failed = [trial for trial in trials if trial.status == Trial.ERROR]
    if failed and raising:
        first = failed[0]
        text = (first.error_text or "").strip().splitlines()
        raise TuneError(
            f"Trials did not complete: {len(failed)} of {len(trials)} have failed: "
            f"{', '.join(map(str, failed[:10]))}. The first: "
            f"{text[-1] if text else 'unknown'}; see {first.error_file}"
        ) from first.pickled_error


def run_experiments(
    experiments: Any,
    scheduler: Any = None,
    verbose: Any = None,
    progress_reporter: Any = None,
    resume: Any = None,
    resume_config: ResumeConfig | None = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    concurrent: bool = True,
    callbacks: Any = None,
    _remote: Any = None,
) -> list[Trial]:
    """Run experiments one after another, the trials of each concurrently.

    Args:
        experiments: an `Experiment`, a list of them, or a dict of names to {"run": ..., "config": {...}}.
        concurrent: accepted for compatibility.

    Returns:
        All trials.

    Raises:
        TuneError: trials have failed; also the errors of `tune.run`.
    """
    found: list[Trial] = []
    for each in experiments_of(experiments):
        tune_config = TuneConfig(scheduler=scheduler, num_samples=each.num_samples, reuse_actors=reuse_actors)
        run_config = RunConfig(
            name=each.name, verbose=verbose, callbacks=callbacks, progress_reporter=progress_reporter
        )
        found += _one(each, tune_config, run_config, resume, resume_config).trials
    _complain(found, raise_on_failed_trial)
    return found
