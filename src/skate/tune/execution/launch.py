"""Creates the machine and loop of a search, new or restored, from the user's settings, and returns its results."""

from __future__ import annotations

import base64
import inspect
import logging
import os
import pickle
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import skate
from skate.air.config import RunConfig
from skate.air.loggers.lines import JsonLoggerCallback
from skate.air.loggers.table import CSVLoggerCallback
from skate.air.loggers.tensorboard import TBXLoggerCallback
from skate.train.run_session import ensure_session
from skate.tune.analysis import ExperimentAnalysis
from skate.tune.callback import callbacks_of_environment, checked_callbacks, hooks_of, set_up
from skate.tune.configs import ResumeConfig, ResumeType, TuneConfig, seconds_of
from skate.tune.execution.controller import Controller, Plan
from skate.tune.execution.log_folders import LogFolders
from skate.tune.execution.machine import Machine
from skate.tune.execution.settings import Settings
from skate.tune.experiment.experiment import Experiment
from skate.tune.experiment.trial import Trial
from skate.tune.journal.codec import trial_state
from skate.tune.journal.replay import Replay
from skate.tune.metrics import flat
from skate.tune.reporter.selection import reporter_for
from skate.tune.schedulers.factory import create_scheduler
from skate.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler
from skate.tune.search.basic_variant import BasicVariantGenerator
from skate.tune.search.concurrency_limiter import ConcurrencyLimiter
from skate.tune.search.factory import create_searcher
from skate.tune.search.search_algorithm import SearchAlgorithm
from skate.tune.search.search_generator import SearchGenerator
from skate.tune.search.searcher import Searcher
from skate.tune.space import variants
from skate.tune.space.replacement import with_objects_of
from skate.util.announcements import Announcement, announce
from skate.util.debug import preload

_log = logging.getLogger("skate.tune")
#: A module that trials load; the workers of the session are forked with it.
_PRELOAD = "skate.tune.execution.actor"
#: If the node is in another process, this many trials load it once in a separate process from which they are forked.
_MANY = 10


def new_name(trainable: str) -> str:
    """Generate a name for an unnamed search; `TUNE_DISABLE_DATED_SUBDIR=1` omits the part that makes it unique."""
    if os.environ.get("TUNE_DISABLE_DATED_SUBDIR") == "1":
        return trainable
    return f"{trainable}_{time.strftime('%Y-%m-%d_%H-%M-%S')}_{uuid.uuid4().hex[:5]}"


