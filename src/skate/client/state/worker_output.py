"""The last output of workers, as far as this process's node has kept it."""

from __future__ import annotations

from skate.client.session import session


def _output() -> session.Output | None:
    host = session.host()
    return None if host is None else host.output


def kept() -> list[tuple[int, str]]:
    """(pid, "out" or "err") of every worker of which something is kept."""
    output = _output()
    return [] if output is None else sorted(output.tails)


def lines_of(pid: int, suffix: str) -> list[str] | None:
    """The last lines of a worker, or None if none are kept here."""
    output = _output()
    tail = None if output is None else output.tails.get((pid, suffix))
    return None if tail is None else list(tail.lines)
