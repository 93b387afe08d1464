"""The metrics of the session: the users' and those of the nodes, one row for each metric of a node."""

from __future__ import annotations

from typing import Any

from skate.client.session import session
from skate.client.state import survey

Row = dict[str, Any]

_RUNNING_JOBS: Row = {
    "name": "running_jobs",
    "kind": "gauge",
    "description": "Programs that are connected to the session.",
    "boundaries": (),
    "is_head": True,
}


def collect(timeout: float) -> list[Row]:
    """Return the metrics of all nodes, each with the node's address as "node_ip" and True as "is_head" for the head.

    Processes that do not report within `timeout` seconds are present with their last report. Raises RuntimeError if no session
    is running.
    """
    process = session.current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so there are no metrics; call init() first")
    processes, _ = survey.ask(process, ("reports", "jobs"), timeout, {}, 0, False)
    parts, _ = survey.ask(process, ("metrics",), timeout, {}, 0, False)
    found = [
        {**row, "node_ip": part["ip"], "is_head": part["head"]}
        for part in parts
        for row in part.get("metrics", ())
    ]
    jobs = sum(1 for part in processes if part.get("driver"))
    return [*found, {**_RUNNING_JOBS, "series": (((), float(jobs), (), 0.0),), "node_ip": parts[0]["ip"]}]


def session_name() -> str:
    """Return a name of the session for labels: the id of its first node."""
    process = session.current_or_none()
    return "" if process is None else f"session_{process.node_id.hex()[:16]}"
