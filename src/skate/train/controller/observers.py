"""Observers of a run: the user's callbacks, the line on the terminal, the timeline. One interface for the
controller.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from skate.train.controller.callbacks import Callbacks
from skate.train.controller.machine import ERRORED, FINISHED, RUNNING
from skate.train.controller.progress import Progress
from skate.train.controller.run_figures import RunFigures
from skate.train.controller.run_state import RunState
from skate.train.controller.timeline_spans import Spans


class Observers:
    """All observers of one run."""

    def __init__(self, run: Any) -> None:
        logging = run.run_config.logging_config
        self.callbacks = Callbacks(run)
        self.progress = Progress(run.name, run.folder.path, logging.log_level if logging else "INFO")
        self.spans = Spans(run.name)
        self.figures = RunFigures(run.name)
        self.state = RunState(run, self.figures, self.spans)

    @contextlib.contextmanager
    def whole_run(self, reports: int) -> Iterator[None]:
        """Cover the run from before the workers start until they have ended; `reports` is the number from earlier
        calls of `fit`.
        """
        try:
            self.figures.begin()
            self.state.begin()
            self.callbacks.begin(reports)
            yield
        except BaseException as error:  # Ctrl-C too: before_run needs its counterpart
            self.figures.end(ERRORED)
            self.state.end()
            self.progress.ended(error)
            self.callbacks.end(error)
            raise
        self.figures.end(FINISHED)
        self.state.end()
        self.progress.ended(None)
        self.callbacks.end(None)

    def started(self, where: Sequence[Mapping[str, Any]]) -> None:
        """Record that the workers of an attempt run: their processes and nodes, by rank."""
        self.figures.in_state(RUNNING)
        self.spans.started([each["pid"] for each in where])
        self.state.started(where)
        self.progress.started()

    def reported(self, number: int, reports: Sequence[Any], checkpoint: Any) -> None:
        """Record that a report of all ranks has been processed; lost ranks have None.

        Raises:
            ControllerError: a callback raised.
        """
        metrics = [{} if each is None else each.metrics for each in reports]
        self.progress.reported(metrics, checkpoint is not None)
        self.callbacks.reported(metrics, checkpoint)
        seconds = [0.0 if each is None else each.seconds for each in reports]
        self.figures.reported(self.spans.arrivals_of("report", number), seconds)
        self.spans.released("report", number, reports, checkpoint)
