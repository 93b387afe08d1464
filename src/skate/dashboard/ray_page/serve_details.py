"""Additions to the state of Serve that clients of Ray expect and Serve does not know: the streams of its actors' output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from skate.util import state
from skate.util.state.exception import RayStateApiException

#: The options of gRPC without services, which Ray shows too.
WITHOUT_GRPC = {
    "port": 9000,
    "grpc_servicer_functions": [],
    "request_timeout_s": None,
    "enable_reflection": True,
}
#: The kinds of streams, the preferred one last: Serve logs to the standard error.
SUFFIXES = ("out", "err")
_PID = re.compile(r"(\d+)\.(?:out|err)$")

Row = dict[str, Any]


def completed(details: Row) -> Row:
    """Return the state of Serve with the options of gRPC, and with the name of the output of each actor."""
    if details.get("controller_info") and details.get("grpc_options") is None:  # while Serve runs
        details["grpc_options"] = WITHOUT_GRPC
    without = [row for row in _actors(details) if row.get("actor_id") and not row.get("log_file_path")]
    if without:
        try:
            pids = {row.actor_id: row.pid for row in state.list_actors(limit=10_000)}
            names = {node: _streams(node) for node in {row["node_id"] for row in without}}
        except (RayStateApiException, ValueError):  # the rest is right without them
            return details
        for row in without:
            pid = pids.get(row["actor_id"])
            # A process that has printed nothing has an empty stream, which can be read by this name.
            row["log_file_path"] = names[row["node_id"]].get(pid) or (f"worker-{pid}.err" if pid else None)
    return details


def _actors(details: Row) -> Iterator[Row]:
    yield details.get("controller_info") or {}
    yield from (details.get("proxies") or {}).values()
    for app in (details.get("applications") or {}).values():
        for deployment in app["deployments"].values():
            yield from deployment["replicas"]


def _streams(node_id: str) -> dict[int | None, str]:
    """Return a stream for each process of a node that has printed anything."""
    found: dict[int | None, str] = {}
    for suffix in SUFFIXES:
        for names in state.list_logs(node_id=node_id, glob_filter=f"*.{suffix}").values():
            for name in names:
                match = _PID.search(name)
                if match is not None:
                    found[int(match[1])] = name
    return found
