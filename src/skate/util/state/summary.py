"""Counts of tasks by function, actors by class, and objects by the line of code that created them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from skate.client.state import inventory
from skate.util.state import rest
from skate.util.state.api import complete, find
from skate.util.state.common import DEFAULT_RPC_TIMEOUT, RAY_MAX_LIMIT_FROM_API_SERVER

COUNTED = {
    "NORMAL_TASK": "total_tasks",
    "ACTOR_CREATION_TASK": "total_actor_scheduled",
    "ACTOR_TASK": "total_actor_tasks",
}
MEBIBYTE = 2**20


@dataclass
class TaskSummaryPerFuncOrClassName:
    """The attempts of one function, by state."""

    func_or_class_name: str
    type: str
    state_counts: dict[str, int] = field(default_factory=dict)


@dataclass
class TaskSummaries:
    """All tasks, by function."""

    summary: dict[str, TaskSummaryPerFuncOrClassName]
    total_tasks: int = 0
    total_actor_tasks: int = 0
    total_actor_scheduled: int = 0
    summary_by: str = "func_name"


@dataclass
class ActorSummaryPerClass:
    """The actors of one class, by state."""

    class_name: str
    state_counts: dict[str, int] = field(default_factory=dict)


@dataclass
class ActorSummaries:
    """All actors, by class."""

    summary: dict[str, ActorSummaryPerClass]
    total_actors: int = 0
    summary_by: str = "class"


@dataclass
class ObjectSummaryPerKey:
    """The objects created by one line of code: their number, MiB, and references."""

    total_objects: int = 0
    total_size_mb: float = 0.0
    total_num_workers: int = 0
    total_num_nodes: int = 0
    task_state_counts: dict[str, int] = field(default_factory=dict)
    task_attempt_number_counts: dict[str, int] = field(default_factory=dict)
    ref_type_counts: dict[str, int] = field(default_factory=dict)


@dataclass
class ObjectSummaries:
    """All objects, by the line of code that created them."""

    summary: dict[str, ObjectSummaryPerKey]
    total_objects: int = 0
    total_size_mb: float = 0.0
    callsite_enabled: bool = True
    summary_by: str = "callsite"


def _count(counts: dict[str, int], key: Any) -> None:
    counts[str(key)] = counts.get(str(key), 0) + 1


def _of_tasks(timeout: float, raise_on_missing_output: bool) -> TaskSummaries:
    """Summarize from the numbers that nodes keep, which are those of all attempts since their start."""
    whole = TaskSummaries({})
    found = complete(lambda: inventory.attempt_counts(timeout), "tasks", timeout, raise_on_missing_output)
    for row in found.rows:
        one = whole.summary.setdefault(row["name"], TaskSummaryPerFuncOrClassName(row["name"], row["type"]))
        one.state_counts[row["state"]] = one.state_counts.get(row["state"], 0) + row["number"]
        name = COUNTED[row["type"]]
        setattr(whole, name, getattr(whole, name) + row["number"])
    return whole


def _of_actors(rows: list[Any]) -> ActorSummaries:
    whole = ActorSummaries({}, len(rows))
    for row in rows:
        one = whole.summary.setdefault(row.class_name, ActorSummaryPerClass(row.class_name))
        _count(one.state_counts, row.state)
    return whole


def _of_objects(rows: list[Any]) -> ObjectSummaries:
    whole = ObjectSummaries({}, len({row.object_id for row in rows}))
    seen: set[str] = set()  # an object with several references counts once
    workers: dict[str, set[int]] = {}
    nodes: dict[str, set[str]] = {}
    for row in rows:
        one = whole.summary.setdefault(row.call_site, ObjectSummaryPerKey())
        _count(one.task_state_counts, row.task_status)
        _count(one.task_attempt_number_counts, row.attempt_number)
        _count(one.ref_type_counts, row.reference_type)
        if row.object_id not in seen:
            seen.add(row.object_id)
            one.total_objects += 1
            size = max(0, row.object_size) / MEBIBYTE
            one.total_size_mb += size
            whole.total_size_mb += size
        workers.setdefault(row.call_site, set()).add(row.pid)
        nodes.setdefault(row.call_site, set()).add(row.node_id)
    for site, one in whole.summary.items():
        one.total_num_workers, one.total_num_nodes = len(workers[site]), len(nodes[site])
    return whole


def summarize(
    kind: str, timeout: float, raise_on_missing_output: bool, address: str | None = None
) -> dict[str, Any]:
    """Return the summary of a kind in Ray's structure: under the name of the cluster."""
    if rest.is_url(address):
        assert address is not None
        return rest.summary(address, kind, timeout)
    if kind == "tasks":
        return {"cluster": asdict(_of_tasks(timeout, raise_on_missing_output))}
    rows = find(
        kind, None, RAY_MAX_LIMIT_FROM_API_SERVER, timeout, kind == "objects", raise_on_missing_output
    )
    made: Any = {"actors": _of_actors, "objects": _of_objects}[kind](rows)
    return {"cluster": asdict(made)}


def summarize_tasks(
    address: str | None = None,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """Count the attempts of tasks by function and state.

    Raises ServerUnavailable if no session runs, RayStateApiException if a process did not answer in time.
    """
    return summarize("tasks", timeout, raise_on_missing_output, address)


def summarize_actors(
    address: str | None = None,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """Count actors by class and state; errors as for `summarize_tasks`."""
    return summarize("actors", timeout, raise_on_missing_output, address)


def summarize_objects(
    address: str | None = None,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """Summarize object references by the line of code that created the objects, with sizes in MiB."""
    return summarize("objects", timeout, raise_on_missing_output, address)
