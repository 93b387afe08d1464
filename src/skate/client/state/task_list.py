"""Tasks as short lists of values, for tables of very many of them; and the chain of tasks that one waits for."""

from __future__ import annotations

import time
from typing import Any

from skate.client.session import session
from skate.client.state import holdings, inventory, survey
from skate.client.state.inventory import ERRORS, TYPES, task_hex
from skate.protocol.fields import Where

#: The columns of the lists. Times are in seconds since 1970.
COLUMNS = (
    "task_id", "attempt", "name", "state", "type", "pid", "node", "created", "start", "end", "error", "actor_id",
)  # fmt: skip

ERROR_CHARACTERS_MAX = 200
#: The id of a task's first value ends with this.
FIRST_VALUE = b"\1\0\0\0"


def tasks(
    limit: int, where: dict[str, str], timeout: float, in_progress: bool = False
) -> tuple[list[list[Any]], list[str]]:
    """Return at most `limit` attempts at tasks, in the order of COLUMNS, and the processes that have not answered.

    Args:
        limit: The most rows.
        where: Conditions: "name", "function" or "state", and "actor" with an id in hex.
        timeout: How long to wait for the answers of the nodes, in seconds.
        in_progress: Leave out those that have ended.

    Raises:
        ValueError: An id is not hexadecimal.
        RuntimeError: No session is running.
    """
    process = session.current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so there is nothing to list; call init() first")
    kind = "tasks_in_progress" if in_progress else "tasks"
    conditions: Where = {
        name: bytes.fromhex(text) if name == "actor" else text for name, text in where.items()
    }
    parts, silent = survey.ask(process, (kind,), timeout, conditions, limit, False)
    now = time.time()
    rows = [
        _row(part, task, now)
        for part, task in inventory.attempts(parts, kind)
        if "state" not in where or task["state"] == where["state"].upper()
    ]
    return rows[:limit], [holdings.process_text(each) for each in silent]


def _row(part: dict[str, Any], task: dict[str, Any], now: float) -> list[Any]:
    epoch = now - part["now"]
    times = [None if task.get(name) is None else epoch + task[name] for name in ("since", "start", "end")]
    failed = task["state"] == "FAILED"
    place = task.get("place") or (part["node"] if "pid" in task else b"")
    return [
        task_hex(task["task"]),
        task["attempt"],
        task["name"],
        task["state"],
        TYPES[task["kind"]],
        task.get("pid"),
        place.hex(),
        *times,
        _error_of(task) if failed else None,
        task["task"].hex() if task["kind"] == 1 else task["actor"].hex(),
    ]


def _error_of(task: dict[str, Any]) -> str:
    """Return the last line of a failed task's message, or the kind of its error."""
    lines = (task.get("message") or "").strip().splitlines()
    if lines:
        return str(lines[-1][:ERROR_CHARACTERS_MAX])
    error: str = task.get("error", "RayTaskError")
    return ERRORS.get(error, error)


def chain(task_id: str, timeout: float) -> list[dict[str, Any]]:
    """Return the task with an id and, one after another, the task that the one before waits for: id, name, state, reason.

    Raises:
        ValueError: The id is not hexadecimal.
        RuntimeError: No session is running.
    """
    return [
        {"task_id": task_hex(row["task"]), "name": row["name"], "state": row["state"], "why": row["why"]}
        for row in _rows_about("chain", task_id, timeout)
    ]


def arguments(task_id: str, timeout: float) -> dict[str, list[dict[str, Any]]]:
    """Return the graph around a task in progress: what its arguments wait for, and who waits for its values.

    `entries` are tasks, values and processes with their distance from the task, negative for what it needs; `more` counts what
    has been left out beside each. `edges` lead from who waits to what it waits for. Both are empty for a task that has ended.

    Raises:
        ValueError: The id is not hexadecimal.
        RuntimeError: No session is running.
    """
    entries: dict[str, dict[str, Any]] = {}
    edges: dict[tuple[str, str], dict[str, Any]] = {}
    for row in _rows_about("arguments", task_id, timeout):
        if "id" in row:
            key = _entry_key(row["kind"], row["id"])
            # The node that has the task knows more than the one that it was submitted to.
            if key not in entries or entries[key]["kind"] != "task" or row["state"] == "RUNNING":
                entries[key] = {**row, "id": key}
        else:
            pair = _entry_key(row["from_kind"], row["from"]), _entry_key(row["to_kind"], row["to"])
            edges[pair] = {"from": pair[0], "to": pair[1], "how": row["how"], "there": row["there"]}
    return {"entries": list(entries.values()), "edges": list(edges.values())}


def _rows_about(kind: str, task_id: str, timeout: float) -> list[dict[str, Any]]:
    """Return what all nodes answer about one task, in rows of a kind."""
    process = session.current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so nothing waits; call init() first")
    wanted = bytes.fromhex(task_id).removeprefix(inventory.CREATION_PREFIX)
    parts, _ = survey.ask(process, (kind,), timeout, {"task": wanted}, 0, False)
    return [row for part in parts for row in part.get(kind, ())]


def _entry_key(kind: str, id: bytes) -> str:
    return task_hex(id) if kind == "task" else id.hex()


def submitted_at(task_id: str, timeout: float) -> str:
    """Return the file and line of the call of a task; empty if no process holds a reference to its value.

    Processes look through their objects for it, which takes some milliseconds in each.
    """
    process = session.current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so no call is known; call init() first")
    wanted = bytes.fromhex(task_id)
    if wanted.startswith(inventory.CREATION_PREFIX):
        return ""
    where: Where = {"object": wanted + FIRST_VALUE, "task": wanted}
    parts, _ = survey.ask(process, ("objects",), timeout, where, 0, False)
    return next((ref[6] for part in parts for ref in part.get("refs", ()) if ref[6]), "")
