"""The state of the cluster as rows with the columns of the state API: tasks, actors, workers, jobs, nodes, groups.

Rows of objects are in `holdings`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from skate.client.session.session import current_or_none
from skate.client.state import cluster_queries, holdings, survey
from skate.core.ids import task_of
from skate.core.resource.resources import to_amounts
from skate.protocol.fields import Where

Row = dict[str, Any]
Filter = tuple[str, str, Any]

CREATION_PREFIX = b"\xff" * 8
#: Columns of the state API that nodes have as well, by kind: the column's name there, and whether it is an id.
COLUMNS = {
    "tasks": {
        "task_id": ("task", True),
        "name": ("name", False),
        "func_or_class_name": ("function", False),
        "state": ("state", False),
    },
    "actors": {
        "actor_id": ("actor", True),
        "class_name": ("class", False),
        "state": ("state", False),
        "name": ("name", False),
        "ray_namespace": ("namespace", False),
    },
    "objects": {"object_id": ("object", True)},
}
#: Kinds with one row for each row of a node.
LIMITED = frozenset({"tasks", "actors"})
#: Ids of placement groups end with the job that created them.
JOB_BYTES = 4
DRIVER_TASK = "f" * 40
TYPES = ("NORMAL_TASK", "ACTOR_CREATION_TASK", "ACTOR_TASK")
#: Columns of a task's error, by the exception that its refs raise.
ERRORS = {
    "RayTaskError": "TASK_EXECUTION_EXCEPTION",
    "WorkerCrashedError": "WORKER_DIED",
    "ActorDiedError": "ACTOR_DIED",
    "ActorUnavailableError": "ACTOR_UNAVAILABLE",
    "TaskCancelledError": "TASK_CANCELLED",
    "RuntimeEnvSetupError": "RUNTIME_ENV_SETUP_FAILED",
    "ObjectLostError": "OBJECT_LOST",
    "ObjectReconstructionFailedError": "OBJECT_UNRECONSTRUCTABLE",
    "OwnerDiedError": "OWNER_DIED",
    "ObjectFreedError": "OBJECT_FREED",
    "ReferenceCountingAssertionError": "OBJECT_DELETED",
    "NodeDiedError": "NODE_DIED",
    "OutOfMemoryError": "OUT_OF_MEMORY",
    "ObjectStoreFullError": "OUT_OF_DISK_ERROR",
    "TaskUnschedulableError": "TASK_UNSCHEDULABLE_ERROR",
    "ActorUnschedulableError": "ACTOR_UNSCHEDULABLE_ERROR",
    "TaskPlacementGroupRemoved": "TASK_PLACEMENT_GROUP_REMOVED",
}


class Found:
    """The rows of one kind, and descriptions of sources that did not answer."""

    def __init__(self, rows: list[Row], missing: list[str]) -> None:
        self.rows = rows
        self.missing = missing


def find(
    kind: str, timeout: float, filters: Sequence[Filter] = (), limit: int = 0, detail: bool = True
) -> Found:
    """Return the rows of a kind ("tasks", "actors", "objects", ...); wait up to `timeout` seconds for answers.

    The caller applies filters and limit (0 for none). They are passed on to the nodes as far as possible, so that these make
    fewer rows. Without `detail`, the reasons why tasks wait are missing.

    Raises RuntimeError if no session is running, ValueError for an unknown kind.
    """
    process = current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so there is nothing to list; call init() first")
    if kind not in KINDS:
        raise ValueError(f"cannot list {kind!r}; use one of: {', '.join(KINDS)}")
    asked, make = KINDS[kind]
    if not asked:
        return Found(make([]), [])
    where = _conditions(kind, filters)
    whole = kind in LIMITED and len(where) == len(filters)
    parts, silent = survey.ask(process, asked, timeout, where, max(0, limit) if whole else 0, detail)
    missing = [holdings.process_text(each) for each in silent]
    if kind == "tasks" and not detail:
        make = _short_tasks
    return Found(make(parts), missing)


def attempt_counts(timeout: float) -> Found:
    """Return the number of attempts at tasks by name, type and state, without listing them.

    Raises RuntimeError if no session is running.
    """
    process = current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so there is nothing to count; call init() first")
    parts, silent = survey.ask(process, ("attempts",), timeout, {}, 0, False)
    counts: dict[tuple[str, str, str], int] = {}
    for part in parts:
        for each in part.get("attempts", ()):
            key = each["name"], TYPES[each["kind"]], each["state"]
            counts[key] = counts.get(key, 0) + each["number"]
    rows = [
        {"name": name, "type": kind, "state": state, "number": number}
        for (name, kind, state), number in counts.items()
    ]
    return Found(rows, [holdings.process_text(each) for each in silent])


def _conditions(kind: str, filters: Sequence[Filter]) -> Where:
    """Return the conditions on the rows of nodes that follow from filters on those of the state API, one for each column."""
    known = COLUMNS.get(kind, {})
    found: Where = {}
    for key, predicate, wanted in filters:
        column, is_id = known.get(key, ("", False))
        if predicate != "=" or not column or column in found:
            continue
        value = _id_from(str(wanted)) if is_id else str(wanted)
        if value is not None:
            found[column] = value
    oid = found.get("object")
    if isinstance(oid, bytes):
        found["task"] = task_of(oid)
    return found


def _id_from(text: str) -> bytes | None:
    """Return an id from its hex; None if it is not one. See `task_hex` for the id of an actor's creation."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        return None
    return found.removeprefix(CREATION_PREFIX) if len(found) == 24 else found


