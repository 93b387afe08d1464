"""The results of a search, one per trial."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

from skate.train.checkpoint import Checkpoint
from skate.train.storage import filesystem as files
from skate.tune.analysis import ExperimentAnalysis
from skate.tune.experiment.trial import Trial
from skate.tune.result import AUTO_RESULT_KEYS, DONE, TIME_THIS_ITER_S, Result
from skate.tune.utils.dicts import flatten_dict
from skate.widgets import html_table

#: The most metrics in a notebook's table of trials.
METRICS_SHOWN = 8


class ResultGrid:
    """A sequence of `Result`s, with a lookup of the best."""

    def __init__(self, experiment_analysis: ExperimentAnalysis) -> None:
        self._experiment_analysis = experiment_analysis
        self._made: dict[int, Result] = {}

    @property
    def experiment_path(self) -> str:
        """The folder of the search."""
        return self._experiment_analysis.experiment_path

    @property
    def filesystem(self) -> Any:
        """The pyarrow filesystem that the folder is on."""
        return Checkpoint(self.experiment_path, self._experiment_analysis._folder.filesystem).filesystem

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Result:
        """Return the result of the trial with the largest ("max") or smallest ("min") metric.

        Args:
            metric, mode: those of TuneConfig by default; a search of one trial needs none.
            scope: "last", "avg", "last-5-avg", "last-10-avg", or "all" for the best value that a trial has ever
                reported.
            filter_nan_and_inf: skip trials whose value is not finite.

        Raises:
            ValueError: no trial reports the metric; the error lists the reported ones.
            RuntimeError: no trial has a finite number for it.
        """
        analysis = self._experiment_analysis
        complete = (metric or analysis.default_metric) and (mode or analysis.default_mode)
        if len(self) == 1 and not complete:
            return self[0]  # the only trial is the best, regardless of its metrics
        if not (metric or analysis.default_metric):
            raise ValueError(
                "No metric is provided. Either pass in a `metric` arg to `get_best_result` or specify a metric in the "
                f"`TuneConfig` of your `Tuner`; reported are: {', '.join(analysis._reported()) or 'none'}"
            )
        if not (mode or analysis.default_mode):
            raise ValueError(
                "No mode is provided. Either pass in a `mode` arg to `get_best_result` or specify a mode in the `TuneConfig` "
                'of your `Tuner`: "min" or "max"'
            )
        best = analysis.get_best_trial(metric, mode, scope, filter_nan_and_inf)
        if best is None:
            analysis.check_reported(str(metric or analysis.default_metric))
            metric = metric or analysis.default_metric
            assert metric is not None  # otherwise rejected above
            analysis.check_reported(metric)
            failed = f"; {self.num_errors} of {len(self)} trials failed" if self.num_errors else ""
            raise RuntimeError(
                f"No best trial found for the given metric: {metric}. No trial has reported a finite "
                f"number for it{failed}. See ResultGrid.errors"
            )
        return self._result(best)

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> Any:
        """Return one row per trial: its last result, or the result with the best metric."""
        return self._experiment_analysis.dataframe(filter_metric, filter_mode)

    def __len__(self) -> int:
        return len(self._experiment_analysis.trials)

    @overload
    def __getitem__(self, i: int) -> Result: ...

    @overload
    def __getitem__(self, i: slice) -> list[Result]: ...

    def __getitem__(self, i: int | slice) -> Result | list[Result]:
        trials = self._experiment_analysis.trials
        if isinstance(i, slice):
            return [self._result(trial) for trial in trials[i]]
        if not -len(trials) <= i < len(trials):
            raise IndexError(f"index {i} is out of range: there are {len(trials)} results")
        return self._result(trials[i])

    def __iter__(self) -> Iterator[Result]:
        for trial in self._experiment_analysis.trials:
            yield self._result(trial)

    @property
    def errors(self) -> list[Exception]:
        """The errors of the trials that have failed."""
        return [result.error for result in self if result.error is not None]

    @property
    def num_errors(self) -> int:
        """The number of failed trials."""
        return sum(trial.status == Trial.ERROR for trial in self._experiment_analysis.trials)

    @property
    def num_terminated(self) -> int:
        """The number of successful trials."""
        return sum(trial.status == Trial.TERMINATED for trial in self._experiment_analysis.trials)

    def _result(self, trial: Trial) -> Result:
        found = self._made.get(id(trial))
        if found is None:
            found = self._made[id(trial)] = result_of(trial)
        return found

    def __repr__(self) -> str:
        inner = ",\n".join("  " + repr(result).replace("\n", "\n  ") for result in self)
        return f"ResultGrid<[\n{inner}\n]>" if inner else "ResultGrid<[]>"

    def _repr_html_(self) -> str:
        """Return a table of the trials for notebooks: settings that differ, and the numbers of the last report."""
        trials = self._experiment_analysis.trials
        configs = [flatten_dict(trial.config) for trial in trials]
        reports = [flatten_dict(trial.last_result or {}) for trial in trials]
        settings = [
            name
            for name in dict.fromkeys(name for config in configs for name in config)
            if len({repr(config.get(name)) for config in configs}) > 1
        ]
        metrics = [
            name
            for name in dict.fromkeys(name for report in reports for name in report)
            if name not in (*AUTO_RESULT_KEYS, TIME_THIS_ITER_S, DONE)
            and not name.startswith("config/")
            and any(isinstance(report.get(name), int | float) for report in reports)
        ]
        rows = (
            (
                trial.trial_id,
                trial.status,
                *(config.get(name, "") for name in settings),
                *(report.get(name, "") for name in metrics[:METRICS_SHOWN]),
            )
            for trial, config, report in zip(trials, configs, reports, strict=True)
        )
        columns = ("trial", "status", *settings, *metrics[:METRICS_SHOWN])
        return html_table(columns, rows, f"{len(trials)} trials in {self.experiment_path}")


def result_of(trial: Trial) -> Result:
    """Create the result of a trial."""
    folder = trial.folder
    kept = trial.ranked()
    error = trial.get_error() if trial.status == Trial.ERROR else None
    if trial.status == Trial.ERROR and trial.pickled_error is None:
        error = _pickled(trial) or error
    latest = trial.checkpoint
    return Result(
        metrics=trial.last_result,
        checkpoint=latest,
        error=error,  # type: ignore[arg-type]  # whatever the trial raised
        path=folder.path,
        metrics_dataframe=folder,
        best_checkpoints=[(folder.checkpoint(each.name), each.metrics) for each in kept],
        _storage_filesystem=folder.filesystem,
    )


def _pickled(trial: Trial) -> Exception | None:
    import pickle  # only needed for trials of earlier sessions

    contents = files.read_bytes(trial.folder.filesystem, trial.folder.at("error.pkl"))
    if contents is None:
        return None
    try:
        found: Exception = pickle.loads(contents)
        return found
    except Exception:  # a class of the program that wrote it may be missing
        return None
