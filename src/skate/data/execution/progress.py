"""Lines on the terminal while a plan runs: rows, rows a second, bytes that wait. Nothing where there is no terminal."""

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


def progress_of(topology: Topology, context: DataContext, name: str | None) -> Progress | None:
    """What shows the run on the terminal, None if nothing is to be shown."""
    if not context.enable_progress_bars or not sys.stderr.isatty():
        return None
    return Progress(topology, name)


class Progress:
    """Lines that are painted anew now and then; `look` is called as often as the run likes."""

    def __init__(self, topology: Topology, name: str | None) -> None:
        self._topology = topology
        self._name = name
        self._started = time.monotonic()
        self._painted = self._started
        self._live: Any = None

    def look(self) -> None:
        """Paint if it is time to."""
        now = time.monotonic()
        if now - self._started < QUIET_SECONDS or now - self._painted < _EVERY_SECONDS:
            return
        self._painted = now
        try:
            if self._live is None:
                self._live = _live()
                self._live.start()
            self._live.update(self.table(now - self._started), refresh=True)
        except Exception:  # a terminal that cannot be painted on is no reason for a run to fail
            self._topology = Topology()

    def table(self, seconds: float) -> Any:
        """The lines as they are now."""
        from rich.table import Table  # only terminals need it

        title = f"{self._name or 'Dataset'}, {seconds:.0f} s"
        table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
        for column in ("step", "rows", "rows/s", "running", "waiting"):
            table.add_column(column, justify="left" if column == "step" else "right", no_wrap=True)
        for operator in self._topology.operators:
            table.add_row(*cells(operator, seconds))
        return table

    def close(self) -> None:
        """Leave the last lines on the terminal."""
        if self._live is not None:
            self._live.update(self.table(time.monotonic() - self._started), refresh=True)
            self._live.stop()
            self._live = None


def cells(operator: Running, seconds: float) -> tuple[str, str, str, str, str]:
    """What one line says of an operator."""
    rows = operator.tally.rows_out
    waiting = operator.outputs.bytes + operator.queued_bytes
    rate = f"{rows / seconds:,.0f}" if seconds > 0 else ""
    state = "done" if operator.finished else str(operator.running)
    return operator.name, f"{rows:,}", rate, state, size_text(waiting)


def _live() -> Any:
    from rich.console import Console  # as above
    from rich.live import Live

    return Live(console=Console(stderr=True), auto_refresh=False, transient=False)
