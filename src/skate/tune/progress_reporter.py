"""Reporters: the progress of a search as a table."""

from __future__ import annotations

import html
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

from skate.tune.experiment.trial import Trial
from skate.tune.metrics import AUTO_KEYS, number
from skate.tune.reporter import status_text
from skate.tune.result import AUTO_RESULT_KEYS

_AUTOMATIC = {*AUTO_RESULT_KEYS, *AUTO_KEYS}

#: Entries of a result that are never shown, because they are not metrics.
SKIP_RESULTS_IN_REPORT = {"config", "trial_id", "experiment_tag", "done"}


class ProgressReporter:
    """Base class of reporters; pass an instance to `RunConfig(progress_reporter=...)`."""

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Called once, before anything else."""

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        """True if a report is due."""
        return True

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        """Report the progress of the trials."""
        raise NotImplementedError(f"{type(self).__name__} must define report()")


class TuneReporterBase(ProgressReporter):
    """Base of reporters that show a table.

    Args:
        metric_columns, parameter_columns: names to show, or a dict of names to headings; inferred by default.
        total_samples: the number of trials to expect.
        max_progress_rows, max_error_rows: the most rows.
        max_column_length: the most characters of a value.
        max_report_frequency: the least seconds between two reports.
        infer_limit: the number of metrics shown when none are named.
        print_intermediate_tables: True to show tables before the end; by default in a terminal and in a notebook.
        metric, mode: decide which trial is best.
        sort_by_metric: best trials first.
    """

    #: Metrics with special headings.
    DEFAULT_COLUMNS: ClassVar[dict[str, str]] = {
        "mean_accuracy": "acc",
        "mean_loss": "loss",
        "training_iteration": "iter",
        "time_total_s": "total time (s)",
        "timesteps_total": "ts",
        "episode_reward_mean": "reward",
    }

    def __init__(
        self,
        *,
        metric_columns: Any = None,
        parameter_columns: Any = None,
        total_samples: int | None = None,
        max_progress_rows: int = 20,
        max_error_rows: int = 20,
        max_column_length: int = 20,
        max_report_frequency: int = 5,
        infer_limit: int = 3,
        print_intermediate_tables: bool | None = None,
        metric: str | None = None,
        mode: str | None = None,
        sort_by_metric: bool = False,
    ) -> None:
        self._metric_columns = _headings(metric_columns)
        self._parameter_columns = _headings(parameter_columns)
        #: True if the user named no columns, but added some to the usual ones.
        self._added_only = False
        self._lists = [isinstance(each, (list, tuple)) for each in (metric_columns, parameter_columns)]
        self._total = total_samples
        self._rows, self._error_rows, self._width = max_progress_rows, max_error_rows, max_column_length
        self._every, self._infer = max_report_frequency, infer_limit
        self._intermediate = print_intermediate_tables
        self._metric, self._mode, self._sort = metric, mode, sort_by_metric
        #: True once a search has set metric and mode, which a later search may do again.
        self._set_by_search = False
        self._started = time.time()
        self._last = 0.0

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Use the search's settings for those that were not given."""
        self._started = start_time or time.time()
        self._total = self._total or total_samples
        self.set_search_properties(metric, mode)

    def set_search_properties(self, metric: str | None, mode: str | None) -> bool:
        """Set metric and mode.

        Raises:
            ValueError: the reporter was made with one of them.
        """
        if not self._set_by_search and ((self._metric and metric) or (self._mode and mode)):
            raise ValueError(
                f"this {type(self).__name__} was made with metric={self._metric!r} and mode={self._mode!r}, so TuneConfig "
                f"cannot set metric={metric!r} and mode={mode!r}; set each in one place"
            )
        self._metric, self._mode = metric or self._metric, mode or self._mode
        self._set_by_search = True
        return True

    def set_total_samples(self, total_samples: int) -> None:
        """Set the number of trials to expect."""
        self._total = total_samples

    def set_start_time(self, timestamp: float | None = None) -> None:
        """Set the start time of the search."""
        self._started = timestamp or time.time()

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        """Add a metric column.

        Raises:
            ValueError: there is such a column, or the columns were given as a list, which has no headings.
        """
        _check_new(self._metric_columns, metric, representation, self._lists[0])
        self._added_only |= self._metric_columns is None
        self._metric_columns = {**(self._metric_columns or {}), metric: representation or metric}

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Add a column for a parameter.

        Raises:
            ValueError: there is such a column, or the columns were given as a list, which has no headings.
        """
        _check_new(self._parameter_columns, parameter, representation, self._lists[1])
        self._parameter_columns = {**(self._parameter_columns or {}), parameter: representation or parameter}

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        """True at the end, and at intervals."""
        if done or time.time() - self._last > self._every:
            self._last = time.time()
            return True
        return False

    # -- the report

    def _columns(self, trials: Sequence[Trial]) -> dict[str, str]:
        """Return the headings of metrics: the user's, or the usual ones and some of those that were reported."""
        if self._metric_columns is not None and not self._added_only:
            return self._metric_columns
        named = {**self.DEFAULT_COLUMNS, **(self._metric_columns or {})}
        return named if self._added_only else {**named, **self._inferred(trials)}

    def _inferred(self, trials: Sequence[Trial]) -> dict[str, str]:
        """Return up to `infer_limit` names of reported numbers."""
        found: dict[str, str] = {}
        for trial in trials:
            for name, value in trial.last_result.items():
                if len(found) >= self._infer:
                    return found
                if name not in self.DEFAULT_COLUMNS and name not in _AUTOMATIC and number(value) is not None:
                    found[name] = name
        return found

    def _best(self, trials: Sequence[Trial]) -> tuple[Trial | None, str | None]:
        metric = self._metric
        if metric is None and self._metric_columns is None:
            names = self._inferred(trials)
            metric = next(iter(names)) if len(names) == 1 else None
        if metric is None or not self._mode:
            return None, metric
        known = [(number(status_text.lookup(metric, trial.last_result)), trial) for trial in trials]
        scored = [(value, trial) for value, trial in known if value is not None and value == value]
        if not scored:
            return None, metric
        return (max if self._mode == "max" else min)(scored, key=lambda each: each[0])[1], metric

    def table(self, trials: Sequence[Trial], most: int | None) -> status_text.TrialTable:
        """Return the table of trials, with at most so many rows."""
        by = (self._metric, self._mode) if self._sort and self._metric and self._mode else None
        return status_text.table(
            trials,
            self._columns(trials),
            self._parameter_columns,
            most=most,
            width=self._width,
            sort_by=by,
        )

    def _head(self, trials: Sequence[Trial]) -> list[str]:
        lines = [status_text.passed(self._started, time.time())]
        trial, metric = self._best(trials)
        if trial is not None and metric is not None:
            lines.append(status_text.best(trial, metric, self._parameter_columns))
        if trials:
            lines += [
                f"Result logdir: {each}" for each in sorted({each for each in map(_folder, trials) if each})
            ]
            lines.append(status_text.counts(trials, self._total))
        return lines

    def as_rich(self, trials: Sequence[Trial]) -> Any:
        """Return the report as a rich renderable.

        Raises:
            ImportError: rich is not installed.
        """
        from rich.console import Group  # only needed for output
        from rich.table import Table
        from rich.text import Text

        made = self.table(trials, self._rows)
        shown = Table(box=None, pad_edge=False, header_style="bold")
        for heading in made.headings:
            shown.add_column(heading)
        for row in made.rows:
            shown.add_row(*(Text(_shown(value)) for value in row))
        tail = [*filter(None, [made.left_out]), *status_text.failed(trials, self._error_rows)]
        return Group(Text("\n".join(self._head(trials))), shown, *(Text(line) for line in tail))

    def _progress_str(self, trials: list[Trial], done: bool, *sys_info: str) -> str:
        """Return the text of a report; subclasses of users call it. At the end it has all trials."""
        if self._sort and not (self._metric and self._mode):
            self._sort = False
            warnings.warn(
                "Both 'metric' and 'mode' must be set to be able to sort by metric. No sorting is performed.",
                stacklevel=2,
            )
        first, *others = self._head(trials)
        lines = ["== Status ==", first, *sys_info, *others]
        if trials and (done or self._intermediate is not False):
            lines += self.table(trials, None if done else self._rows).lines()
        lines += status_text.failed(trials, None if done else self._error_rows) or [""]
        return "\n".join(lines) + "\n"

    def look(self, trials: list[Trial], done: bool) -> None:
        """Report if a report is due."""
        if self.should_report(trials, done):
            self.report(trials, done)


