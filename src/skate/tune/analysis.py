"""Analysis of a search that has ended or was interrupted: the best trial, its configuration and results."""

from __future__ import annotations

import copy
import logging
import os
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.storage.retention_policy import score
from skate.train.storage.run_folder import RunFolder
from skate.tune.configs import checked_mode
from skate.tune.error import NoBestTrial
from skate.tune.experiment.trial import Trial
from skate.tune.journal.journal import newest
from skate.tune.journal.replay import Replay
from skate.tune.metrics import SCOPES, flat, users
from skate.tune.result import DEFAULT_METRIC, rows_of

_log = logging.getLogger("skate.tune")


class ExperimentAnalysis:
    """The trials of a search and their results.

    Args:
        experiment_checkpoint_path: the folder of the search, or a snapshot in it.
        storage_filesystem: a pyarrow filesystem for that path.
        trials: the trials, if available; read from the folder otherwise.
        default_metric, default_mode: used where no metric, or mode, is given.

    Raises:
        ValueError: there is no search in the folder, or the mode is neither "min" nor "max".
    """

    def __init__(
        self,
        experiment_checkpoint_path: str | os.PathLike[str],
        *,
        storage_filesystem: Any = None,
        trials: list[Trial] | None = None,
        default_metric: str | None = None,
        default_mode: str | None = None,
    ) -> None:
        self.default_metric = default_metric
        self.default_mode = _mode(default_mode)
        if self.default_mode and not self.default_metric:
            self.default_metric = DEFAULT_METRIC  # for trainables that return one number
        if self.default_metric and not self.default_mode:
            self.default_mode = "max"
        given = os.fspath(experiment_checkpoint_path).rstrip("/")
        if given.endswith(".json"):
            given = os.path.dirname(given)
        parent, _, name = given.rpartition("/")
        self._folder = RunFolder(parent or ".", name, storage_filesystem)
        if trials is None:
            if not newest(self._folder):
                raise ValueError(
                    f"there is no search at {self._folder.path!r}: No experiment snapshot file of form "
                    "'experiment_state-*.json' was found. The path of a search is "
                    "its storage_path and its name"
                )
            trials = Replay(self._folder).run().trials
        self.trials = trials

    # -- which trial

    def _metric_and_mode(self, metric: Any, mode: Any) -> tuple[str, str]:
        metric = metric or self.default_metric
        mode = _mode(mode or self.default_mode)
        if not metric:
            raise ValueError(
                "No `metric` has been passed and `default_metric` has not been set. Please specify "
                "the `metric` parameter, one of: "
                f"{', '.join(self._reported()) or 'none reported'}"
            )
        if not mode:
            raise ValueError(
                "No `mode` has been passed and `default_mode` has not been set. Please specify the `mode` parameter, "
                f'"min" or "max": which end of {metric!r} is best'
            )
        return metric, mode

    def _reported(self) -> list[str]:
        return sorted({name for trial in self.trials for name in flat(users(trial.last_result))})

    def get_best_trial(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Trial | None:
        """Return the trial with the largest ("max") or smallest ("min") metric; None if no trial has a number for it.

        Args:
            metric, mode: the search's by default; a search of one trial needs none.
            scope: "last", "avg", "last-5-avg", "last-10-avg", or "all" for the best value that a trial has ever
                reported.
            filter_nan_and_inf: skip trials whose value is not finite.

        Raises:
            ValueError: scope or mode is invalid.
        """
        complete = (metric or self.default_metric) and (mode or self.default_mode)
        if len(self.trials) == 1 and not complete:
            return self.trials[0]  # the only trial is the best, regardless of its metrics
        metric, mode = self._metric_and_mode(metric, mode)
        if scope not in SCOPES:
            raise ValueError(
                f"attempting to get best trial for metric {metric} for scope {scope} not in {list(SCOPES)}"
            )
        found: list[tuple[float, Trial]] = []
        any_has = False
        for trial in self.trials:
            history = trial.histories.by_name.get(metric)
            if history is None:
                continue
            any_has = True
            value = history.get(scope, mode)
            if filter_nan_and_inf and (value != value or value in (float("inf"), float("-inf"))):
                continue
            found.append((value, trial))
        if not found:
            if not any_has:
                _log.warning(
                    "Could not find best trial: no trial reports a number for %r; reported are: %s. Did you pass the correct "
                    "`metric` parameter?", metric, ", ".join(self._reported()) or "none",
                )  # fmt: skip
            return None
        choose = max if mode == "max" else min
        return choose(found, key=lambda each: each[0])[1]

    def check_reported(self, metric: str) -> None:
        """Check that a trial reports a metric.

        Raises:
            ValueError: none does; the message lists the reported metrics.
        """
        if any(trial.results for trial in self.trials) and not any(
            metric in trial.histories.by_name for trial in self.trials
        ):
            raise NoBestTrial(
                f"No best trial found for the given metric: {metric}. No trial reports a number for "
                f"{metric!r}; reported are: {', '.join(self._reported()) or 'none'}"
            )

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> dict[str, Any] | None:
        """Return the configuration of the best trial."""
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else best.config

    def get_best_checkpoint(
        self, trial: Trial, metric: str | None = None, mode: str | None = None
    ) -> Checkpoint | None:
        """Return the checkpoint of a trial with the best metric; None if no checkpoint has a number for it."""
        metric, mode = self._metric_and_mode(metric, mode)
        sign = 1.0 if mode == "max" else -1.0
        known = [
            (value, each.index, each)
            for each in trial.kept
            if (value := score(each.metrics, metric)) is not None
        ]
        return (
            trial.folder.checkpoint(max(known, key=lambda each: (sign * each[0], each[1]))[2].name)
            if known
            else None
        )

    def get_last_checkpoint(
        self, trial: Trial | None = None, metric: str = "training_iteration", mode: str = "max"
    ) -> Checkpoint | None:
        """Return the last checkpoint of a trial, by default of the one with the most progress."""
        found = trial or self.get_best_trial(metric, mode)
        return None if found is None else found.checkpoint

    def _best(self) -> Trial:
        if not self.default_metric:
            raise ValueError(
                "To fetch the `best_config` and the like, pass a `metric` and `mode` parameter to `tune.run()`, or use "
                "get_best_config(metric, mode)"
            )
        found = self.get_best_trial()
        if found is None:
            raise ValueError(f"no trial has reported a finite number for {self.default_metric!r}")
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the trials without their experiment, whose function need not be known where they are loaded."""
        trials = [copy.copy(trial) for trial in self.trials]
        for trial in trials:
            trial.experiment = None
        return {**self.__dict__, "trials": trials}

    @property
    def best_trial(self) -> Trial:
        """The best trial by the search's own metric and mode."""
        return self._best()

    @property
    def best_config(self) -> dict[str, Any]:
        """The configuration of the best trial."""
        return self._best().config

    @property
    def best_checkpoint(self) -> Checkpoint | None:
        """The best checkpoint of the best trial."""
        return self.get_best_checkpoint(self._best())

    @property
    def best_result(self) -> dict[str, Any]:
        """The last result of the best trial."""
        return self._best().last_result

    @property
    def best_dataframe(self) -> Any:
        """All results of the best trial, as a DataFrame."""
        return self.trial_dataframes[self._best().trial_id]

    @property
    def best_result_df(self) -> Any:
        """The last result of the best trial, as a table of one row."""
        best = self._best()
        return self._table([_row(best, best.last_result)]).set_index("trial_id")

    # -- tables

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """The last result of each trial, by its id."""
        return {trial.trial_id: trial.last_result for trial in self.trials}

    @property
    def results_df(self) -> Any:
        """The last result of each trial, one per row."""
        import pandas as pd  # takes 300 ms, and most searches never need it

        rows = [
            {**_row(trial, trial.last_result), "experiment_tag": trial.experiment_tag}
            for trial in self.trials
        ]
        return pd.DataFrame(rows).set_index("trial_id") if rows else pd.DataFrame()

    def _table(self, rows: list[dict[str, Any]]) -> Any:
        import pandas as pd  # imported only if used

        return pd.DataFrame(rows)

    def rows(self, trial: Trial) -> list[dict[str, Any]]:
        """Return all results of a trial, from its result.json, or from the journal if it has none."""
        found = rows_of(trial.folder)
        return found or [trial.last_result] * bool(trial.results)

    @property
    def trial_dataframes(self) -> dict[str, Any]:
        """All results of each trial, by its id."""
        return {trial.trial_id: self._table([flat(row) for row in self.rows(trial)]) for trial in self.trials}

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> Any:
        """Return one row per trial: its last result or, with a mode, the result with the best metric.

        Raises:
            ValueError: a mode was given without a metric, or is neither "min" nor "max".
        """
        if mode is not None and metric is None:
            raise ValueError(f"a mode needs a metric: you'll also have to pass a `metric` with mode={mode!r}")
        _mode(mode)
        found = []
        for trial in self.trials:
            row: dict[str, Any] | None = trial.last_result
            if mode is not None and metric is not None:
                known = [
                    (value, each) for each in self.rows(trial) if (value := score(each, metric)) is not None
                ]
                choose = max if mode == "max" else min
                row = choose(known, key=lambda each: each[0])[1] if known else row
            if row:
                found.append(_row(trial, row))
        return self._table(found)

    def get_all_configs(self, prefix: bool = False) -> dict[str, dict[str, Any]]:
        """Return each trial's configuration by trial id; with `prefix`, names begin with "config/"."""
        return {
            trial.trial_id: {
                f"config/{name}" if prefix else name: value for name, value in trial.config.items()
            }
            for trial in self.trials
        }

    @property
    def experiment_path(self) -> str:
        """The folder of the search."""
        return self._folder.path

    def __repr__(self) -> str:
        return f"<ExperimentAnalysis of {len(self.trials)} trials at {self._folder.path}>"


def _mode(mode: Any) -> Any:
    try:
        return checked_mode(mode)
    except ValueError as error:
        raise ValueError(f"If set, `mode` has to be one of [min, max]. {error}") from None


def _row(trial: Trial, result: dict[str, Any]) -> dict[str, Any]:
    found = flat({name: value for name, value in result.items() if name not in ("config", "experiment_tag")})
    found.update({f"config/{name}": value for name, value in flat(trial.config).items()})
    found["logdir"] = trial.relative_logdir
    return found
