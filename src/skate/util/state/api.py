"""Functions that list and find rows of state; they query the running session and work in drivers, tasks and actors.

They share their arguments and errors, which `list_actors` describes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from skate import lazy_loader
from skate.client.state import inventory
from skate.util.state import jobs, rest
from skate.util.state.common import (
    DEFAULT_LIMIT,
    DEFAULT_RPC_TIMEOUT,
    SCHEMAS,
    ActorState,
    ClusterEventState,
    Filter,
    JobState,
    NodeState,
    ObjectState,
    PlacementGroupState,
    RuntimeEnvState,
    TaskState,
    WorkerState,
    check_filters,
)
from skate.util.state.exception import RayStateApiException, ServerUnavailable

#: The column that identifies a row, by kind.
ID_COLUMNS = {
    "actors": "actor_id",
    "jobs": "job_id",
    "placement_groups": "placement_group_id",
    "nodes": "node_id",
    "workers": "worker_id",
    "tasks": "task_id",
    "objects": "object_id",
}


def find(
    kind: str,
    filters: list[Filter] | None,
    limit: int,
    timeout: float,
    detail: bool,
    raise_on_missing_output: bool,
    address: str | None = None,
) -> list[Any]:
    """Return the rows of a kind that pass the filters, as dataclasses; those of the dashboard at an address, if it is a URL."""
    schema = SCHEMAS[kind]
    if rest.is_url(address):
        assert address is not None
        return rest.rows(address, kind, checked(kind, filters, limit), limit, timeout, detail)
    found, shown = columns_of(kind, filters, limit, timeout, detail, raise_on_missing_output)
    return [schema(**{name: row[name] for name in shown}) for row in found]


def columns_of(
    kind: str,
    filters: list[Filter] | None,
    limit: int,
    timeout: float,
    detail: bool,
    raise_on_missing_output: bool,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of a kind that pass the filters, as dicts, and the names of their columns that are shown."""
    conditions = checked(kind, filters, limit)
    schema = SCHEMAS[kind]
    detail = detail or any(key in schema.detail_columns() for key, _, _ in conditions)
    found = complete(
        lambda: inventory.find(kind, timeout, conditions, limit, detail),
        kind,
        timeout,
        raise_on_missing_output,
    )
    listed = jobs.with_submitted(found.rows) if kind == "jobs" else found.rows
    rows = [row for row in listed if all(holds(row, each) for each in conditions)]
    return rows[:limit], schema.list_columns(detail=detail)


def complete(
    ask: Callable[[], inventory.Found], kind: str, timeout: float, raise_on_missing_output: bool
) -> inventory.Found:
    """Return what a question finds; raise or warn if processes have not answered."""
    try:
        found = ask()
    except RuntimeError as error:
        raise ServerUnavailable(str(error)) from None
    if found.missing:
        text = (
            f"the list of {kind} is not complete: {len(found.missing)} processes have not answered within {timeout:g} s: "
            f"{', '.join(found.missing[:5])}; they may be stopped, or in a call that blocks all threads"
        )
        if raise_on_missing_output:
            raise RayStateApiException(f"{text}. Pass raise_on_missing_output=False for partial results")
        warnings.warn(text, stacklevel=5)
    return found


def checked(kind: str, filters: list[Filter] | None, limit: int) -> list[Filter]:
    """Return the filters of a request for a kind of rows. Raises ValueError or RayStateApiException for invalid ones."""
    found = check_filters(filters, limit)
    schema = SCHEMAS[kind]
    for key, _, _ in found:
        if key not in schema.filterable_columns():
            raise RayStateApiException(
                f"{kind} cannot be filtered by {key!r}; the filterable columns are: "
                f"{', '.join(sorted(schema.filterable_columns()))}"
            )
    return found


def holds(row: dict[str, Any], condition: Filter) -> bool:
    """Return True if a row passes a filter."""
    key, predicate, wanted = condition
    value = row[key]
    if isinstance(value, str) and isinstance(wanted, str):
        equal = value.lower() == wanted.lower()
    else:
        equal = value == wanted or str(value).lower() == str(wanted).lower()
    return equal is (predicate == "=")


def rows_of(kind: str, row_id: str, timeout: float, address: str | None = None) -> Any:
    """Return all rows with an id, in detail. A job has two: that of its program, and that under which it was submitted."""
    for column in (ID_COLUMNS[kind], *(("submission_id",) if kind == "jobs" else ())):
        rows = find(kind, [(column, "=", row_id)], DEFAULT_LIMIT, timeout, True, False, address)
        # A filter compares texts, as in Ray, so that "none" finds a program without a submission id.
        rows = [row for row in rows if getattr(row, column) is not None]
        if rows:
            break
    return rows