def _hex(value: bytes) -> str | None:
    return value.hex() if value else None


def worker_id(cid: int) -> str:
    """Return a process's id in the format of `get_worker_id()`."""
    return cid.to_bytes(4, "big").hex().rjust(56, "0")


def task_hex(task_id: bytes) -> str:
    """Return a task's id in hex. The id of an actor's creation is derived from the actor's id."""
    return (task_id if len(task_id) == 24 else CREATION_PREFIX + task_id).hex()


def _millis(part: Row, at: float | None) -> int | None:
    """Convert a time on a node's clock to milliseconds since 1970."""
    return None if at is None else int((time.time() - (part["now"] - at)) * 1000)


def _attempt_events(part: Row, task: Row) -> list[dict[str, Any]] | None:
    """Return the start and the end of an attempt, as far as it has got. Earlier states are not recorded."""
    found = []
    if task.get("start") is not None:
        found.append({"state": "RUNNING", "created_ms": _millis(part, task["start"])})
    if task.get("end") is not None:
        found.append({"state": task["state"], "created_ms": _millis(part, task["end"])})
    return found or None


def _tasks(parts: list[Row]) -> list[Row]:
    return [_task(part, task) for part, task in attempts(parts)]


def _short_tasks(parts: list[Row]) -> list[Row]:
    """Return the rows of tasks without the columns that only a detailed list has."""
    return [_short_task(part, task) for part, task in attempts(parts)]


def attempts(parts: list[Row], kind: str = "tasks") -> list[tuple[Row, Row]]:
    """Return each attempt among the rows of a kind once, with the part that it comes from."""
    found: dict[tuple[bytes, int], tuple[Row, Row]] = {}
    for part in parts:
        for task in part.get(kind, ()):
            key = task["task"], task["attempt"]
            other = found.get(key)
            # Both nodes report a forwarded task. Keep the row of the node that ran it, which has more. One node reports a task
            # twice if it ends meanwhile.
            if (
                other is None
                or other[0]["node"] == part["node"]
                or (task.get("pid") and not other[1].get("pid"))
            ):
                found[key] = part, task
    return list(found.values())


def _short_task(part: Row, task: Row) -> Row:
    job = (task["task"][-4:] if len(task["task"]) == 24 else task["task"][12:16]).hex()
    failed = task["state"] == "FAILED"
    error = ERRORS.get(task.get("error", "RayTaskError"), task.get("error", "")) if failed else None
    ran = "pid" in task
    return {
        "task_id": task_hex(task["task"]),
        "attempt_number": task["attempt"],
        "name": task["name"],
        "state": task["state"],
        "job_id": job,
        "actor_id": task["task"].hex() if task["kind"] == 1 else _hex(task["actor"]),
        "type": TYPES[task["kind"]],
        "func_or_class_name": task["function"],
        "parent_task_id": task_hex(task["parent"]) if task["parent"] else DRIVER_TASK + job,
        "node_id": _hex(task.get("place") or (part["node"] if ran else b"")),
        "worker_id": worker_id(task["worker"]) if ran else None,
        "worker_pid": task.get("pid"),
        "error_type": error,
    }


