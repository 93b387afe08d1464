"""The state of a session at one moment, as rows of the state API."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import skate
from skate.client.session import session
from skate.util import state
from skate.version import __version__

Row = dict[str, Any]
#: The most rows of a kind that a report counts.
ROWS_MAX = 10_000


class Snapshot(NamedTuple):
    """All that a report shows.

    Attributes:
        taken: Seconds since 1970.
        software: The versions of Skate and Python.
        total: The resources of the cluster.
        free: Those of them that are available.
        nodes, jobs, tasks, actors, groups, objects: Rows of the state API with all details.
        events: The recent tasks as trace events.
    """

    taken: float
    software: str
    total: dict[str, float]
    free: dict[str, float]
    nodes: list[Row]
    jobs: list[Row]
    tasks: list[Row]
    actors: list[Row]
    groups: list[Row]
    objects: list[Row]
    events: list[Row]


def take_snapshot() -> Snapshot:
    """Collect the state of the running session. Raises RuntimeError if there is none."""
    if session.current_or_none() is None:
        raise RuntimeError("no session is running, so there is nothing to report; call init() first")

    def rows(listed: Callable[..., list[Any]]) -> list[Row]:
        return [dict(vars(row)) for row in listed(limit=ROWS_MAX, detail=True)]

    return Snapshot(
        taken=time.time(),
        software=f"Skate {__version__}, Python {platform.python_version()}",
        total=skate.cluster_resources(),
        free=skate.available_resources(),
        nodes=rows(state.list_nodes),
        jobs=rows(state.list_jobs),
        tasks=rows(state.list_tasks),
        actors=rows(state.list_actors),
        groups=rows(state.list_placement_groups),
        objects=rows(state.list_objects),
        events=skate.timeline(),
    )
