"""Spans that libraries add to `timeline`, kept in the process that records them."""

from __future__ import annotations

from collections import deque
from typing import Any

from skate.client.session import session

#: As many as are kept, the latest ones.
_MANY = 20_000

_kept: deque[tuple[Any, dict[str, Any]]] = deque(maxlen=_MANY)


def record(
    name: str, category: str, start: float, seconds: float, row: str, args: dict[str, Any] | None = None
) -> None:
    """Add a span to `timeline`.

    Args:
        name: what it shows as.
        category: what kinds of spans are told apart by, such as "train".
        start: when it began, in seconds since the epoch.
        seconds: how long it took.
        row: the row it stands in; "worker:<pid>" is that of a process.
        args: whatever else is to be seen when it is chosen.
    """
    process = session.current_or_none()
    if process is None:  # no session, no timeline
        return
    event = {
        "cat": category,
        "name": name,
        "ph": "X",
        "pid": process.node_ip_address,
        "tid": row,
        "ts": start * 1e6,
        "dur": seconds * 1e6,
        "args": args or {},
    }
    _kept.append((process.node_id, event))


def recorded() -> list[dict[str, Any]]:
    """The spans of the session that runs now, oldest first."""
    process = session.current_or_none()
    return [] if process is None else [dict(event) for owner, event in _kept if owner == process.node_id]