def _task(part: Row, task: Row) -> Row:
    return {
        **_short_task(part, task),
        "language": "PYTHON",
        "required_resources": to_amounts(task["request"] or {}),
        "runtime_env_info": {"serialized_runtime_env": task["environment"]} if task["environment"] else None,
        "placement_group_id": _hex(task["group"]),
        "events": _attempt_events(part, task),
        "profiling_data": None,
        "creation_time_ms": _millis(part, task.get("since")),
        "start_time_ms": _millis(part, task.get("start")),
        "end_time_ms": _millis(part, task.get("end")),
        "task_log_info": None,
        "error_message": task.get("message"),
        "is_debugger_paused": False,
        "call_site": None,
        "label_selector": None,
        "fallback_strategy": None,
        "waits_for": task.get("why") or None,
    }


def _actors(parts: list[Row]) -> list[Row]:
    rows = []
    for part in parts:
        if not part.get("head"):
            continue
        for actor in part.get("actors", ()):
            death = actor.get("death")
            rows.append(
                {
                    "actor_id": actor["actor"].hex(),
                    "class_name": actor["class"],
                    "state": actor["state"],
                    "job_id": actor["actor"][12:16].hex(),
                    "name": actor["name"],
                    "node_id": _hex(actor["place"]),
                    "pid": actor["pid"],
                    "ray_namespace": actor["namespace"],
                    "serialized_runtime_env": actor["environment"] or "{}",
                    "required_resources": to_amounts(actor["request"] or {}),
                    "death_cause": None
                    if death is None
                    else {"actor_died_error_context": _death(actor, death)},
                    "is_detached": actor["detached"],
                    "placement_group_id": _hex(actor["group"]),
                    "repr_name": "",
                    "num_restarts": actor["restarts"],
                    "num_restarts_due_to_lineage_reconstruction": 0,
                    "num_restarts_due_to_node_preemption": 0,
                    "call_site": None,
                    "label_selector": {},
                    "fallback_strategy": None,
                }
            )
    return rows


def _death(actor: Row, death: Row) -> Row:
    """Return the cause of an actor's death, with the names that Ray gives its parts."""
    return {
        **death,
        "error_message": death["message"],
        "actor_id": actor["actor"].hex(),
        "class_name": actor["class"],
        "name": actor["name"],
        "ray_namespace": actor["namespace"],
        "pid": actor["pid"],
    }


def _workers(parts: list[Row]) -> list[Row]:
    rows = []
    known = set()
    for part in parts:
        for worker in part.get("workers", ()):
            if worker.get("driver"):
                rows.append({**_worker(part, worker), "worker_type": "DRIVER"})
            elif worker["pid"]:
                known.add((part["node"], worker["pid"]))
                rows.append(_worker(part, worker))
    for part in parts:
        if part.get("driver") and (part["node"], part["pid"]) not in known:
            driver = {"cid": part["cid"], "pid": part["pid"], "alive": True}
            rows.append({**_worker(part, driver), "worker_type": "DRIVER"})
    return rows


def _worker(part: Row, worker: Row) -> Row:
    alive = worker["alive"]
    since = worker.get("since", -1.0)
    return {
        "worker_id": worker_id(worker["cid"]),
        "is_alive": alive,
        "worker_type": "WORKER",
        "exit_type": worker.get("exit_type"),
        "node_id": part["node"].hex(),
        "ip": part["ip"],
        "pid": worker["pid"],
        "exit_detail": worker.get("exit_detail"),
        "worker_launch_time_ms": None,
        "worker_launched_time_ms": None,
        "start_time_ms": _millis(part, since) if since >= 0 else None,
        "end_time_ms": 0 if alive else _millis(part, worker.get("at")),
        "debugger_port": None,
        "num_paused_threads": 0,
    }


