"""A line about a run on the terminal while it runs; without a terminal, a line when it starts, fails and ends.

`RunConfig(logging_config=LoggingConfig(log_level="WARNING"))` shows only problems, "ERROR" nothing. A run that
ends quickly prints nothing.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from skate.train.controller.run_metrics import RunMetrics, seconds_text

#: A run shorter than this prints nothing.
QUIET_SECONDS = 1.0
_EVERY_SECONDS = 0.1
_LEVELS = {"DEBUG": 10, "INFO": 20, "WARN": 30, "WARNING": 30, "ERROR": 40, "CRITICAL": 50, "NOTSET": 0}
INFO, WARNING = 20, 30


class Progress:
    """Receives the events of a run; the controller calls `look` as often as it likes."""

    def __init__(self, name: str, path: str, log_level: str | int, stream: Any = None) -> None:
        self.name = name
        self.path = path
        self.run_metrics = RunMetrics()
        self._stream = stream or sys.stderr
        self._level = _LEVELS.get(str(log_level).upper(), log_level if isinstance(log_level, int) else INFO)
        self._began = self._painted = self._running_since = time.monotonic()
        self._state = "starting"
        self._workers = 0
        self._attempt = 0
        self._printed_start = False
        self._live: Any = None
        self._on_terminal = (
            self._level <= INFO
            and _is_terminal(self._stream)
            and importlib.util.find_spec("rich") is not None
        )

    def starting(self, attempt: int, workers: int) -> None:
        """Note that an attempt starts its workers."""
        self._attempt, self._workers, self._state = attempt, workers, "starting"
        self.look()

    def started(self) -> None:
        """Note that the workers run."""
        self._state = ""
        if not self.run_metrics.reports:  # a slow start must not count as slow progress
            self._running_since = time.monotonic()
        self.look()

    def reported(self, metrics: Sequence[Mapping[str, Any]], with_checkpoint: bool) -> None:
        """Note that all ranks have reported."""
        self.run_metrics.reported(metrics, with_checkpoint)
        self.look()

    def failed(self, first_line: str, retries: bool) -> None:
        """Note that workers have failed; the run restarts, or ends with the error that `fit` raises."""
        if retries and self._level <= WARNING:
            self._print(f"attempt {self._attempt} failed, and the run starts again: {first_line}")
            self._printed_start = True

    def ended(self, error: BaseException | None) -> None:
        """Print how the run ended."""
        seconds = time.monotonic() - self._began
        self._close()
        if seconds < QUIET_SECONDS and not self._printed_start:
            return
        if self._level <= (INFO if error is None else WARNING):
            how = "finished" if error is None else f"failed ({type(error).__name__})"
            words = [f"{how} after {seconds_text(seconds)}", *self.run_metrics.course()]
            if self.run_metrics.reports:
                words.append(_count(self.run_metrics.reports, "report"))
            if self.run_metrics.checkpoints:
                words.append(_count(self.run_metrics.checkpoints, "checkpoint"))
            words += self._speed()[1:]
            self._print("  ".join([*words, self.path]))

    def look(self) -> None:
        """Repaint if it is time to, or print that the run has started."""
        now = time.monotonic()
        if now - self._began < QUIET_SECONDS:
            return
        if not self._on_terminal:
            if not self._printed_start and self._level <= INFO:
                self._printed_start = True
                self._print(f"{_count(self._workers, 'worker')}, results go to {self.path}")
            return
        if now - self._painted < _EVERY_SECONDS:
            return
        self._painted = now
        try:
            if self._live is None:
                self._live = _live(self._stream)
                self._live.start()
            self._live.update(_text(self.line(now - self._began)), refresh=True)
        except Exception:  # a run must not fail because the terminal does
            self._on_terminal = False

    def line(self, seconds: float) -> str:
        """Format the current line."""
        words = [self.name, _count(self._workers, "worker")]
        if self._attempt > 1:
            words.append(f"attempt {self._attempt}")
        if self._state:
            words.append(self._state)
        words += [*self.run_metrics.course(), *self._speed(), seconds_text(seconds)]
        return "  ".join(words)

    def _speed(self) -> list[str]:
        return self.run_metrics.speed(time.monotonic() - self._running_since)

    def _print(self, text: str) -> None:
        # While the line is on the terminal, other output goes above it.
        print(
            f"train: run {self.name!r}: {text}", file=sys.stderr if self._live else self._stream, flush=True
        )

    def _close(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # stderr is not a file, or is closed
        return False


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _live(stream: Any) -> Any:
    from rich.console import Console  # only terminals need it
    from rich.live import Live

    return Live(console=Console(file=stream), auto_refresh=False, transient=True)


def _text(line: str) -> Any:
    from rich.text import Text  # imported only if used

    return Text(line)  # not a str, in which brackets would be markup