@dataclass
class Launch:
    """A search that is ready to run.

    Args:
        experiment: the trainable and the space.
        tune_config, run_config: the user's settings.
        resume: how trials of an earlier session are treated; None for a new search.
        old_space: the space of the earlier session, if a new one was given.
    """

    experiment: Experiment
    tune_config: TuneConfig
    run_config: RunConfig
    resume: ResumeConfig | None = None
    old_space: dict[str, Any] | None = None
    interrupted: bool = field(default=False, init=False)

    def run(self) -> ExperimentAnalysis:
        """Run the search to its end.

        Raises:
            TuneError, ValueError, TypeError: the settings are invalid; the message says which.
        """
        config = self.tune_config
        search = search_of(config, self.experiment)
        scheduler = _scheduler_of(config)
        callbacks = _callbacks_of(self.run_config)
        loaded = not skate.is_initialized() or preload(_PRELOAD)
        ensure_session([_PRELOAD])
        self.experiment.folder.create()
        if not self.experiment.folder.local:
            callbacks = _with_log_folders(callbacks, self.experiment.folder.filesystem)
        settings = self._settings(callbacks)
        stopper: Any = self.experiment.stopper
        machine = Machine(search, scheduler, stopper, settings)
        start = None
        if self.resume is not None:
            start = self._restore(machine)
        elif isinstance(search, BasicVariantGenerator):
            start = search.begin_state()
        _set_up(callbacks, self.experiment, search)
        budget = seconds_of(config.time_budget_s)
        plan = Plan(
            folder=self.experiment.folder,
            callbacks=callbacks,
            reporter=reporter_for(self.run_config, machine, config),
            reuse_actors=config.reuse_actors,
            preload=() if loaded or search.total_samples < _MANY else [_PRELOAD],
            deadline=None if budget is None else time.monotonic() + budget,
            log_to_file=self.run_config.log_to_file or self.experiment.log_to_file,
        )
        controller = Controller(machine, plan, lambda: _snapshot(machine, start))
        announcement = self._announce(machine)
        try:
            controller.execute()
        finally:
            announcement.end(interrupted=controller.interrupted, why=machine.ended)
        self.interrupted = controller.interrupted
        if machine.error is not None:
            raise machine.error
        metric = config.metric if isinstance(config.metric, str) else None
        mode = config.mode if isinstance(config.mode, str) else None
        return ExperimentAnalysis(
            self.experiment.path,
            storage_filesystem=self.experiment.folder.filesystem,
            trials=machine.trials,
            default_metric=metric or scheduler.metric,
            default_mode=mode or scheduler._mode,
        )

    def _announce(self, machine: Machine) -> Announcement:
        """Say where the journal of the search is, for those who look at the session."""
        folder, config = self.experiment.folder, self.tune_config
        facts = {
            "search": folder.name,
            "path": folder.path,
            "folder": folder.path if folder.local else "",
            "metric": config.metric if isinstance(config.metric, str) else None,
            "mode": config.mode if isinstance(config.mode, str) else None,
            "scheduler": type(machine.scheduler_alg).__name__,
            "searcher": type(getattr(machine.search_alg, "searcher", machine.search_alg)).__name__,
            "samples": machine.search_alg.total_samples,
        }
        return announce("tune", folder.name, facts, remember=True)

    def _settings(self, callbacks: Sequence[Any]) -> Settings:
        config = self.tune_config
        failure = self.run_config.failure_config
        assert failure is not None
        is_class = inspect.isclass(self.experiment.trainable)
        return Settings(
            metric=config.metric,
            mode=config.mode,
            fail_fast=failure.fail_fast,
            restore_retries=int(os.environ.get("TUNE_RESTORE_RETRY_NUM", "0")),
            max_concurrent=_most_at_a_time(config),
            stamp=time.strftime("%Y-%m-%d_%H-%M-%S"),
            strict_metrics=os.environ.get("TUNE_DISABLE_STRICT_METRIC_CHECKING") != "1",
            name_creator=config.trial_name_creator or self.experiment.trial_name_creator,
            dirname_creator=config.trial_dirname_creator or self.experiment.trial_dirname_creator,
            hooks=hooks_of(callbacks),
            can_save=lambda trial: is_class,
        )

    # -- an earlier session

    def _restore(self, machine: Machine) -> Any:
        """Restore searcher, scheduler and trials from the journal; return the random state of the first draw."""
        search, scheduler = machine.search_alg, machine.scheduler_alg
        numbers: dict[str, int] = {}

        def witness(kind: str, trial: Trial, entry: dict[str, Any]) -> None:
            if kind == "trial":
                numbers[trial.trial_id] = entry["number"]
                search.replay(trial.trial_id, entry["number"])
                if scheduler.replays:
                    scheduler.on_trial_add(machine, trial)
            elif kind == "result":
                flat_result = _flat(trial)
                if scheduler.replays:
                    scheduler.on_trial_result(machine, trial, flat_result)
                if not entry.get("f"):
                    search.on_trial_result(trial.trial_id, flat_result)
            elif kind == "end":
                failed = trial.status == Trial.ERROR
                search.on_trial_complete(
                    trial.trial_id, result=None if failed else _flat(trial), error=failed
                )
                if scheduler.replays and not failed:
                    scheduler.on_trial_complete(machine, trial, _flat(trial))

        replay = Replay(self.experiment.folder, witness)
        start = replay.state.get("start")
        if isinstance(search, BasicVariantGenerator):
            search.set_begin_state(start)
        _set_state(search, scheduler, replay.state)
        replay.run()
        assert self.resume is not None
        for trial in replay.trials:
            trial.experiment = self.experiment
            if self.old_space is not None:
                trial.config = with_objects_of(trial.config, self.old_space, self.experiment.config)
            _resumed(trial, self.resume)
            machine.adopt(trial, known=scheduler.replays)
        return start


