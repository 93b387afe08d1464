"""The state of a run for those who look at it: what each operator has done, what it holds, and why it starts no more.

A run announces itself, and the state is made only when it is asked for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol

from skate.data.execution import policy
from skate.data.execution.limits import Limits
from skate.data.execution.operators import Running
from skate.data.execution.reasons import DONE, why_not
from skate.data.execution.topology import Topology
from skate.util.announcements import Announcement, announce

LIBRARY = "data"


class Execution(Protocol):
    """A run, as its state sees it."""

    label: str
    topology: Topology
    limits: Limits
    started: float
    seconds: float
    errors: int
    remote: Any


def begin(run: Execution, name: str | None) -> Announcement:
    """Announce a run."""
    facts = {"dataset": name or "dataset", "label": run.label}
    return announce(LIBRARY, run.label, facts, lambda: state_of(run))


def error_now() -> str:
    """Return the error with which a run ends, if it is called while that is passed on; "" if there is none."""
    error = sys.exc_info()[1]
    return (
        "" if error is None or isinstance(error, GeneratorExit) else f"{type(error).__name__}: {error}"[:2000]
    )


def state_of(run: Execution) -> Mapping[str, object]:
    """Return the state of a run."""
    topology, limits = run.topology, run.limits
    share = policy.share_of(limits, topology)
    places = {id(operator): place for place, operator in enumerate(topology.operators)}
    shown = [_operator(run, operator, share, places) for operator in topology.operators]
    return {
        "seconds": run.seconds or time.perf_counter() - run.started,
        "budget_bytes": limits.budget_bytes if run.remote is not None else None,
        "slots": limits.slots if run.remote is not None else None,
        "errors": run.errors,
        "operators": shown,
    }


def _operator(run: Execution, operator: Running, share: int, places: Mapping[int, int]) -> dict[str, object]:
    counters = operator.counters
    has_room = run.remote is None or run.remote.room(operator)
    reason = why_not(operator, run.topology, run.limits, has_room)
    target = run.topology.target_of(operator)
    rows = counters.rows_of_blocks
    return {
        "name": operator.name,
        "target": None if target is None else places[id(target[0])],
        "state": "done" if reason.rule == DONE else "running" if operator.running else "waiting",
        "in_actors": operator.compute.actors is not None,
        "running": operator.running,
        "queued": len(getattr(operator, "queue", ())),
        "tasks": operator.tasks,
        "tasks_done": len(counters.seconds),
        "tasks_failed": counters.failed,
        "here": counters.here,
        "rows_in": counters.rows_in,
        "rows_out": counters.rows_out,
        "bytes_out": counters.bytes_out,
        "blocks": len(rows),
        "rows_of_a_block": [min(rows), max(rows)] if rows else None,
        "work_s": sum(counters.seconds),
        "held_back_s": counters.held_back_s,
        "queued_bytes": operator.queued_bytes,
        "held_bytes": policy.held_bytes(operator, run.topology),
        "share_bytes": share if run.remote is not None else None,
        "rule": reason.rule,
        "why": reason.text,
    }
