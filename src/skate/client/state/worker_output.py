"""The recent output of workers, as far as the node in this process keeps it."""

from __future__ import annotations

from skate.client.session import session


def _output() -> session.Output | None:
    host = session.host()
    return None if host is None else host.output


def kept() -> list[tuple[int, str]]:
    """Return (pid, "out" or "err") for each worker stream with kept output."""
    output = _output()
    return [] if output is None else sorted(output.tails)


def lines_of(pid: int, suffix: str) -> list[str] | None:
    """Return the last lines of a worker's stream, or None if none are kept."""
    output = _output()
    tail = None if output is None else output.tails.get((pid, suffix))
    return None if tail is None else list(tail.lines)