def _flat(trial: Trial) -> dict[str, Any]:
    return flat(trial.last_result)


def _resumed(trial: Trial, resume: ResumeConfig) -> None:
    """Resume, restart or skip a trial of an earlier session."""
    if trial.status == Trial.TERMINATED:
        kind = resume.finished
    elif trial.status == Trial.ERROR:
        kind = resume.errored
    else:
        kind = resume.unfinished
    folder = trial.folder
    if kind is ResumeType.SKIP:
        if not trial.is_finished():
            trial.status = Trial.TERMINATED
        return
    folder.clear_unfinished()
    if kind is ResumeType.RESTART:
        for each in trial.kept:
            folder.delete(each.name)
        fresh = Trial(trial.trainable_name, trial_id=trial.trial_id)
        for name in (
            "kept",
            "last_result",
            "histories",
            "results",
            "num_failures",
            "error_text",
            "next_checkpoint",
            "source",
        ):
            setattr(trial, name, getattr(fresh, name))
    trial.kept = [each for each in trial.kept if folder.is_complete(each.name)]
    trial.status = Trial.PENDING
    trial.num_failures = 0


def _snapshot(machine: Machine, start: Any) -> tuple[dict[str, Any], int]:
    trials = [trial_state(trial) for trial in machine.trials]
    state: dict[str, Any] = {"trials": trials, "start": start}
    search: Any = machine.search_alg
    if hasattr(search, "get_state"):
        state["search"] = search.get_state()
    searcher = getattr(search, "searcher", None)
    if searcher is not None:
        state["searcher"] = _saved(searcher)
    if machine.scheduler_alg.replays:
        state["scheduler"] = _saved(machine.scheduler_alg)
    return state, len(trials) + sum(len(trial.kept) for trial in machine.trials)


def _saved(what: Any) -> str | None:
    """Return the state that a searcher or a scheduler saves; None if it cannot."""
    handle, path = tempfile.mkstemp(prefix="tune-state-")
    os.close(handle)
    try:
        what.save(path)
        with open(path, "rb") as file:
            return base64.b64encode(file.read()).decode()
    except (NotImplementedError, TypeError, AttributeError, pickle.PicklingError):
        return None
    finally:
        os.unlink(path)


