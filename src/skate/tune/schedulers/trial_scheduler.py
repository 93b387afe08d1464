"""The contract of a scheduler, and the simplest: every trial runs to its end, in order."""

from __future__ import annotations

import pickle
from typing import Any

from skate.tune.configs import checked_mode
from skate.tune.experiment.trial import Trial


class SchedulerArgumentError(ValueError, AssertionError):
    """An argument of a scheduler is out of range."""


class TrialScheduler:
    """Decides after each result what its trial does, and which trial starts next."""

    CONTINUE = "CONTINUE"
    PAUSE = "PAUSE"
    STOP = "STOP"
    NOOP = "NOOP"

    #: True if trials may run one after the other in the same process.
    reuses_actors = True
    _metric: str | None = None
    _mode: str | None = None
    _supports_buffered_results = True
    #: True once a search has set its metric and mode, which a later search may do again.
    _set_by_search = False
    #: True if it notifies the searcher of paused and resumed trials itself.
    reports_pauses = False
    #: True if replaying the results of a journal restores its state.
    replays = False

    @property
    def metric(self) -> str | None:
        """The metric that it uses, or None."""
        return self._metric

    @property
    def supports_buffered_results(self) -> bool:
        """True if results may arrive several at a time."""
        return self._supports_buffered_results

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Set metric and mode from the search; False if it was made with one of them, or another search set others."""
        if not self._set_by_search and ((self._metric and metric) or (self._mode and mode)):
            return False
        if (self._metric and metric and self._metric != metric) or (
            self._mode and mode and self._mode != mode
        ):
            return False
        self._set_by_search = True
        self._metric = self._metric or metric
        self._mode = self._mode or mode
        return True

    def _check_mode(self, mode: Any) -> None:
        try:
            checked_mode(mode)
        except ValueError as error:
            raise SchedulerArgumentError(f"`mode` must be 'min' or 'max'; {error}") from None

    def _require_choice(self) -> None:
        """Check that the scheduler knows which trials are better. A mode without a metric is of the unnamed one.

        Raises:
            ValueError: neither its own arguments nor the search has a metric and a mode.
        """
        if not self._mode:
            raise ValueError(
                f"{type(self).__name__} has been instantiated without a valid `metric` ({self._metric!r}) or `mode` "
                f"({self._mode!r}) parameter; pass both to the scheduler, or to tune.TuneConfig()"
            )

    def _goodness(self, result: dict[str, Any]) -> float:
        """Return the score of a result; larger is better."""
        value = float(result[self._metric or "_metric"])
        return -value if self._mode == "min" else value

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Called when a trial is added."""

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Called when a trial has failed permanently."""

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Decide after a result: CONTINUE, PAUSE, STOP, or NOOP if already handled."""
        return self.CONTINUE

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Handle the end of a completed trial."""

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """Called when a trial that was not running is ended."""

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Choose the trial to start next, or None."""
        raise NotImplementedError

    def debug_string(self) -> str:
        """Describe the state in one line."""
        return f"Using {type(self).__name__}."

    def save(self, checkpoint_path: str) -> None:
        """Save the state to a file."""
        with open(checkpoint_path, "wb") as file:
            pickle.dump(self.__dict__, file)

    def restore(self, checkpoint_path: str) -> None:
        """Load the state from a file."""
        with open(checkpoint_path, "rb") as file:
            self.__dict__.update(pickle.load(file))


class FIFOScheduler(TrialScheduler):
    """Runs every trial to its end, in the order of creation."""

    replays = True

    def debug_string(self) -> str:
        """Name the scheduler."""
        return "Using FIFO scheduling algorithm."

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Return the first trial that has not started, else the first paused one."""
        for status in (Trial.PENDING, Trial.PAUSED):
            for trial in tune_controller.get_live_trials():
                if trial.status == status and tune_controller.has_resources_for_trial(trial):
                    found: Trial = trial
                    return found
        return None
