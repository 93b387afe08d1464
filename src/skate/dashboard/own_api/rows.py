"""Rows for the view Work: tasks as short lists, other kinds as the state API has them, and single ones with details."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from skate.dashboard.mask import masked
from skate.dashboard.own_api.frames import frames_of, place_of
from skate.util import state
from skate.util.state import overview
from skate.util.state.api import ID_COLUMNS, columns_of, find
from skate.util.state.exception import RayStateApiException

#: The most tasks of an answer, and the most rows of other kinds.
TASKS_MAX, ROWS_MAX = 100_000, 10_000
TASKS_DEFAULT = 10_000
ANSWER_SECONDS = 10.0
#: The last lines of a task that its page shows.
LINES_MAX = 200
KINDS = frozenset({"actors", "jobs", "nodes", "placement_groups", "workers"})
CONDITIONS = ("name", "function", "state", "actor")
_HEX = re.compile(r"[0-9a-f]{2,64}")
_TASK_ID = re.compile(r"[0-9a-f]{48}")


def tasks(request: Request) -> Response:
    """Return many tasks, those that have ended and those in progress, each as a list of values."""
    asked = request.query_params
    try:
        limit = max(1, min(TASKS_MAX, int(asked.get("limit", TASKS_DEFAULT))))
        where = {name: asked[name] for name in CONDITIONS if asked.get(name)}
        rows, missing = overview.tasks(limit, where, ANSWER_SECONDS, asked.get("progress") == "1")
    except ValueError as error:
        return PlainTextResponse(str(error), 400)
    return JSONResponse({"columns": overview.COLUMNS, "rows": rows, "limit": limit, "missing": missing})


def rows(request: Request) -> Response:
    """Return the rows of another kind, with all columns."""
    kind = request.path_params["kind"]
    if kind not in KINDS:
        return PlainTextResponse("404: Not Found", 404)
    found, _ = columns_of(kind, None, ROWS_MAX, ANSWER_SECONDS, True, False)
    return JSONResponse({"rows": masked(request, found), "id": ID_COLUMNS[kind]})


def row(request: Request) -> Response:
    """Return one row of another kind."""
    kind, wanted = request.path_params["kind"], request.path_params["row_id"]
    if kind not in KINDS:
        return PlainTextResponse("404: Not Found", 404)
    try:
        found = find(kind, [(ID_COLUMNS[kind], "=", wanted)], 1, ANSWER_SECONDS, True, False)
    except (ValueError, RayStateApiException) as error:
        return PlainTextResponse(str(error), 400)
    if not found:
        return PlainTextResponse(f"the session has no row {wanted} among its {kind}", 404)
    return JSONResponse({"row": masked(request, dict(vars(found[0])))})


def task(request: Request) -> Response:
    """Return the attempts of a task, the errors with their lines, the tasks that it waits for, and where it was submitted."""
    task_id = request.path_params["task_id"]
    if not _TASK_ID.fullmatch(task_id):
        return PlainTextResponse(f"{task_id!r} is no id of a task", 400)
    found = state.get_task(task_id, timeout=ANSWER_SECONDS)
    attempts = found if isinstance(found, list) else [found] if found is not None else []
    if not attempts:
        return PlainTextResponse(
            f"no task has the id {task_id}, or it has ended longer ago than the nodes remember", 404
        )
    rows = [dataclasses.asdict(each) for each in sorted(attempts, key=lambda each: each.attempt_number)]
    for each in rows:
        message = each["error_message"] or _death_of(each)
        each["error_message"] = message
        each["place"] = place_of(message, each["error_type"] or "") if each["error_type"] else None
        each["frames"] = frames_of(message)
    return JSONResponse(
        {
            "attempts": masked(request, rows),
            "chain": overview.chain(task_id, ANSWER_SECONDS),
            "site": overview.submitted_at(task_id, ANSWER_SECONDS),
        }
    )


def task_arguments(request: Request) -> Response:
    """Return the graph around a task in progress: what its arguments wait for, and who waits for its values."""
    task_id = request.path_params["task_id"]
    if not _TASK_ID.fullmatch(task_id):
        return PlainTextResponse(f"{task_id!r} is no id of a task", 400)
    return JSONResponse(overview.arguments(task_id, ANSWER_SECONDS))


def _death_of(attempt: dict[str, Any]) -> str:
    """Return the error that has ended the actor of a failed attempt, for attempts that have no message of their own."""
    if attempt["error_type"] is None or attempt["actor_id"] is None:
        return ""
    actor = state.get_actor(attempt["actor_id"], timeout=ANSWER_SECONDS)
    death = None if actor is None else (actor.death_cause or {}).get("actor_died_error_context")
    return str((death or {}).get("message") or (death or {}).get("reason") or "")


def task_lines(request: Request) -> Response:
    """Return the last lines that an attempt of a task has printed, by stream."""
    task_id = request.path_params["task_id"]
    attempt = request.query_params.get("attempt", "0")
    if not _TASK_ID.fullmatch(task_id) or not attempt.isdecimal():
        return PlainTextResponse("this is no attempt of a task", 400)
    found: dict[str, list[Any]] = {}
    for stream in ("out", "err"):
        for each in overview.lines_of_task(task_id, int(attempt), stream, ANSWER_SECONDS):
            found[stream] = each["lines"][-LINES_MAX:]
    return JSONResponse(found)
