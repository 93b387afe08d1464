"""A search as a pure machine: takes results, returns commands, and consults searcher, scheduler and stopper.

Schedulers know it as the tune controller: `get_trials`, `get_live_trials`, `stop_trial`, `pause_trial` and the
other methods under "for schedulers".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from skate.train.storage.retention_policy import KeptCheckpoint, to_delete
from skate.tune.error import UnknownMetricError
from skate.tune.execution.cluster import Cluster
from skate.tune.execution.commands import (
    Advance,
    Command,
    Commit,
    Delete,
    Note,
    Notify,
    Save,
    Start,
    Stop,
    Write,
)
from skate.tune.execution.pins import CheckpointPins
from skate.tune.execution.settings import Settings
from skate.tune.experiment.trial import Source, Trial, source_of
from skate.tune.metrics import AUTO_KEYS, flat
from skate.tune.schedulers.trial_scheduler import TrialScheduler
from skate.tune.search.search_algorithm import SearchAlgorithm
from skate.tune.stopper.stopper import NoopStopper, Stopper


class Machine:
    """The state of a search.

    Args:
        search: creates trials.
        scheduler: decides which trials continue.
        stopper: ends trials, or all of them.
        settings: metric, limits and other settings of the search.
    """

    def __init__(
        self,
        search: SearchAlgorithm,
        scheduler: TrialScheduler,
        stopper: Stopper | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.search_alg = search
        self.scheduler_alg = scheduler
        self.stopper = stopper or NoopStopper()
        self.settings = settings or Settings()
        self.trials: list[Trial] = []
        self.by_id: dict[str, Trial] = {}
        self.live: dict[str, Trial] = {}
        self._folders: set[str] = set()
        self.ended = ""
        self.resources: dict[str, float] = {}
        self.error: Exception | None = None
        self._fits: Callable[[Trial], bool] = lambda trial: True
        self._commands: list[Command] = []
        self._pins = CheckpointPins()
        #: Trials that start from a checkpoint that another is saving: its id to theirs.
        self._awaiting: dict[str, list[Trial]] = {}
        #: The checkpoint of the current result; callbacks receive it after the result.
        self._unannounced: str | None = None
        #: Trials that have ended and are being saved: their ends are recorded after the save, or a crash would lose it.
        self._ending: dict[str, Trial] = {}

    # -- start of trials

    def adopt(self, trial: Trial, known: bool) -> None:
        """Adopt a trial of an earlier session; `known` is True if the scheduler already has it."""
        self.trials.append(trial)
        self._folders.add(trial.relative_logdir)
        self.by_id[trial.trial_id] = trial
        if not trial.is_finished():
            self.live[trial.trial_id] = trial
            if not known:
                self.scheduler_alg.on_trial_add(self, trial)
            self._pins.pin(trial)

    def _add(self) -> bool:
        if self.ended or self.search_alg.is_finished():
            return False
        trial = self.search_alg.next_trial()
        if trial is None:
            return False
        settings = self.settings
        trial.name_with(settings.name_creator, settings.dirname_creator, settings.stamp, self._folders)
        self._note("trial", trial, number=len(self.trials))
        self.trials.append(trial)
        self.by_id[trial.trial_id] = self.live[trial.trial_id] = trial
        self.scheduler_alg.on_trial_add(self, trial)
        return True

    def fill(self, fits: Callable[[Trial], bool]) -> Iterator[list[Command]]:
        """Start the trials that fit, one at a time: `fits` is called again after each."""
        self._fits = fits
        while not self.ended:
            most = self.settings.max_concurrent
            if most and sum(each.status == Trial.RUNNING for each in self.live.values()) >= most:
                break
            trial = self.scheduler_alg.choose_trial_to_run(self)
            if trial is not None and trial.status == Trial.PAUSED and not self._any_pending() and self._add():
                # trials that have not started yet come first
                trial = self.scheduler_alg.choose_trial_to_run(self)
            if trial is None:
                if self._any_pending() or not self._add():
                    break
                continue
            if trial.trial_id not in self.live or trial.status == Trial.RUNNING:
                break
            self._start(trial)
            yield self._taken()
        if self._commands:
            yield self._taken()

    def _any_pending(self) -> bool:
        return any(each.status == Trial.PENDING for each in self.live.values())

    def _start(self, trial: Trial) -> None:
        paused = trial.status == Trial.PAUSED
        source = trial.source
        if source is None and trial.latest is not None:
            source = source_of(trial, trial.latest)
        trial.status = Trial.RUNNING
        self._note("start", trial)
        if paused:
            on_unpause = getattr(getattr(self.search_alg, "searcher", None), "on_unpause", None)
            if on_unpause is not None and not self.scheduler_alg.reports_pauses:
                on_unpause(trial.trial_id)
        self._commands.append(Start(trial, source))
        trial.restoring = source is not None
        if source is not None:
            self._notify("on_trial_restore", trial=trial)
        self._notify("on_trial_start", trial=trial)

    def stuck(self) -> list[Command]:
        """Resume the trials that the scheduler holds back, or end the search; called when nothing runs and
        nothing can start."""
        paused = [
            each for each in self.live.values() if each.status == Trial.PAUSED and not self._waits(each)
        ]
        unblock = getattr(self.scheduler_alg, "unblock", None)
        if paused and unblock is not None:
            unblock(self)
        else:
            for trial in paused:
                self._start(trial)
        return self._taken()

    def _waits(self, trial: Trial) -> bool:
        return any(trial in waiting for waiting in self._awaiting.values())

    def is_settled(self) -> bool:
        """True if a snapshot describes every trial completely: no save is in progress."""
        return not self._awaiting and not self._ending

    def is_finished(self) -> bool:
        """True if the search is done."""
        return not self.live and (bool(self.ended) or self.search_alg.is_finished())

    # -- results

    def came(self, trial: Trial, result: dict[str, Any]) -> list[Command]:
        """Process a trial's result.

        Raises:
            UnknownMetricError: the result lacks the metric of the search.
            TuneError: it lacks a metric of the stopping criteria.
        """
        if trial.status != Trial.RUNNING:
            return self._taken()
        saved = result.pop("__saved__", None)
        over = result.pop("__over__", False)
        if result.pop("__duplicate__", False):
            last = trial.last_result if trial.results else {**trial.last_result, **result}
            self._complete(trial, last, unwind=False)
            return self._taken()
        result["config"] = trial.config
        flat_result = flat(result)
        self._check_metrics(trial, flat_result)
        name = result.get("checkpoint_dir_name") or saved
        if name is not None:
            self._keep(trial, name, result)
        self._unannounced = name
        trial.update_last_result(result, flat_result)
        stopped = self.stopper(trial.trial_id, result) or trial.should_stop(flat_result)
        # Recorded before the scheduler decides: its decision about the trial follows the trial's report.
        entry = self._note_result(trial, result, name)
        if stopped:
            entry["f"] = True
            trial.end_reason = "its stop criterion is met"
            self._finish_well(trial, result, flat_result)
            return self._taken()
        decision = self.scheduler_alg.on_trial_result(self, trial, flat_result)
        if decision == TrialScheduler.STOP:
            entry["f"] = True
            trial.end_reason = f"{type(self.scheduler_alg).__name__} has stopped it"
            self._finish_well(trial, result, flat_result, by_scheduler=True)
            return self._taken()
        self.search_alg.on_trial_result(trial.trial_id, flat_result)
        self._notify_result(trial, result)
        if trial.status == Trial.RUNNING:
            if decision == TrialScheduler.PAUSE:
                self.pause_trial(trial)
            elif decision == TrialScheduler.CONTINUE and over:
                self._complete(trial, trial.last_result, unwind=False)
            elif decision == TrialScheduler.CONTINUE:
                self._commands.append(Advance(trial))
        return self._taken()

    def _check_metrics(self, trial: Trial, result: dict[str, Any]) -> None:
        if not self.settings.strict_metrics or result.get("done"):
            return
        metrics_of: list[tuple[str, Any]] = [("tune.TuneConfig()", self.settings.metric)]
        metrics_of.append((type(self.scheduler_alg).__name__, self.scheduler_alg.metric))
        metrics_of.append(("the searcher", self.search_alg.metric))
        for who, metrics in metrics_of:
            for metric in metrics if isinstance(metrics, (list, tuple)) else [metrics]:
                if metric and metric not in result:
                    known = sorted(
                        name for name in result if name not in AUTO_KEYS and not name.startswith("config/")
                    )
                    raise UnknownMetricError(
                        f"Trial returned a result which did not include the specified metric(s) `{metric}` that `{who}` "
                        f"expects: {trial} reports {', '.join(known) or 'no metrics'} (and training_iteration, time_total_s)"
                    )

    def _note_result(self, trial: Trial, result: dict[str, Any], checkpoint: str | None) -> dict[str, Any]:
        reported = {name: value for name, value in result.items() if name not in ("config", "trial_id")}
        entry: dict[str, Any] = {"e": "result", "id": trial.trial_id, "r": reported}
        self._commands.append(Note(entry, durable=checkpoint is not None))
        if checkpoint is not None:
            entry["c"] = checkpoint
            self._prune(trial)
        return entry

    def _finish_well(
        self, trial: Trial, result: dict[str, Any], flat_result: dict[str, Any], by_scheduler: bool = False
    ) -> None:
        result["done"] = flat_result["done"] = True
        self._notify_result(trial, result)
        latest, now = trial.latest, result.get("training_iteration")
        saved = latest is not None and now is not None and latest.metrics.get("training_iteration") == now
        if trial.checkpoint_at_end and self.settings.can_save(trial) and not saved:
            trial.saving += 1
            self._commands.append(Save(trial))
        self._complete(trial, result, unwind=True, by_scheduler=by_scheduler)

    def _complete(
        self, trial: Trial, result: dict[str, Any], unwind: bool, by_scheduler: bool = False
    ) -> None:
        trial.last_result = {
            **result,
            "done": True,
            "config": trial.config,
            "experiment_tag": trial.experiment_tag,
        }
        flat_result = flat(trial.last_result)
        if by_scheduler:
            self.scheduler_alg.on_trial_remove(self, trial)
        else:
            self.scheduler_alg.on_trial_complete(self, trial, flat_result)
        self.search_alg.on_trial_complete(trial.trial_id, result=flat_result)
        self._end(trial, Trial.TERMINATED)
        self._commands.append(Stop(trial, unwind))
        self._notify("on_trial_complete", trial=trial)

    def _end(self, trial: Trial, status: str) -> None:
        trial.status = status
        self.live.pop(trial.trial_id, None)
        self._unpin(trial)
        if trial.saving:
            self._ending[trial.trial_id] = trial
        else:
            self._note("end", trial, s=status, why=trial.end_reason)

    def failed(self, trial: Trial, error: Exception, text: str) -> list[Command]:
        """Handle the failure of a trial's process: restart the trial or end it."""
        if trial.status != Trial.RUNNING:
            return self._taken()
        counted = not trial.restoring or trial.restore_failures >= self.settings.restore_retries
        trial.num_failures += counted
        trial.restore_failures += not counted
        trial.error_text = text
        trial.pickled_error = error
        trial.saving = 0
        again = not counted or trial.should_recover()
        if again and not self.settings.fail_fast:
            trial.status = Trial.PENDING
            self._note("error", trial, text=text, again=True, counted=counted)
            self._commands.append(Stop(trial, unwind=False))
            self._notify("on_trial_recover", trial=trial)
            return self._taken()
        self._note("error", trial, text=text, again=False)
        self.scheduler_alg.on_trial_error(self, trial)
        self.search_alg.on_trial_complete(trial.trial_id, error=True)
        self._end(trial, Trial.ERROR)
        self._commands.append(Stop(trial, unwind=False))
        self._notify("on_trial_error", trial=trial)
        self._start_waiting(trial)
        if self.settings.fail_fast:
            if self.settings.fail_fast == "raise":
                self.error = error
            self._finish(f"{trial} has failed, and fail_fast={self.settings.fail_fast!r}")
        return self._taken()

    # -- checkpoints

    def saved(self, trial: Trial, name: str | None) -> list[Command]:
        """Process the end of a save of a class trainable; `name` is None if there was nothing to save."""
        trial.saving = max(0, trial.saving - 1)
        if name is not None:
            self._keep(trial, name, trial.last_result)
            self._note("saved", trial, c=name, r=_progress(trial.last_result), durable=True)
            self._prune(trial)
            self._notify_saved(trial, name)
        self._start_waiting(trial)
        if not trial.saving and self._ending.pop(trial.trial_id, None) is not None:
            self._note("end", trial, s=trial.status, why=trial.end_reason)
        return self._taken()

    def _start_waiting(self, donor: Trial) -> None:
        """Start the trials that wait for a donor's checkpoint from its newest one."""
        for waiting in self._awaiting.pop(donor.trial_id, []):
            if waiting.is_finished():
                continue
            if donor.latest is not None:
                self._set_source(waiting, source_of(donor, donor.latest))
            if waiting is not donor:
                self._note("exploit", waiting, donor=donor.trial_id)

    def _keep(self, trial: Trial, name: str, metrics: dict[str, Any]) -> None:
        index = int(name.rpartition("_")[2])
        trial.next_checkpoint = max(trial.next_checkpoint, index + 1)
        trial.kept = [each for each in trial.kept if each.name != name]
        trial.kept.append(KeptCheckpoint(name, dict(metrics), index))
        self._commands.append(Commit(trial, name, _progress(metrics)))

    def _prune(self, trial: Trial) -> None:
        """Release old checkpoints, once the journal has the newest."""
        if trial.source is not None:
            self._unpin(trial)
            trial.source = None
        for each in to_delete(trial.kept, trial.checkpoint_config):
            trial.kept.remove(each)
            if not self._pins.holds((trial.trial_id, each.name)):
                self._delete(trial, each.name)

    def _delete(self, trial: Trial, name: str) -> None:
        self._note("deleted", trial, c=name)
        self._commands.append(Delete(trial, name))

    def _set_source(self, trial: Trial, source: Source | None) -> None:
        self._unpin(trial)
        trial.source = source
        self._pins.pin(trial)

    def _unpin(self, trial: Trial) -> None:
        gone = self._pins.unpin(trial)
        if gone is not None:
            self._delete(self.by_id[gone[0]], gone[1])

    # -- for schedulers

    def get_trials(self) -> list[Trial]:
        """All trials."""
        return self.trials

    def get_live_trials(self) -> list[Trial]:
        """All trials that have not ended."""
        return list(self.live.values())

    def get_trial(self, tid: str) -> Trial | None:
        """The trial with the given id, or None."""
        return self.by_id.get(tid)

    def has_resources_for_trial(self, trial: Trial) -> bool:
        """True if the trial can start now."""
        return not self._waits(trial) and self._fits(trial)

    def save_trial(self, trial: Trial) -> KeptCheckpoint | None:
        """Save a trial; return its newest checkpoint if it is available, as with functions, which save themselves."""
        if self.settings.can_save(trial) and trial.status == Trial.RUNNING:
            trial.saving += 1
            self._commands.append(Save(trial))
            return None
        return trial.latest

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        """Release a trial's process until the trial is chosen again."""
        if trial.status != Trial.RUNNING:
            return
        if should_checkpoint and self.settings.can_save(trial):
            trial.saving += 1
            self._commands.append(Save(trial))
            self._awaiting.setdefault(trial.trial_id, []).append(trial)
        trial.status = Trial.PAUSED
        self._note("pause", trial)
        searcher = getattr(self.search_alg, "searcher", None)
        if searcher is not None and hasattr(searcher, "on_pause") and not self.scheduler_alg.reports_pauses:
            searcher.on_pause(trial.trial_id)
        self._commands.append(Stop(trial, unwind=True))

    def stop_trial(self, trial: Trial, error: bool = False) -> None:
        """End a trial."""
        if trial.is_finished():
            return
        trial.end_reason = self.ended or f"{type(self.scheduler_alg).__name__} has stopped it"
        ran = trial.status == Trial.RUNNING
        if not ran:
            self.scheduler_alg.on_trial_remove(self, trial)
        self.search_alg.on_trial_complete(trial.trial_id, result=flat(trial.last_result) or None, error=error)
        if trial.results:
            trial.last_result = {**trial.last_result, "done": True, "experiment_tag": trial.experiment_tag}
        self._end(trial, Trial.TERMINATED)
        if ran:
            self._commands.append(Stop(trial, unwind=True))
        self._notify("on_trial_complete", trial=trial)

    def exploit(self, trial: Trial, donor: Trial, config: dict[str, Any], tag: str) -> bool:
        """Continue a trial from another's newest checkpoint with a new configuration; False if there is no
        checkpoint.
        """
        if not donor.saving and donor.latest is None:
            return False
        self.pause_trial(trial, should_checkpoint=False)
        trial.config = config
        trial.experiment_tag = tag
        if donor.saving:
            # Recorded once the checkpoint exists: the configuration and its checkpoint belong together
            self._awaiting.setdefault(donor.trial_id, []).append(trial)
            return True
        assert donor.latest is not None
        self._set_source(trial, source_of(donor, donor.latest))
        self._note("exploit", trial, donor=donor.trial_id)
        return True

    @property
    def _resource_updater(self) -> Cluster:
        return Cluster(self.resources)

    def total_resources(self) -> dict[str, float]:
        """The total resources of the cluster."""
        return dict(self.resources)

    def write_line(self, name: str, line: str) -> None:
        """Append a line to a file in the folder of the search."""
        self._commands.append(Write(name, line))

    # -- the end

    def finish(self, reason: str) -> list[Command]:
        """End all trials."""
        self._finish(reason)
        return self._taken()

    def _finish(self, reason: str) -> None:
        self.ended = reason
        self.search_alg.set_finished()
        for trial in list(self.live.values()):
            self.stop_trial(trial)

    def check_stop_all(self) -> list[Command]:
        """End all trials if the stopper decides so."""
        if not self.ended and self.stopper.stop_all():
            self._finish(f"{type(self.stopper).__name__} has ended the search")
        return self._taken()

    # -- internals

    def _note(self, kind: str, trial: Trial, durable: bool = False, **more: Any) -> None:
        self._commands.append(Note({"e": kind, "id": trial.trial_id, **more}, durable))

    def _notify_result(self, trial: Trial, result: dict[str, Any]) -> None:
        self._notify("on_trial_result", trial=trial, result=result)
        if self._unannounced is not None:
            self._notify_saved(trial, self._unannounced)

    def _notify_saved(self, trial: Trial, name: str) -> None:
        self._notify("on_checkpoint", trial=trial, checkpoint=name)
        self._notify("on_trial_save", trial=trial)

    def _notify(self, hook: str, **info: Any) -> None:
        if hook in self.settings.hooks:
            self._commands.append(Notify(hook, info))

    def _taken(self) -> list[Command]:
        found, self._commands = self._commands, []
        return found


def _progress(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: metrics.get(name) for name in ("training_iteration", "time_total_s")}
