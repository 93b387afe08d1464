"""Runs the machine of a search: starts the processes of trials, waits for their results, executes the machine's
commands.
"""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import skate
from skate.air.trial_folder import trial_folder
from skate.exceptions import RayTaskError
from skate.train.storage.run_folder import RunFolder
from skate.tune import registry
from skate.tune.error import TuneError, tune_error_of
from skate.tune.execution import commands
from skate.tune.execution.machine import Machine
from skate.tune.execution.processes import Process, Processes
from skate.tune.execution.trial_capacity import TrialCapacity
from skate.tune.experiment.trial import Source, Trial
from skate.tune.journal.codec import new_trial_entry, packed
from skate.tune.journal.journal import ExperimentJournal
from skate.tune.trainable.session import TrialSpec
from skate.util.nodes import can_grow

#: How often time limits are checked while nothing happens, in seconds.
_LOOK_SECONDS = 1.0
#: How often nodes that have joined are looked for while a trial does not fit, in seconds.
_NODES_SECONDS = 1.0
#: The number of trials that wait for nodes of a cluster that can grow.
_WAITING_TRIALS_MAX = 16
#: The time limit for a stopped trial to unwind, in seconds.
_UNWIND_SECONDS = float(os.environ.get("TUNE_FORCE_TRIAL_CLEANUP_S", "15"))


def _nodes() -> list[dict[str, float]]:
    """Return the resources of each node."""
    return [node["Resources"] for node in skate.nodes() if node["Alive"]]


@dataclass
class Plan:
    """The parts that the loop needs in addition to the machine."""

    folder: RunFolder
    callbacks: Sequence[Any]
    reporter: Any = None
    reuse_actors: bool = False
    deadline: float | None = None
    log_to_file: Any = False
    #: Modules preloaded in the processes of trials.
    preload: Sequence[str] = ()
    #: The contents of a snapshot, except the trials.
    state: Callable[[], dict[str, Any]] = dict