class CLIReporter(TuneReporterBase):
    """Prints tables."""

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        """Print the table."""
        print(self._progress_str(trials, done, *sys_info), flush=True)


class FinalReporter(CLIReporter):
    """Prints one table, at the end."""

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        """True at the end."""
        return done


class JupyterNotebookReporter(TuneReporterBase):
    """Shows the table in a notebook; with `overwrite` it replaces the previous one."""

    def __init__(self, *, overwrite: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._overwrite = overwrite
        self._handle: Any = None

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        """Show the table."""
        self.display(self._progress_str(trials, done, *sys_info))

    def display(self, string: str) -> None:
        """Show a text."""
        try:
            from IPython.display import HTML, display  # notebooks have it
        except ImportError:
            print(string)
            return
        shown = HTML(f"<pre>{html.escape(string)}</pre>")
        if self._overwrite and self._handle is not None:
            self._handle.update(shown)
        else:
            self._handle = display(shown, display_id=True)


class LiveReporter(TuneReporterBase):
    """A table that is updated in place in a terminal, with rich."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_report_frequency=1, **kwargs)
        self._live: Any = None

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        """Show the current table."""
        from rich.live import Live  # only needed for output

        if self._live is None:
            self._live = Live(auto_refresh=False, transient=False)
            self._live.start()
        self._live.update(self.as_rich(trials), refresh=True)
        if done:
            self._live.stop()


def _check_new(columns: dict[str, str] | None, name: str, heading: str | None, is_list: bool) -> None:
    if name in (columns or {}):
        raise ValueError(f"Column {name} already exists.")
    if is_list and heading not in (None, name):
        raise ValueError(
            f"the columns were given as a list, so {name!r} cannot have the heading {heading!r}: give them as a dict of names "
            "to headings"
        )


def _headings(given: Any) -> dict[str, str] | None:
    if given is None:
        return None
    return dict(given) if isinstance(given, dict) else {name: name for name in given}


def _folder(trial: Trial) -> str | None:
    return getattr(trial, "local_experiment_path", None)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def in_terminal() -> bool:
    """True if output goes to a terminal."""
    return bool(getattr(sys.stdout, "isatty", lambda: False)())


def in_notebook() -> bool:
    """True in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


IS_NOTEBOOK = in_notebook()
