"""Spans that libraries add to `timeline`, kept in the process that records them."""

from __future__ import annotations

from typing import Any

from skate.client import span_store
from skate.client.session import session


def record(
    name: str, category: str, start: float, seconds: float, row: str, args: dict[str, Any] | None = None
) -> None:
    """Add a span to `timeline`.

    Args:
        name: the name to show.
        category: the kind of span, such as "train".
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
    span_store.add(process.node_id, event)