class Controller:
    """One call of `fit`."""

    def __init__(
        self, machine: Machine, plan: Plan, snapshot: Callable[[], tuple[dict[str, Any], int]]
    ) -> None:
        self.machine = machine
        self.plan = plan
        self.journal = ExperimentJournal(plan.folder, snapshot)
        self.processes = Processes(plan.reuse_actors, plan.preload)
        self.capacity = TrialCapacity(_nodes())
        self._looked_at_nodes = time.monotonic()
        machine.resources = dict(self.capacity.total)
        self.iteration = 0
        self.interrupted = False
        self._running: dict[str, Process] = {}
        self._pending: dict[Any, tuple[str, Trial, Any]] = {}
        self._checked: set[Any] = set()
        self._do_one: dict[type, Callable[[Any], None]] = {
            commands.Start: self._start,
            commands.Advance: self._advance,
            commands.Save: self._save,
            commands.Stop: self._stop,
            commands.Commit: self._commit,
            commands.Delete: self._delete,
            commands.Note: self._note,
            commands.Notify: self._notify,
            commands.Write: self._write_line,
        }

    # -- the loop

    def execute(self) -> None:
        """Run the search to its end.

        Raises:
            TuneError: a trial requests more than the cluster has, or a required metric is never reported.
            Exception: any error of a callback, a scheduler or a searcher; while a result is processed, it is a TuneError, too.
        """
        machine = self.machine
        self.journal.begin()
        well = False
        try:
            while not machine.is_finished() or self._pending:
                self._step()
            well = True
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self._close(well)

    def _step(self) -> None:
        machine = self.machine
        self.iteration += 1
        self._each("on_step_begin")
        for given in machine.fill(self._fits):
            self._do(given)
        if self._pending:
            self._wait()
        elif not machine.is_finished():
            given = machine.stuck()
            self._do(given)
            if not given and not machine.is_finished():
                self._idle()
        if self.plan.deadline is not None and time.monotonic() >= self.plan.deadline and not machine.ended:
            self._do(machine.finish("the time budget is used up"))
        self._do(machine.check_stop_all())
        self._each("on_step_end")
        if self.journal.due and machine.is_settled():
            self.journal.take_snapshot()
        if self.plan.reporter is not None:
            self.plan.reporter.look(machine.trials, False)

    def _idle(self) -> None:
        """Wait before asking a searcher again that suggested nothing while nothing runs."""
        time.sleep(0.05)

    def _do(self, given: Sequence[commands.Command]) -> None:
        for command in given:
            self._do_one[type(command)](command)

    def _fits(self, trial: Trial) -> bool:
        request = trial.placement_group_factory
        if request not in self._checked:
            lacking = self.capacity.why_never(request)
            if lacking and not can_grow():
                raise TuneError(
                    f"{trial} requests {request.required_resources}, which this cluster cannot "
                    f"provide: {lacking}. Request less with tune.with_resources, or start a larger "
                    "session: init(num_cpus=..., num_gpus=...)"
                )
            self._checked.add(request)
        if self.processes.reuse and self._one_leaves(trial):
            return False  # wait for a process that is about to become free
        return self.capacity.fits(request) or self._is_worth_waiting_for(request)

    def _is_worth_waiting_for(self, request: Any) -> bool:
        """Look for nodes that have joined; in a cluster that can grow, a few trials wait for some that may."""
        now = time.monotonic()
        if now - self._looked_at_nodes < _NODES_SECONDS:
            return False
        self.capacity.update(_nodes())
        self.machine.resources = dict(self.capacity.total)
        if self.capacity.fits(request):
            return True
        # A searcher suggests better with the results of the trials before.
        learns = getattr(self.machine.search_alg, "searcher", None) is not None
        if can_grow() and self.capacity.waiting() < (1 if learns else _WAITING_TRIALS_MAX):
            return True
        self._looked_at_nodes = now
        return False

    def _one_leaves(self, trial: Trial) -> bool:
        key = (id(trial.experiment.trainable), trial.placement_group_factory)
        return any(
            kind == "end" and extra[2] and extra[0].key == key for kind, _, extra in self._pending.values()
        )

    def _wait(self) -> None:
        timeout = _LOOK_SECONDS
        if self.plan.deadline is not None:
            timeout = max(0.0, min(timeout, self.plan.deadline - time.monotonic()))
        ready, _ = skate.wait(list(self._pending), num_returns=1, timeout=timeout)
        now = time.monotonic()
        for ref in ready:
            kind, trial, extra = self._pending.pop(ref)
            try:
                self._take(kind, trial, extra, ref)
            except Exception as error:  # of a callback, a stopper, a scheduler or a searcher
                if self.machine.settings.fail_fast == "raise":
                    raise
                raise tune_error_of(error) from error
        late = [ref for ref, (kind, _, extra) in self._pending.items() if kind == "end" and now > extra[1]]
        for ref in late:
            kind, trial, extra = self._pending.pop(ref)
            self._end_process(extra[0])

    def _take(self, kind: str, trial: Trial, extra: Any, ref: Any) -> None:
        try:
            value = skate.get(ref)
        except Exception as error:  # the user's code may raise anything, and its process may die
            self._take_failure(kind, trial, extra, error)
            return
        if kind == "step":
            self._do(self.machine.came(trial, value))
        elif kind == "save":
            self._do(self.machine.saved(trial, value))
        elif kind == "restart":
            if value is not None:
                self._do(self.machine.came(trial, value))
            else:
                text = (
                    "Trainable runner reuse requires reset_config() to be implemented and return True. "
                    f"{trial.trainable_name} does not: implement it, or leave out reuse_actors"
                )
                self._do(self.machine.failed(trial, TuneError(text), text))
        elif kind == "end":
            process, _, reusable = extra
            self._keep_or_end(process, reusable)

    def _take_failure(self, kind: str, trial: Trial, extra: Any, error: Exception) -> None:
        if kind == "end":
            self._end_process(extra[0])
            return
        cause = (
            error.cause
            if isinstance(error, RayTaskError) and getattr(error, "cause", None) is not None
            else error
        )
        text = (
            str(error) if isinstance(error, RayTaskError) else "".join(traceback.format_exception_only(cause))
        )
        if kind == "save":
            self._do(self.machine.saved(trial, None))
        self._do(self.machine.failed(trial, error, text))

    # -- commands of the machine

    def _start(self, command: commands.Start) -> None:
        trial = command.trial
        self.capacity.take(trial.placement_group_factory)
        spec = self._spec(trial, command.source)
        trial.start_time = trial.start_time or time.time()
        process = self.processes.take_idle(trial) if self.processes.reuse else None
        if process is None:
            self._begin(trial, spec)
            return
        self._running[trial.trial_id] = process
        self._pending[process.actor.restart.remote(spec)] = ("restart", trial, spec)

    def _begin(self, trial: Trial, spec: TrialSpec) -> None:
        process = self.processes.start(trial, spec)
        self._running[trial.trial_id] = process
        self._pending[process.actor.advance.remote()] = ("step", trial, None)

    def _spec(self, trial: Trial, source: Source | None) -> TrialSpec:
        checkpoint = None
        if source is not None:
            owner = self.machine.by_id[source.trial_id]
            checkpoint = owner.folder.checkpoint(source.name)
        elif trial.experiment.restore is not None:
            checkpoint = skate.train.Checkpoint(trial.experiment.restore)
        return TrialSpec(
            trial_id=trial.trial_id,
            trial_name=str(trial),
            experiment_name=self.plan.folder.name,
            folder=trial.folder,
            config=trial.config,
            resources=trial.placement_group_factory,
            checkpoint=checkpoint,
            iteration=source.iteration if source else 0,
            time_total=source.time_total if source else 0.0,
            next_checkpoint=trial.next_checkpoint,
            checkpoint_frequency=trial.checkpoint_freq,
            log_to_file=self.plan.log_to_file,
            environments=registry.environments(),
        )

    def _advance(self, command: commands.Advance) -> None:
        trial = command.trial
        self._pending[self._running[trial.trial_id].actor.advance.remote()] = ("step", trial, None)

    def _save(self, command: commands.Save) -> None:
        trial = command.trial
        self._pending[self._running[trial.trial_id].actor.save.remote()] = ("save", trial, None)

    def _stop(self, command: commands.Stop) -> None:
        trial = command.trial
        process = self._running.pop(trial.trial_id, None)
        if process is None:
            return
        steps = [
            ref
            for ref, (kind, other, _) in self._pending.items()
            if other is trial and kind in ("step", "restart")
        ]
        for ref in steps:
            del self._pending[ref]
        reusable = trial.status not in (Trial.ERROR, Trial.PENDING)  # failed processes are not reused
        if self.processes.reuse and reusable and not command.unwind and not steps:
            self._keep_or_end(process, True)  # its function has returned
            return
        if command.unwind or self.processes.reuse or self.machine.settings.can_save(trial):
            if steps:  # in the middle of a step whose result is no longer needed
                self._end_process(process)
                return
            until = time.monotonic() + _UNWIND_SECONDS
            self._pending[process.actor.end.remote()] = ("end", trial, (process, until, reusable))
            return
        self._end_process(process)

    def _keep_or_end(self, process: Process, reusable: bool) -> None:
        """Keep the process of an ended trial for another one, if processes are reused."""
        if reusable and self.processes.reuse and not self.machine.ended:
            self.capacity.give_back(process.key[1])
            self.processes.keep(process)
        else:
            self._end_process(process)

    def _end_process(self, process: Process) -> None:
        self.processes.end(process)
        self.capacity.give_back(process.key[1])

    def _commit(self, command: commands.Commit) -> None:
        command.trial.folder.commit(command.name, {"trial": command.trial.trial_id, **command.metrics})

    def _delete(self, command: commands.Delete) -> None:
        command.trial.folder.delete(command.name)

    def _note(self, command: commands.Note) -> None:
        entry = command.entry
        kind = entry["e"]
        if kind in ("trial", "exploit"):
            trial = self.machine.by_id[entry["id"]]
            if kind == "trial":
                entry = {**entry, **new_trial_entry(trial)}
            else:
                entry = {**entry, "config": packed(trial.config), "tag": trial.experiment_tag, "source": None}
                if trial.source is not None:
                    entry["donor"], entry["source"] = trial.source.trial_id, trial.source.name
        elif kind == "error":
            self._write_error(self.machine.by_id[entry["id"]])
        # Storages that buffer lines must flush the end of a trial, or it would run again.
        self.journal.append(entry, command.durable or kind == "end")

    def _write_error(self, trial: Trial) -> None:
        """Write the text of an error, and the exception, to the trial's folder."""
        folder = trial_folder(trial)
        if folder is None:
            return
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
        with open(os.path.join(folder, "error.txt"), "a") as file:
            file.write(f"Failure # {trial.num_failures} (at {stamp})\n{trial.error_text}\n")
        from skate import cloudpickle  # only failed trials need it

        with contextlib.suppress(Exception):  # some exceptions cannot be pickled; their text has been written
            contents = cloudpickle.dumps(trial.pickled_error)
            with open(os.path.join(folder, "error.pkl"), "wb") as binary:
                binary.write(contents)

    def _write_line(self, command: commands.Write) -> None:
        if self.plan.folder.local:
            with open(self.plan.folder.at(command.name), "a") as file:
                file.write(command.line + "\n")

    def _notify(self, command: commands.Notify) -> None:
        info = command.info
        if command.hook == "on_checkpoint":
            info = {**info, "checkpoint": info["trial"].folder.checkpoint(info["checkpoint"])}
        for callback in self.plan.callbacks:
            getattr(callback, command.hook)(iteration=self.iteration, trials=self.machine.trials, **info)

    def _each(self, hook: str) -> None:
        if hook in self.machine.settings.hooks:
            for callback in self.plan.callbacks:
                getattr(callback, hook)(iteration=self.iteration, trials=self.machine.trials)

    # -- the end

    def _close(self, well: bool) -> None:
        for process in self._running.values():
            self.processes.end(process)
        for kind, _, extra in self._pending.values():
            if kind == "end":
                self.processes.end(extra[0])
        self._running.clear()
        self._pending.clear()
        self.processes.close()
        with contextlib.ExitStack() as stack:  # each of them ends, even if another one fails
            stack.callback(self.journal.close if well else self.journal.abandon)
            for callback in reversed(self.plan.callbacks):
                stack.callback(callback.on_experiment_end, trials=self.machine.trials)
        if self.plan.reporter is not None:
            self.plan.reporter.look(self.machine.trials, True)
