"""Selection of a search's reporter: the user's, a table in a terminal or a notebook, or none."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

from skate.tune import progress_reporter as reporters


class Adapted:
    """The user's own reporter, called when its `should_report` is true."""

    def __init__(self, reporter: Any) -> None:
        self._reporter = reporter

    def look(self, trials: list[Any], done: bool) -> None:
        """Report if a report is due."""
        if self._reporter.should_report(trials, done):
            self._reporter.report(trials, done)


def reporter_for(run_config: Any, machine: Any, tune_config: Any) -> Any:
    """Return the reporter of a search; None if nothing is shown."""
    given, verbose = run_config.progress_reporter, run_config._verbose
    metric = tune_config.metric if isinstance(tune_config.metric, str) else None
    mode = tune_config.mode if isinstance(tune_config.mode, str) else None
    if given is None:
        given = _default(None if verbose is None else int(verbose))
        if given is None:
            return None
        metric, mode = metric or machine.scheduler_alg.metric, mode or machine.scheduler_alg._mode
    given.setup(
        start_time=time.time(), total_samples=machine.search_alg.total_samples, metric=metric, mode=mode
    )
    return given if isinstance(given, reporters.TuneReporterBase) else Adapted(given)


def _default(verbose: int | None) -> Any:
    if verbose == 0:
        return None
    if reporters.in_notebook():
        return reporters.JupyterNotebookReporter()
    if reporters.in_terminal():
        return reporters.LiveReporter() if importlib.util.find_spec("rich") else reporters.CLIReporter()
    # No terminal and no notebook: show nothing, or only the end if requested.
    return reporters.FinalReporter() if verbose else None
