"""Printing of other processes' output in a separate thread, so that no other thread waits for a terminal or a full pipe.

Up to `HELD_BYTES_MAX` wait in memory; beyond that, callers that print more must wait as well.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from skate.wire.limits import LimitReached, start_thread

if TYPE_CHECKING:
    from skate.node.output.line_style import LineStyle

#: Variables of Ray that change how lines are printed.
STYLES = ("RAY_DISABLE_WORKER_LOG_PREFIX", "RAY_COLOR_PREFIX", "RAY_DEDUP_LOGS")
HELD_BYTES_MAX = 1 << 25
# At the end, give up on a stream that has accepted nothing for so long.
STALL_TIMEOUT_SECONDS = 2.0


class Printer:
    """Prints texts to stdout and stderr, in order of arrival."""

    def __init__(self, on_printed: Callable[[int], None] | None = None) -> None:
        #: Called with the length of every printed text.
        self._on_printed = on_printed
        #: Texts to print, as (is_error, text). The condition guards the queue, its size and `_ended`.
        self._held: deque[tuple[bool, str]] = deque()
        self._held_size = 0
        self._changed = threading.Condition()
        self._printed = 0
        self._ended = False
        self._thread: threading.Thread | None = None
        self._style = _style()

    def hold(self, is_error: bool, text: str) -> None:
        """Queue a text for printing."""
        with self._changed:
            while self._held_size > HELD_BYTES_MAX and not self._ended:
                self._changed.wait()
            self._held.append((is_error, text))
            # Not the length, because a character takes up to four bytes.
            self._held_size += sys.getsizeof(text)
            if self._thread is None and not self._ended:
                with contextlib.suppress(LimitReached):
                    self._thread = start_thread(self._print_all, "skate-print")
            alone = self._thread is None
            self._changed.notify_all()
        if alone:
            # The system starts no more threads, so the caller prints, and waits for the terminal.
            self._print_all(until_empty=True)

    def _print_all(self, until_empty: bool = False) -> None:
        while True:
            with self._changed:
                while not self._held:
                    if self._ended or until_empty:
                        return
                    self._changed.wait()
                is_error, text = self._held.popleft()
                self._held_size -= sys.getsizeof(text)
                self._changed.notify_all()
            shown = text if self._style is None else self._style.styled(text)
            _write(sys.stderr if is_error else sys.stdout, shown)
            self._printed += 1
            if self._on_printed is not None:
                self._on_printed(len(text))

    def close(self) -> None:
        """Print the rest and stop."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self.wait_for(self._thread)
        rest = "" if self._style is None else self._style.rest()
        if rest:
            _write(sys.stdout, rest)

    def wait_for(self, thread: threading.Thread | None) -> None:
        """Wait for a thread to end, as long as printing makes progress."""
        if thread is None or thread is threading.current_thread():
            return
        printed = -1
        while thread.is_alive() and printed != self._printed:
            printed = self._printed
            thread.join(STALL_TIMEOUT_SECONDS)


def _style() -> LineStyle | None:
    """Return the style that the environment asks for; None for the usual one."""
    if not any(name in os.environ for name in STYLES):
        return None
    from skate.node.output import line_style  # few programs ask for one

    return line_style.from_environment()


def _write(stream: object, text: str) -> None:
    """Print to the program's current stdout or stderr."""
    try:
        try:
            stream.write(text)  # type: ignore[attr-defined]
        except UnicodeEncodeError:
            encoding = getattr(stream, "encoding", None) or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))  # type: ignore[attr-defined]
        stream.flush()  # type: ignore[attr-defined]
    except Exception:  # the stream belongs to the program, and may raise anything
        return
