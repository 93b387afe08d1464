"""The recent tasks and spans of the session as trace events, in the form of Ray and in that of viewers."""

from __future__ import annotations

import json
import time
from typing import Any

from skate.client.process import Process
from skate.client.state import survey
from skate.protocol.states import CREATION

Event = dict[str, Any]
#: How long to wait for the spans of other processes.
ANSWER_SECONDS = 5.0
#: Rows that are no process have numbers above those of all processes.
PID_MAX = 1 << 22
WORKER = "worker:"
#: The time of a task between its submission and its start.
QUEUE = "task:queue"


def events(process: Process) -> list[Event]:
    """Return the recent tasks of all nodes, and the spans that libraries have recorded in any process.

    Times are in microseconds since 1970. `pid` is the address of the node, and `tid` names the process.
    """
    parts, _ = survey.ask(process, ("trace", "spans"), ANSWER_SECONDS, {}, 0, False)
    epoch = time.time() - time.monotonic()
    found = [
        event
        for part in parts
        for row in part.get("trace", ())
        for event in _of_task(row["entry"], part["ip"], epoch)
    ]
    found += [json.loads(text) for part in parts for text in part.get("spans", ())]
    return found


def _of_task(entry: tuple[Any, ...], address: str, epoch: float) -> list[Event]:
    name, task_id, kind, worker, pid, end, micros, status, function, since, attempt = entry
    if kind == CREATION:
        function = name = f"{function}.__init__"
    shared = {
        "pid": address,
        "tid": f"{WORKER}{pid or worker}",
        "ts": (epoch + end) * 1e6 - micros,
        "dur": micros,
        "ph": "X",
    }
    word = ("FINISHED", "FAILED", "CANCELLED")[status]
    args = {"name": name, "task_id": task_id.hex(), "status": word}
    waited = {"ts": (epoch + since) * 1e6, "dur": max(0.0, (end - since) * 1e6 - micros)}
    whose = {"name": name, "task_id": task_id.hex(), "attempt": attempt}
    return [
        {"cat": QUEUE, "name": QUEUE, **shared, **waited, "cname": "thread_state_runnable", "args": whose},
        {"cat": "task:execute", "name": "task:execute", **shared, "cname": "rail_animation", "args": {}},
        {"cat": f"task::{function}", "name": name, **shared, "cname": "generic_work", "args": args},
    ]


def numbered(found: list[Event]) -> list[Event]:
    """Return events with numbers as `pid` and `tid`, as Perfetto wants them, after events that name the numbers."""
    nodes: dict[str, int] = {}
    rows: dict[tuple[str, str], int] = {}
    changed = []
    for event in found:
        node, row = event["pid"], event["tid"]
        if node not in nodes:
            nodes[node] = len(nodes) + 1
        if (node, row) not in rows:
            number = row.removeprefix(WORKER)
            rows[node, row] = int(number) if number.isdecimal() else PID_MAX + len(rows)
        event = {**event, "pid": nodes[node], "tid": rows[node, row]}
        changed += _apart(event) if event["cat"] == QUEUE else [event]
    names = [_name("process_name", number, 0, f"Node {node}") for node, number in nodes.items()]
    names += [_name("thread_name", nodes[node], number, row) for (node, row), number in rows.items()]
    return names + changed


def _apart(event: Event) -> list[Event]:
    """Return the wait of a task as an asynchronous span: tasks wait at the same time, and the spans of a row may not overlap."""
    args = event["args"]
    shared = {key: event[key] for key in ("cat", "pid", "tid")}
    shared |= {"name": f"queue: {args['name']}", "id": f"{args['task_id']}:{args['attempt']}"}
    begun = {**shared, "ph": "b", "ts": event["ts"], "args": args}
    return [begun, {**shared, "ph": "e", "ts": event["ts"] + event["dur"]}]


def _name(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
