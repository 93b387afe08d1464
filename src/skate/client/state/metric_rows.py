"""The metrics of the session: the users' and those of the nodes, one row for each metric of a node."""

from __future__ import annotations

from typing import Any

from skate.client.session import session
from skate.client.state import survey

Row = dict[str, Any]


def collect(timeout: float) -> list[Row]:
    """Return the metrics of all nodes, each with the node's address as "node_ip" and True as "is_head" for the head.

    Processes that do not report within `timeout` seconds are present with their last report. Raises RuntimeError if no session
    is running.
    """
    process = session.current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so there are no metrics; call init() first")
    survey.ask(process, ("reports",), timeout, {}, 0, False)
    parts, _ = survey.ask(process, ("metrics",), timeout, {}, 0, False)
    return [
        {**row, "node_ip": part["ip"], "is_head": part["head"]}
        for part in parts
        for row in part.get("metrics", ())
    ]


def session_name() -> str:
    """Return a name of the session for labels: the id of its first node."""
    process = session.current_or_none()
    return "" if process is None else f"session_{process.node_id.hex()[:16]}"
