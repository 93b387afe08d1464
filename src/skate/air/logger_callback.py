"""Loggers record the reports of a trial of Tune, or a run of Train."""

from __future__ import annotations

import json
from typing import Any

from skate.air.callback import Callback
from skate.air.flat import plain
from skate.air.logged_run import LoggedRun
from skate.air.trial import LoggableTrial
from skate.train.callback import UserCallback


class LoggerCallback(Callback, UserCallback):
    """Base class of loggers: override the `log_trial_...` methods, which are called for trials of Tune, and
    for a run of Train as one trial.

    Pass instances to `RunConfig(callbacks=[...])`, of Train or of Tune.
    """

    #: Files in the folder of a trial that a resumed trial appends to.
    kept_files: tuple[str, ...] = ()
    _run: LoggedRun | None = None

    def log_trial_start(self, trial: LoggableTrial) -> None:
        """Called when a trial starts."""

    def log_trial_restore(self, trial: LoggableTrial) -> None:
        """Called when a trial restores a checkpoint."""

    def log_trial_save(self, trial: LoggableTrial) -> None:
        """Called when a trial has written a checkpoint: `trial.checkpoint`."""

    def log_trial_result(self, iteration: int, trial: LoggableTrial, result: dict[str, Any]) -> None:
        """Called when a trial reports."""

    def log_trial_end(self, trial: LoggableTrial, failed: bool = False) -> None:
        """Called when a trial has ended."""

    # -- hooks of Tune

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: LoggableTrial, result: dict[str, Any], **info: Any
    ) -> None:
        """Forward to `log_trial_result`."""
        self.log_trial_result(iteration, trial, result)

    def on_trial_start(self, iteration: int, trials: list[Any], trial: LoggableTrial, **info: Any) -> None:
        """Forward to `log_trial_start`."""
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: list[Any], trial: LoggableTrial, **info: Any) -> None:
        """Forward to `log_trial_restore`."""
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[Any], trial: LoggableTrial, **info: Any) -> None:
        """Forward to `log_trial_save`."""
        self.log_trial_save(trial)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: LoggableTrial, **info: Any) -> None:
        """Forward to `log_trial_end`."""
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: LoggableTrial, **info: Any) -> None:
        """Forward to `log_trial_end` as failed."""
        self.log_trial_end(trial, failed=True)

    # -- hooks of Train

    def before_run(self, run_context: Any) -> None:
        """Log the start of a run of Train as a trial."""
        self._run = run = LoggedRun(run_context)
        run.fetch(self.kept_files)
        self.setup()
        self.log_trial_start(run)

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:
        """Log a report of all workers: rank 0's metrics are the trial's result."""
        run = self._run
        assert run is not None, "before_run comes first"
        self.log_trial_result(run_context.reports, run, run.result(metrics[0], run_context.reports))
        if checkpoint is not None:
            run.checkpoint = checkpoint
            self.log_trial_save(run)
            run.send()

    def after_run(self, run_context: Any, error: BaseException | None) -> None:
        """Log the end of a run of Train."""
        run, self._run = self._run, None
        if run is None:  # the run could not start
            return
        try:
            self.log_trial_end(run, failed=error is not None)
            self.on_experiment_end([run])
            run.send()
        finally:
            run.close()


def pretty_print(result: dict[str, Any], exclude: set[str] | None = None) -> str:
    """Format a result as indented text, without its settings and None values."""
    left_out = {"config", "hist_stats", *(exclude or ())}
    shown = {name: value for name, value in result.items() if value is not None and name not in left_out}
    return "\n".join(_lines(json.loads(json.dumps(shown, default=plain)), "")) + "\n"


def _lines(values: dict[str, Any], indent: str) -> list[str]:
    found = []
    for name in sorted(values):
        value = values[name]
        if isinstance(value, dict) and value:
            found += [f"{indent}{name}:", *_lines(value, indent + "  ")]
        else:
            found.append(f"{indent}{name}: {json.dumps(value) if not isinstance(value, str) else value}")
    return found
