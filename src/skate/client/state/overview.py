"""An overview of the session for whoever watches it: what runs, waits, holds resources, and has ended since the last look.

The nodes answer from numbers that they keep, so it may be asked for each second. See `skate.core.state.overview`.
"""

from __future__ import annotations

import re
import time
from typing import Any

from skate.client.process import Process
from skate.client.session import session
from skate.client.state import holdings, survey
from skate.client.state.inventory import ERRORS, TYPES, task_hex
from skate.core.resource.resources import UNIT

Row = dict[str, Any]
#: How long to wait for other nodes.
ANSWER_SECONDS = 5.0
KINDS = ("overview", "attempts", "ended", "failed")
STATUSES = ("FINISHED", "FAILED", "CANCELLED")
_CURSOR = re.compile(r"(?:[0-9a-f]{1,64}=\d+(?:\.\d+)?(?:e[-+]?\d+)?(?:,|$)){0,10000}")


def names_by_process(timeout: float = ANSWER_SECONDS) -> dict[tuple[str, int], str]:
    """Return what each worker is, by its node and pid: the actor, or the function that runs."""
    parts, _ = survey.ask(_process(), ("overview",), timeout, {}, 0, False)
    return {
        (part["node"].hex(), pid): actor or name
        for part in parts
        for row in part.get("overview", ())
        for _, pid, actor, name, *_ in row["workers"]
    }


def overview(cursor: str = "", timeout: float = ANSWER_SECONDS) -> Row:
    """Return an overview of the session; tasks that have ended and failures only since a cursor.

    Args:
        cursor: The `cursor` of the last answer; by default all ended tasks that the nodes remember are new.
        timeout: How long to wait for the answers of the nodes, in seconds.

    Raises:
        ValueError: The cursor is invalid.
        RuntimeError: No session is running.
    """
    if not _CURSOR.fullmatch(cursor):
        raise ValueError("the cursor is not one that an earlier answer had")
    parts, missing = survey.ask(_process(), KINDS, timeout, {"cursor": cursor}, 0, False)
    now = time.time()
    nodes = [_node(part) for part in parts if part.get("overview")]
    return {
        "now": now,
        "cursor": _cursor_after(parts, cursor),
        "nodes": nodes,
        "waits": [row for part in parts for row in _waits(part)],
        "functions": _functions(parts),
        "ended": [row for part in parts for row in _ended(part, now)],
        "ended_count": sum(row["count"] for part in parts for row in part.get("ended", ()) if "count" in row),
        "failed": [row for part in parts for row in _failed(part, now)],
        "missing": [holdings.process_text(row) for row in missing],
    }


def _process() -> Process:
    process = session.current_or_none()
    if process is None:
        raise RuntimeError("no session is running, so there is nothing to look at; call init() first")
    return process


def _cursor_after(parts: list[Row], before: str) -> str:
    """Return the cursor for the next question: the time of the last ended task of each node."""
    found = {
        node: float(seconds)
        for node, _, seconds in (each.partition("=") for each in before.split(",") if each)
    }
    for part in parts:
        node = part["node"].hex()
        times = [row["entry"][4] for row in part.get("ended", ()) if "entry" in row]
        times += [row["entry"][3] for row in part.get("failed", ())]
        if times:
            found[node] = max(found.get(node, 0.0), *times)
    return ",".join(f"{node}={seconds!r}" for node, seconds in found.items())


def _node(part: Row) -> Row:
    row = part["overview"][0]
    total, free = row["total"], row["free"]
    return {
        "id": part["node"].hex(),
        "ip": part["ip"],
        "head": part["head"],
        "resources": [
            {"name": name, "total": units / UNIT, "free": max(0, free.get(name, 0)) / UNIT}
            for name, units in sorted(total.items())
            if not name.startswith("node:")
        ],
        "holders": [
            {"resource": name, "who": who, "number": number, "amount": units / UNIT}
            for name, who, number, units in row["holders"]
        ],
        "workers": [
            {
                "worker": cid,
                "pid": pid,
                "actor": actor,
                "task": name,
                "task_id": task_hex(task_id) if task_id else "",
                "seconds": seconds,
                "tasks": tasks,
            }
            for cid, pid, actor, name, task_id, seconds, tasks in row["workers"]
        ],
        "arena_used": row["arena"][0],
        "arena_total": row["arena"][1],
        "spilled": row["spilled"],
        "inline": row["inline"],
        "objects": row["objects"],
    }


def _waits(part: Row) -> list[Row]:
    found = part.get("overview", ())
    return [
        {
            "name": name,
            "state": state,
            "number": number,
            "why": why,
            "id": task_hex(task_id) if task_id and state != "PENDING" else task_id.hex(),
            "node": part["node"].hex(),
        }
        for row in found
        for name, state, number, why, task_id in row["waits"]
    ]


def _functions(parts: list[Row]) -> list[Row]:
    """Return the numbers of attempts by function, type and state."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for part in parts:
        for row in part.get("attempts", ()):
            states = counts.setdefault((row["name"], TYPES[row["kind"]]), {})
            states[row["state"]] = states.get(row["state"], 0) + row["number"]
    return [{"name": name, "type": kind, "states": states} for (name, kind), states in counts.items()]


def _ended(part: Row, now: float) -> list[list[Any]]:
    """Return the ended tasks: name, id, pid, start and end in seconds since 1970, status, attempt, and seconds of waiting."""
    epoch = now - part["now"]
    rows = []
    for row in part.get("ended", ()):
        if "entry" in row:
            name, task_id, cid, pid, at, micros, status, attempt, asked = row["entry"]
            begin = at - micros * 1e-6
            waited = max(0.0, begin - asked)
            rows.append(
                [
                    name,
                    task_hex(task_id),
                    pid or cid,
                    epoch + begin,
                    epoch + at,
                    STATUSES[status],
                    attempt,
                    waited,
                ]
            )
    return rows


def _failed(part: Row, now: float) -> list[Row]:
    epoch = now - part["now"]
    return [
        {
            "name": name,
            "task_id": task_hex(task_id),
            "attempt": attempt,
            "at": epoch + at,
            "error": ERRORS.get(error, error),
            "message": text,
        }
        for name, task_id, attempt, at, error, text in (row["entry"] for row in part.get("failed", ()))
    ]
