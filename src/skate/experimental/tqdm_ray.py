"""Progress bars that remain readable with many workers.

A worker prints whole lines at intervals, which appear on the driver's terminal after the worker's name; the
driver's own bar is drawn in place on a terminal. Bars of several processes therefore never overwrite each
other.
"""

from __future__ import annotations

import builtins
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from skate.client.runtime_context import in_worker

BAR_WIDTH = 20


def safe_print(*args: Any, **kwargs: Any) -> None:
    """Print on a separate line, even while a bar is being drawn."""
    if _drawn and kwargs.get("file") in (None, sys.stdout, sys.stderr):
        _erase()
    builtins.print(*args, **kwargs)


class tqdm:
    """A progress bar, usable in drivers, tasks and actors; it supports the tqdm arguments listed here.

    Args:
        iterable: the iterable to wrap; the bar advances by one per item.
        desc: the text in front of the bar.
        total: the number of steps; by default the length of the iterable.
        unit: the name of a step; by default "it".
        position: accepted for compatibility; positions are automatic.
        flush_interval_s: seconds between two lines; by default 1.
    """

    DEFAULT_FLUSH_INTERVAL_SECONDS = 1.0

    def __init__(
        self,
        iterable: Iterable[Any] | None = None,
        desc: str | None = None,
        total: int | None = None,
        unit: str | None = None,
        position: int | None = None,
        flush_interval_s: float | None = None,
    ) -> None:
        if total is None and iterable is not None:
            try:
                total = len(iterable)  # type: ignore[arg-type]
            except (TypeError, AttributeError):
                total = None
        self._iterable = iterable
        self._desc = desc or ""
        self._unit = unit or "it"
        self._interval_s = (
            self.DEFAULT_FLUSH_INTERVAL_SECONDS if flush_interval_s is None else flush_interval_s
        )
        self._began = time.monotonic()
        self._shown = float("-inf")
        self._closed = False
        self.total = total
        self.n = 0

    def set_description(self, desc: str) -> None:
        """Change the text in front of the bar."""
        self._desc = desc
        self._show()

    def update(self, n: int = 1) -> None:
        """Advance the bar by `n` steps."""
        self.n += n
        self._show()

    def refresh(self) -> None:
        """Show the bar again if the interval has passed."""
        self._show()

    def close(self) -> None:
        """Show the bar one last time."""
        if not self._closed:
            self._closed = True
            self._show(last=True)

    def __iter__(self) -> Iterator[Any]:
        if self._iterable is None:
            raise ValueError(
                "this tqdm was created without an iterable; call update() by hand, or pass an iterable"
            )
        for item in self._iterable:
            self.update(1)
            yield item
        self.close()

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def line(self) -> str:
        """Format the bar as text: `load:  40%|########            | 4/10 [2 s, 2 it/s]`."""
        seconds = time.monotonic() - self._began
        rate = f"{self.n / seconds:.3g} {self._unit}/s" if seconds > 0 else "?"
        front = f"{self._desc}: " if self._desc else ""
        if not self.total:
            return f"{front}{self.n} {self._unit} [{seconds:.0f} s, {rate}]"
        part = min(self.n / self.total, 1.0)
        bar = ("#" * round(part * BAR_WIDTH)).ljust(BAR_WIDTH)
        return f"{front}{part:4.0%}|{bar}| {self.n}/{self.total} [{seconds:.0f} s, {rate}]"

    def _show(self, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self._shown < self._interval_s:
            return
        self._shown = now
        if in_worker():
            builtins.print(self.line(), flush=True)
        elif sys.stderr.isatty():
            _erase()
            sys.stderr.write(self.line() + ("\n" if last else ""))
            sys.stderr.flush()
            if not last:
                _drawn.append(self)
        else:
            sys.stderr.write(self.line() + "\n")


#: The bar on the terminal's last line, if any.
_drawn: list[tqdm] = []


def _erase() -> None:
    if _drawn:
        _drawn.clear()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
