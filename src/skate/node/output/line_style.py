"""How lines of workers are printed, as Ray's environment variables ask: without prefix, in colours, equal ones merged."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping

#: Name, pid and address in front of a line.
_PREFIX = re.compile(r"(\([^\n]*? pid=(\d+)[^\n)]*\)) ")
_DIGITS = re.compile(r"\d+")
#: Colours that are readable on dark and light terminals.
COLOURS = (35, 36, 32, 90, 94, 95)
WINDOW_SECONDS = 5.0


class Repetitions:
    """Merges lines that several processes print within a few seconds: numbers in them may differ.

    Args:
        window_s: for how long lines are merged.
        allowed, skipped: patterns of lines that are always and never printed; None for neither.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        window_s: float = WINDOW_SECONDS,
        allowed: str | None = None,
        skipped: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._window = window_s
        self._allowed = re.compile(allowed) if allowed else None
        self._skipped = re.compile(skipped) if skipped else None
        self._clock = clock
        #: By the line without its numbers: since when, in how many processes, how often it was left out, and its last form.
        self._recent: dict[str, tuple[float, set[str], int, str]] = {}

    def passed(self, line: str) -> Iterator[str]:
        """Yield the lines to print now, among them counts of earlier lines."""
        yield from self.due(self._clock() - self._window)
        match = _PREFIX.match(line)
        text = line[match.end() :] if match else line
        if self._allowed is not None and self._allowed.search(text):
            yield line
        elif self._skipped is None or not self._skipped.search(text):
            key = _DIGITS.sub("", text).strip()
            if not key:
                yield line
                return
            pid = match[2] if match else ""
            since, pids, count, _ = self._recent.get(key, (self._clock(), set(), 0, ""))
            pids.add(pid)
            if len(pids) > 1:
                count += 1
            else:
                yield line
            self._recent[key] = since, pids, count, line

    def due(self, before: float = float("inf")) -> Iterator[str]:
        """Yield the counts of lines that were first printed before a time, and forget them."""
        for key, (since, _, count, line) in list(self._recent.items()):
            if since < before:
                del self._recent[key]
                if count == 1:
                    yield line
                elif count:
                    yield f"{line} [repeated {count}x across cluster]"


class LineStyle:
    """Changes lines on their way to the terminal."""

    def __init__(self, prefix: bool, colours: bool, merged: Repetitions | None) -> None:
        self._prefix = prefix
        self._colours = colours
        self._merged = merged

    def styled(self, text: str) -> str:
        """Return whole lines as they are to be printed."""
        lines = text.split("\n")[:-1]
        if self._merged is not None:
            lines = [each for line in lines for each in self._merged.passed(line)]
        return "".join(f"{self._line(line)}\n" for line in lines)

    def rest(self) -> str:
        """Return what is still to be printed at the end."""
        return "" if self._merged is None else "".join(f"{self._line(line)}\n" for line in self._merged.due())

    def _line(self, line: str) -> str:
        match = _PREFIX.match(line)
        if match is None:
            return line
        if not self._prefix:
            return line[match.end() :]
        if self._colours:
            colour = COLOURS[int(match[2]) % len(COLOURS)]
            return f"\x1b[{colour}m{match[1]}\x1b[0m {line[match.end() :]}"
        return line


def from_environment(environ: Mapping[str, str] = os.environ) -> LineStyle | None:
    """Return the style that the environment asks for; None for the usual one."""

    def says(name: str) -> bool:
        return environ.get(name, "").lower() in ("1", "true")

    prefix = not says("RAY_DISABLE_WORKER_LOG_PREFIX")
    colours = says("RAY_COLOR_PREFIX")
    merged = None
    if says("RAY_DEDUP_LOGS"):
        window = float(environ.get("RAY_DEDUP_LOGS_AGG_WINDOW_S", WINDOW_SECONDS))
        merged = Repetitions(
            window, environ.get("RAY_DEDUP_LOGS_ALLOW_REGEX"), environ.get("RAY_DEDUP_LOGS_SKIP_REGEX")
        )
    return None if prefix and not colours and merged is None else LineStyle(prefix, colours, merged)
