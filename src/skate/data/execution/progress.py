"""Progress lines on the terminal while a plan runs: rows, rows per second, queued bytes. Silent without a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any

from skate.data.context import DataContext
from skate.data.execution.operators import Running
from skate.data.execution.stats import size_text
from skate.data.execution.topology import Topology

#: A run shorter than this shows nothing.
QUIET_SECONDS = 0.5
_EVERY_SECONDS = 0.1
_BAR_LETTERS = 12
_NAME_LETTERS_MIN = 8
_GAP = 2


def progress_of(topology: Topology, context: DataContext, name: str | None) -> Progress | None:
    """Return the progress display, or None if none is to be shown."""
    if not context.enable_progress_bars or not _is_terminal(sys.stderr):
        return None
    return Progress(topology, name)


def _is_terminal(stream: Any) -> bool:
    """True if the stream is a terminal; programs and notebooks replace stderr with arbitrary objects."""
    ask = getattr(stream, "isatty", None)
    return ask is not None and bool(ask())


class Progress:
    """Progress lines, repainted at intervals; the run calls `look` as often as it likes."""

    def __init__(self, topology: Topology, name: str | None) -> None:
        self._topology = topology
        self._name = name
        self._started = time.monotonic()
        self._painted = self._started
        self._live: Any = None
        self._seconds_of: dict[int, float] = {}

    def look(self) -> None:
        """Repaint if the interval has passed."""
        now = time.monotonic()
        if now - self._started < QUIET_SECONDS or now - self._painted < _EVERY_SECONDS:
            return
        self._painted = now
        try:
            if self._live is None:
                self._live = _live()
                self._live.start()
            self._paint(now)
        except Exception:  # a run must not fail because the terminal does
            self._topology = Topology()

    def _paint(self, now: float) -> None:
        self._live.update(self.table(now - self._started, self._live.console.width), refresh=True)

    def table(self, seconds: float, width: int = 80) -> Any:
        """Build the progress lines."""
        from rich.progress_bar import ProgressBar  # only terminals need it
        from rich.table import Table

        now = {id(each): self._seconds(each, seconds) for each in self._topology.operators}
        lines = [cells(each, now[id(each)]) for each in self._topology.operators]
        headers = ("rows", "rows/s", "running", "waiting")
        widths = [
            max(len(header), *(len(line[at + 1]) for line in lines)) for at, header in enumerate(headers)
        ]
        letters = max(_NAME_LETTERS_MIN, width - _BAR_LETTERS - sum(widths) - _GAP * (len(widths) + 2))
        title = f"{self._name or 'Dataset'}, {seconds:.0f} s"
        table = Table(title=title, title_justify="left", box=None, padding=(0, _GAP, 0, 0))
        for column in ("step", ""):
            table.add_column(column, no_wrap=True)
        for header in headers:
            table.add_column(header, justify="right", no_wrap=True)
        for operator, (name, *texts) in zip(self._topology.operators, lines, strict=True):
            bar = ProgressBar(total=1.0, completed=self.share(operator), width=_BAR_LETTERS)
            table.add_row(name if len(name) <= letters else name[: letters - 1] + "…", bar, *texts)
        return table

    def _seconds(self, operator: Running, seconds: float) -> float:
        """Return how long an operator has been running, or ran."""
        return self._seconds_of.setdefault(id(operator), seconds) if operator.finished else seconds

    def share(self, operator: Running) -> float:
        """Estimate the fraction of an operator's work that is done, between 0 and 1: of its known pieces,
        scaled by the progress of the operators before it."""
        if operator.finished:
            return 1.0
        before = min((self.share(each) for each in self._topology.inputs_of(operator)), default=1.0)
        ended = len(operator.counters.seconds)
        total = operator.tasks + len(getattr(operator, "queue", ()))
        return before * (ended / total if total else 0.0)

    def close(self) -> None:
        """Leave the last lines on the terminal."""
        if self._live is not None:
            self._paint(time.monotonic())
            self._live.stop()
            self._live = None


def cells(operator: Running, seconds: float) -> tuple[str, str, str, str, str]:
    """Return the text cells of one operator's line."""
    rows = operator.counters.rows_out
    waiting = operator.outputs.bytes + operator.queued_bytes
    rate = f"{rows / seconds:,.0f}" if seconds > 0 else ""
    state = "done" if operator.finished else str(operator.running)
    return operator.name, f"{rows:,}", rate, state, size_text(waiting)


def _live() -> Any:
    from rich.console import Console  # imported only if used
    from rich.live import Live

    return Live(console=Console(stderr=True), auto_refresh=False, transient=False)
