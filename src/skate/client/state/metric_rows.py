"""The metrics of the session: the users' and those of the nodes, one row for each metric of a node."""

from __future__ import annotations

import time
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


_PROCESSES = {
    "component_cpu_percentage": "Use of CPUs by the process since it was read last, in percent of one.",
    "component_rss_bytes": "Bytes of memory that the process has.",
    "component_shared_bytes": "Bytes of that memory that other processes may have too.",
}
#: How long nodes may take, which have all the numbers. A scrape of Prometheus waits for 10 s.
NODE_SECONDS = 5.0
#: When each process was read last, and the seconds of CPU that it had used, by node and process.
_last: dict[tuple[bytes, int], tuple[float, float]] = {}


def collect(timeout: float) -> list[Row]:
    """Return the metrics of all nodes, each with the node's address as "node_ip" and True as "is_head" for the head.

    Processes that do not report within `timeout` seconds are present with their last report.

    Raises:
        RuntimeError: no session is running.
        TimeoutError: no node has answered within 5 s.
    """
    process = session.current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so there are no metrics; call init() first")
    processes, _ = survey.ask(process, ("reports", "jobs"), timeout, {}, 0, False)
    parts, _ = survey.ask(process, ("metrics",), NODE_SECONDS, {}, 0, False)
    if not parts:
        raise TimeoutError(f"no node has answered within {NODE_SECONDS:g} s; this machine may be overloaded")
    found = [
        {**row, "node_ip": part["ip"], "is_head": part["head"]}
        for part in parts
        for row in part.get("metrics", ())
    ]
    found += _of_processes(processes)
    jobs = sum(1 for part in processes if part.get("driver"))
    return [*found, {**_RUNNING_JOBS, "series": (((), float(jobs), (), 0.0),), "node_ip": parts[0]["ip"]}]


def _of_processes(parts: list[Row]) -> list[Row]:
    """Return the metrics of the processes of the session: CPU since they were read last, and memory."""
    now = time.monotonic()
    series: dict[tuple[str, str], list[Any]] = {}
    latest: dict[tuple[bytes, int], tuple[float, float]] = {}
    for part in parts:
        if "readings" not in part:
            continue
        key = part["node"], part["pid"]
        name, seconds, resident, shared = part["readings"]
        since, before = _last.get(key, (now, seconds))
        latest[key] = now, seconds
        percent = 100 * (seconds - before) / (now - since) if now > since else 0.0
        labels = (("Component", name), ("pid", str(part["pid"])))
        for metric, value in zip(_PROCESSES, (percent, resident, shared), strict=True):
            series.setdefault((metric, part["ip"]), []).append((labels, float(value), (), 0.0))
    _last.clear()
    _last.update(latest)
    return [
        {"name": name, "kind": "gauge", "description": _PROCESSES[name], "boundaries": (), "series": tuple(each), "node_ip": ip}
        for (name, ip), each in series.items()
    ]  # fmt: skip


def session_name() -> str:
    """Return a name of the session for labels: the id of its first node."""
    process = session.current_or_none()
    return "" if process is None else f"session_{process.node_id.hex()[:16]}"