def get_actor(
    id: str, address: str | None = None, timeout: float = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> ActorState | None:
    """Return the actor with the given id, in detail; None if there is none."""
    rows: list[ActorState] = rows_of("actors", id, timeout, address)
    return rows[0] if rows else None


def get_job(
    id: str, address: str | None = None, timeout: float = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> JobState | None:
    """Return the job with the given id, in detail; None if there is none."""
    rows: list[JobState] = rows_of("jobs", id, timeout, address)
    return rows[0] if rows else None


def get_placement_group(
    id: str, address: str | None = None, timeout: float = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> PlacementGroupState | None:
    """Return the placement group with the given id, in detail; None if there is none."""
    rows: list[PlacementGroupState] = rows_of("placement_groups", id, timeout, address)
    return rows[0] if rows else None


def get_node(
    id: str, address: str | None = None, timeout: float = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> NodeState | None:
    """Return the node with the given id, in detail; None if there is none."""
    rows: list[NodeState] = rows_of("nodes", id, timeout, address)
    return rows[0] if rows else None


def get_worker(
    id: str, address: str | None = None, timeout: float = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> WorkerState | None:
    """Return the worker with the given id, in detail; None if there is none."""
    rows: list[WorkerState] = rows_of("workers", id, timeout, address)
    return rows[0] if rows else None


def get_task(
    id: Any, address: str | None = None, timeout: float = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> TaskState | list[TaskState] | None:
    """Return the task with the given id, or the task whose result a ref is, in detail; None if there is none.

    A task with several attempts is a list with one row for each.
    """
    task_id = id if isinstance(id, str) else id.task_id().hex()
    rows: list[TaskState] = rows_of("tasks", task_id, timeout, address)
    if len(rows) > 1:
        return rows
    return rows[0] if rows else None


def get_objects(
    id: str, address: str | None = None, timeout: float = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> list[ObjectState]:
    """Return the references to an object: one row each, none if there is no such object."""
    rows: list[ObjectState] = rows_of("objects", id, timeout, address)
    return rows


def list_actors(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ActorState]:
    """List the actors of the cluster.

    Args:
        address: The URL of a dashboard to ask, such as "http://127.0.0.1:8265". Anything else is accepted for
            compatibility, and ignored: a session queries its own cluster.
        filters: Conditions (column, "=" or "!=", value), all of which must hold; values are compared as text where
            their types differ. None by default.
        limit: The most rows to return, 100 by default and at most 10,000.
        timeout: The most seconds to wait for the processes of the cluster, 30 by default.
        detail: Fill in all columns; False by default.
        raise_on_missing_output: True (the default) raises if a process does not answer in time; False warns and
            returns the rows of the others.

    Raises:
        ServerUnavailable: no session runs.
        ValueError: a filter or the limit is invalid.
        RayStateApiException: a process did not answer in time, or the rows cannot be filtered by a column.
    """
    return find("actors", filters, limit, timeout, detail, raise_on_missing_output, address)


def list_placement_groups(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[PlacementGroupState]:
    """List the placement groups; arguments as for `list_actors`."""
    return find("placement_groups", filters, limit, timeout, detail, raise_on_missing_output, address)


def list_nodes(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[NodeState]:
    """List the nodes; arguments as for `list_actors`."""
    return find("nodes", filters, limit, timeout, detail, raise_on_missing_output, address)


def list_jobs(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[JobState]:
    """List the jobs: those submitted to the node, and the running drivers; arguments as for `list_actors`."""
    return find("jobs", filters, limit, timeout, detail, raise_on_missing_output, address)


def list_workers(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[WorkerState]:
    """List the worker processes and drivers; arguments as for `list_actors`."""
    return find("workers", filters, limit, timeout, detail, raise_on_missing_output, address)


def list_tasks(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[TaskState]:
    """List the attempts of tasks; arguments as for `list_actors`."""
    return find("tasks", filters, limit, timeout, detail, raise_on_missing_output, address)


def list_objects(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ObjectState]:
    """List the objects, one row per reference that keeps one alive; arguments as for `list_actors`."""
    return find("objects", filters, limit, timeout, detail, raise_on_missing_output, address)


def list_runtime_envs(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[RuntimeEnvState]:
    """List the runtime environments; arguments as for `list_actors`."""
    return find("runtime_envs", filters, limit, timeout, detail, raise_on_missing_output, address)


def list_cluster_events(
    address: str | None = None,
    filters: list[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ClusterEventState]:
    """List the processes that the cluster lost; arguments as for `list_actors`."""
    return find("cluster_events", filters, limit, timeout, detail, raise_on_missing_output, address)


#: Names that Ray also defines here; their modules import this one.
_HOMES = {
    "skate.util.state.client": ("StateApiClient",),
    "skate.util.state.logs": ("get_log", "list_logs"),
    "skate.util.state.summary": ("summarize_actors", "summarize_objects", "summarize_tasks"),
}
__getattr__, __dir__, _ = lazy_loader.attach(globals(), _HOMES)