def _set_state(search: Any, scheduler: TrialScheduler, state: dict[str, Any]) -> None:
    searcher = getattr(search, "searcher", None)
    for what, saved in ((searcher, state.get("searcher")), (scheduler, state.get("scheduler"))):
        if what is None or saved is None:
            continue
        handle, path = tempfile.mkstemp(prefix="tune-state-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(base64.b64decode(saved))
            what.restore(path)
        finally:
            os.unlink(path)
    if state.get("search") is not None and hasattr(search, "set_state"):
        search.set_state(state["search"])


# -- conversion of the user's settings


def search_of(config: TuneConfig, experiment: Experiment) -> SearchAlgorithm:
    """Build the search algorithm for a config, with its metric, mode and space.

    Raises:
        ValueError: the space was given twice, has grids that the searcher does not support, or two limits
            contradict each other.
        TypeError: `search_alg` is not a searcher.
    """
    given = config.search_alg
    most = config.max_concurrent_trials or 0
    if isinstance(given, str):
        given = create_searcher(given)
    if given is None:
        given = BasicVariantGenerator()
    if isinstance(given, BasicVariantGenerator):
        if most and given.max_concurrent and given.max_concurrent != most:
            _log.warning(
                "max_concurrent_trials=%s will be ignored: the search_alg is a BasicVariantGenerator(max_concurrent=%s)",
                most,
                given.max_concurrent,
            )
    elif isinstance(given, Searcher):
        given = _limited(given, most)
    elif not isinstance(given, SearchAlgorithm):
        raise TypeError(
            f"search_alg must be a Searcher, a SearchAlgorithm, or the name of one, got {type(given).__name__}: {given!r:.80}"
        )
    search: SearchAlgorithm = given
    _pass_properties(search, config, experiment)
    search.add_configurations(experiment)
    return search


def _most_at_a_time(config: TuneConfig) -> int:
    """Return the number of trials that may run at the same time; 0 for no limit."""
    own: int = config.search_alg.max_concurrent if isinstance(config.search_alg, BasicVariantGenerator) else 0
    return own or config.max_concurrent_trials or 0


def _limited(given: Searcher, most: int) -> SearchAlgorithm:
    if isinstance(given, ConcurrencyLimiter):
        if most and most != given.max_concurrent:
            raise ValueError(
                f"You have specified `max_concurrent_trials={most}`, but the `search_alg` is already a `ConcurrencyLimiter` "
                f"with max_concurrent={given.max_concurrent}; set only one of them"
            )
        return SearchGenerator(given)
    return SearchGenerator(ConcurrencyLimiter(given, most) if most else given)


def _pass_properties(search: SearchAlgorithm, config: TuneConfig, experiment: Experiment) -> None:
    space = experiment.config
    basic = isinstance(search, BasicVariantGenerator)
    name = type(getattr(search, "searcher", search)).__name__
    inner = getattr(search, "searcher", None)
    while inner is not None and hasattr(inner, "searcher"):
        inner = inner.searcher
    if inner is not None:
        name = type(inner).__name__
    if not basic and variants.grids_of(space):
        grids = ", ".join("/".join(map(str, path)) for path in variants.grids_of(space))
        raise ValueError(
            f"{name} does not support grids, but the space has grid_search for {grids}; use tune.choice "
            "there, "
            "or leave search_alg out"
        )
    taken = search.set_search_properties(config.metric, config.mode, space, **experiment.public_spec)
    if not taken and not basic and variants.has_open(space):
        raise ValueError(
            f"{name} already has its own search space, metric or mode, and another was given with "
            "param_space or TuneConfig; set each in one place"
        )


def _scheduler_of(config: TuneConfig) -> TrialScheduler:
    given = config.scheduler
    if isinstance(given, str):
        given = create_scheduler(given)
    if given is None:
        given = FIFOScheduler()
    if not isinstance(given, TrialScheduler):
        raise TypeError(
            f"scheduler must be a TrialScheduler, or the name of one, got {type(given).__name__}: {given!r:.80}"
        )
    if config.reuse_actors and not given.reuses_actors:
        raise ValueError(
            f"{type(given).__name__} cannot be used with `reuse_actors=True`: the resources of an actor stay as they are"
        )
    metric = config.metric if isinstance(config.metric, str) else None
    mode = config.mode if isinstance(config.mode, str) else None
    if not given.set_search_properties(metric, mode):
        name = type(given).__name__
        raise ValueError(
            f"{name} has metric={given.metric!r} and mode={given._mode!r}, TuneConfig metric={metric!r} and "
            f"mode={mode!r}; set each in one place"
        )
    return given


def _callbacks_of(run_config: RunConfig) -> list[Any]:
    """Return the user's callbacks, those of the environment and the default loggers."""
    found = [*checked_callbacks(run_config.callbacks), *callbacks_of_environment()]
    if os.environ.get("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS") == "1":
        return found
    for kind in (CSVLoggerCallback, JsonLoggerCallback, TBXLoggerCallback):
        if not any(isinstance(each, kind) for each in found):
            found.append(kind())
    return found


def _with_log_folders(callbacks: list[Any], filesystem: Any) -> list[Any]:
    kept = [name for each in callbacks for name in getattr(each, "kept_files", ())]
    folders = LogFolders(filesystem, [*kept, "error.txt"])
    return [folders.before, *callbacks, folders.after]


def _set_up(callbacks: Sequence[Any], experiment: Experiment, search: SearchAlgorithm) -> None:
    set_up(callbacks, **experiment.public_spec, total_num_samples=search.total_samples)