def _jobs(parts: list[Row]) -> list[Row]:
    rows = []
    for part in parts:
        if not part.get("driver"):
            continue
        job = part["job"].hex()
        rows.append(
            {
                "type": "DRIVER",
                "job_id": job,
                "submission_id": None,
                "driver_info": {"id": job, "node_ip_address": part["ip"], "pid": str(part["pid"])},
                "status": "RUNNING",
                "entrypoint": part["entrypoint"],
                "message": None,
                "error_type": None,
                "start_time": part["began_ms"],
                "end_time": None,
                "metadata": {},
                "runtime_env": holdings.parsed(part["environment"]),
                "driver_agent_http_address": None,
                "driver_node_id": part["node"].hex(),
                "driver_exit_code": None,
            }
        )
    return rows


def _nodes(parts: list[Row]) -> list[Row]:
    head = {"node:__internal_head__"}
    return [
        {
            "node_id": node["NodeID"],
            "node_ip": node["NodeManagerAddress"],
            "is_head_node": not head.isdisjoint(node["Resources"]),
            "state": "ALIVE" if node["Alive"] else "DEAD",
            "state_message": node["DeathReasonMessage"] or None,
            "node_name": node["NodeName"],
            "resources_total": node["Resources"],
            "labels": node["Labels"],
            "start_time_ms": row.get("began_ms"),
            "end_time_ms": int((time.time() - row["dead_for"]) * 1000) if row["dead_for"] >= 0 else 0,
        }
        for row in cluster_queries.node_rows()
        for node in [cluster_queries.described(row)]
    ]


def _groups(parts: list[Row]) -> list[Row]:
    process = current_or_none()
    assert process is not None
    return [
        {
            "placement_group_id": group["placement_group_id"],
            "name": group["name"],
            "creator_job_id": group["placement_group_id"][-2 * JOB_BYTES :],
            "state": group["state"],
            "bundles": [
                {
                    "bundle_id": {"placement_group_id": group["placement_group_id"], "bundle_index": index},
                    "unit_resources": to_amounts(bundle) if isinstance(bundle, dict) else bundle,
                    "node_id": group["nodes"].get(index),
                }
                for index, bundle in group["bundles"].items()
            ],
            "is_detached": group["detached"],
            "stats": {"scheduling_state": group["why"] or group["state"]},
            "topology_strategy": None,
            "topology_assignments": None,
        }
        for group in process.request("rows", "groups", {})
    ]


def _environments(parts: list[Row]) -> list[Row]:
    return [
        {
            "runtime_env": holdings.parsed(each["environment"]),
            "success": True,
            "creation_time_ms": None,
            "node_id": part["node"].hex(),
            "ref_cnt": each["workers"],
            "error": None,
        }
        for part in parts
        for each in part.get("environments", ())
    ]


def _events(parts: list[Row]) -> list[Row]:
    """Return the worker processes that were lost, latest last."""
    rows = []
    for part in parts:
        for worker in part.get("workers", ()):
            if not worker["alive"] and not worker["intended"]:
                rows.append(_event(part, worker))
    return sorted(rows, key=lambda row: str(row["time"]))


def _event(part: Row, worker: Row) -> Row:
    at = (_millis(part, worker["at"]) or 0) / 1000
    return {
        "severity": "ERROR",
        "time": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)),
        "source_type": "NODE",
        "message": f"worker process {worker['pid']} {worker['reason']}",
        "event_id": f"{part['node'].hex()[:16]}{worker['cid']:016x}",
        "custom_fields": {"pid": worker["pid"], "node_id": part["node"].hex(), "asked_by": os.getpid()},
    }


KINDS: dict[str, tuple[tuple[str, ...], Any]] = {
    "actors": (("actors",), _actors),
    "jobs": (("jobs",), _jobs),
    "placement_groups": ((), _groups),
    "nodes": ((), _nodes),
    "workers": (("workers",), _workers),
    "tasks": (("tasks",), _tasks),
    "objects": (("objects", "references", "tasks", "workers"), holdings.rows),
    "runtime_envs": (("environments",), _environments),
    "cluster_events": (("workers",), _events),
}
