"""Reporters: the progress of a search as a table."""

from __future__ import annotations

import html
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

from skate.tune.experiment.trial import Trial
from skate.tune.metrics import flat, number, users

_BY_STATUS = (Trial.RUNNING, Trial.ERROR, Trial.PAUSED, Trial.PENDING, Trial.TERMINATED)


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
        self._lists = [isinstance(each, (list, tuple)) for each in (metric_columns, parameter_columns)]
        self._total = total_samples
        self._rows, self._error_rows, self._width = max_progress_rows, max_error_rows, max_column_length
        self._every, self._infer = max_report_frequency, infer_limit
        self._intermediate = print_intermediate_tables
        self._metric, self._mode, self._sort = metric, mode, sort_by_metric
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
        self._metric = self._metric or metric
        self._mode = self._mode or mode

    def set_search_properties(self, metric: str | None, mode: str | None) -> bool:
        """Set metric and mode; False if they are already set."""
        if self._metric and metric or self._mode and mode:
            return False
        self._metric, self._mode = metric or self._metric, mode or self._mode
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
        self._metric_columns = {**(self._metric_columns or {}), metric: representation or metric}

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Add a column for a parameter.

        Raises:
            ValueError: there is such a column, or the columns were given as a list, which has no headings.
        """
        _check_new(self._parameter_columns, parameter, representation, self._lists[1])
        self._parameter_columns = {**(self._parameter_columns or {}), parameter: representation or parameter}

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        """True at the end, and at intervals if intermediate tables are shown."""
        if done:
            return True
        return not (self._intermediate is False or time.time() - self._last < self._every)

    # -- the table

    def table(self, trials: Sequence[Trial]) -> tuple[list[str], list[list[str]]]:
        """Return headings and rows."""
        metrics = self._metric_columns or {name: name for name in self._inferred(trials)}
        parameters = self._parameter_columns or {name: name for name in _parameters(trials)}
        headings = ["trial", "status", *parameters.values(), "iter", "time (s)", *metrics.values()]
        rows = []
        for trial in self._ordered(trials)[: self._rows]:
            result, config = flat(trial.last_result), flat(trial.config)
            values: list[Any] = [str(trial), trial.status]
            values += [config.get(name) for name in parameters]
            values += [result.get("training_iteration"), result.get("time_total_s")]
            values += [result.get(name) for name in metrics]
            rows.append([self._shown(value) for value in values])
        return headings, rows

    def _shown(self, value: Any) -> str:
        if value is None:
            return ""
        text = f"{value:.5g}" if isinstance(value, float) else str(value)
        return text if len(text) <= self._width + 12 else "..." + text[-self._width :]

    def _ordered(self, trials: Sequence[Trial]) -> list[Trial]:
        metric = self._metric
        if self._sort and metric:
            sign = -1.0 if self._mode == "max" else 1.0

            def key(trial: Trial) -> tuple[bool, float]:
                value = number(flat(trial.last_result).get(metric))
                return (value is None, sign * (value or 0.0))

            return sorted(trials, key=key)
        return sorted(trials, key=lambda trial: _BY_STATUS.index(trial.status))

    def _inferred(self, trials: Sequence[Trial]) -> list[str]:
        found: Counter[str] = Counter()
        for trial in trials:
            found.update(
                name for name, value in flat(users(trial.last_result)).items() if number(value) is not None
            )
        names = [name for name, _ in found.most_common() if name != self._metric][: self._infer]
        return ([self._metric] if self._metric else []) + names

    def summary(self, trials: Sequence[Trial]) -> str:
        """Return the number of trials by status, and the best so far, in one or two lines."""
        counts = Counter(trial.status for trial in trials)
        of = f" of {self._total}" if self._total and self._total < 2**31 else ""
        parts = ", ".join(f"{counts[status]} {status.lower()}" for status in _BY_STATUS if counts[status])
        line = f"{len(trials)}{of} trials: {parts or 'none'}; {time.time() - self._started:.0f} s"
        best = self._best(trials)
        return line if best is None else f"{line}\n{best}"

    def _best(self, trials: Sequence[Trial]) -> str | None:
        if not self._metric or not self._mode:
            return None
        known = [
            (h.last, t)
            for t in trials
            if (h := t.histories.by_name.get(self._metric)) is not None and h.last == h.last
        ]
        if not known:
            return None
        value, trial = (max if self._mode == "max" else min)(known, key=lambda each: each[0])
        return f"best: {trial} with {self._metric}={value:.5g} and {flat(trial.evaluated_params or trial.config)}"

    def errors(self, trials: Sequence[Trial]) -> str:
        """Return the failed trials, and the paths of their errors."""
        failed = [trial for trial in trials if trial.error_text]
        lines = [
            f"  {trial}: {trial.num_failures} failures, {trial.error_file}"
            for trial in failed[: self._error_rows]
        ]
        return "\n".join([f"{len(failed)} trials with errors:", *lines]) if failed else ""

    def as_text(self, trials: Sequence[Trial]) -> str:
        """Format the report as plain text."""
        headings, rows = self.table(trials)
        widths = [max(len(row[at]) for row in [headings, *rows]) for at in range(len(headings))]
        lines = [self.summary(trials)]
        for row in [headings, ["-" * width for width in widths], *rows]:
            lines.append(
                "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()
            )
        if len(trials) > self._rows:
            lines.append(f"... and {len(trials) - self._rows} more")
        return "\n".join([*lines, *filter(None, [self.errors(trials)])])

    def as_rich(self, trials: Sequence[Trial]) -> Any:
        """Return the report as a rich renderable.

        Raises:
            ImportError: rich is not installed.
        """
        from rich.console import Group  # only needed for output
        from rich.table import Table
        from rich.text import Text

        headings, rows = self.table(trials)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in headings:
            table.add_column(heading)
        for row in rows:
            table.add_row(*(Text(value) for value in row))
        return Group(
            *(Text(part) for part in [self.summary(trials)]), table, *filter(None, [self.errors(trials)])
        )

    def _progress_str(self, trials: list[Trial], done: bool, *sys_info: str) -> str:
        """Return the text of a report; subclasses of users call it."""
        return "\n".join([self.as_text(trials), *sys_info])

    def look(self, trials: list[Trial], done: bool) -> None:
        """Report if a report is due."""
        if self.should_report(trials, done):
            self._last = time.time()
            self.report(trials, done)


class CLIReporter(TuneReporterBase):
    """Prints tables."""

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        """Print the table."""
        print(self._progress_str(trials, done, *sys_info) + "\n", flush=True)


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


def _parameters(trials: Sequence[Trial]) -> list[str]:
    found: dict[str, None] = {}
    for trial in list(trials)[:50]:
        found.update(dict.fromkeys(flat(trial.evaluated_params)))
    return list(found)[:6]


def in_terminal() -> bool:
    """True if output goes to a terminal."""
    return bool(getattr(sys.stdout, "isatty", lambda: False)())


def in_notebook() -> bool:
    """True in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


IS_NOTEBOOK = in_notebook()
