"""Ray's REST of the state API: `/api/v0/tasks` and its kind, with Ray's columns only.

Ray's client makes a dataclass of each row, so a column that it does not know is an error there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import skate
from skate.dashboard.mask import COLUMNS, masked, sees_everything
from skate.util import state
from skate.util.state import lineage
from skate.util.state.api import columns_of
from skate.util.state.common import DEFAULT_LIMIT, DEFAULT_RPC_TIMEOUT, RAY_MAX_LIMIT_FROM_API_SERVER, SCHEMAS
from skate.util.state.exception import RayStateApiException

#: Columns that Ray does not have, by kind.
OWN_COLUMNS: dict[str, frozenset[str]] = {
    "tasks": frozenset({"waits_for"}),
    "objects": frozenset({"owner_node_id", "location", "task_name", "node_id", "count", "holder"}),
}
SUMMARIES: dict[str, Callable[..., dict[str, Any]]] = {
    "tasks": state.summarize_tasks,
    "actors": state.summarize_actors,
    "objects": state.summarize_objects,
}
#: The most tasks of a summary of some; that of all is made of counters.
TASKS_MAX = RAY_MAX_LIMIT_FROM_API_SERVER
TRUE = ("1", "true", "True")


def reply(result: Any, message: str = "", status: int = 200) -> Response:
    """Return an answer in Ray's envelope."""
    return JSONResponse({"result": status == 200, "msg": message, "data": result}, status)


def refusal(error: Exception, status: int = 400) -> Response:
    """Return an error in Ray's envelope."""
    return reply({"result": None}, str(error), status)


def counted(result: Any, total: int, warning: str = "") -> dict[str, Any]:
    """Return a result with the numbers that Ray's clients read."""
    return {
        "result": {
            "total": total,
            "num_after_truncation": total,
            "num_filtered": total,
            "result": result,
            "partial_failure_warning": warning,
            "warnings": None,
        }
    }


def rows(request: Request) -> Response:
    """List the rows of a kind."""
    kind = request.path_params["kind"]
    if kind not in SCHEMAS:
        return Response("404: Not Found", 404)
    try:
        limit, detail = _limit(request), request.query_params.get("detail", "") in TRUE
        found, _ = columns_of(kind, _filters(request), limit, timeout_of(request), detail, True)
    except (ValueError, TypeError, RayStateApiException) as error:
        return refusal(error)
    own = OWN_COLUMNS.get(kind, frozenset())
    names = [name for name in SCHEMAS[kind].list_columns(detail=detail) if name not in own]
    shown = masked(request, [{name: row[name] for name in names} for row in found])
    return reply(counted(shown, len(found)))


def summary(request: Request) -> Response:
    """Count the rows of a kind."""
    kind = request.path_params["kind"]
    if kind not in SUMMARIES:
        return Response("404: Not Found", 404)
    try:
        of_job = kind == "tasks" and {"filter_keys", "summary_by"}.intersection(request.query_params)
        found = _of_some_tasks(request) if of_job else SUMMARIES[kind](timeout=timeout_of(request))
    except (ValueError, TypeError, RayStateApiException) as error:
        return refusal(error)
    total = sum(
        count for name, count in found["cluster"].items() if name.startswith("total_") and type(count) is int
    )
    return reply(counted({"node_id_to_summary": found}, total))


def _of_some_tasks(request: Request) -> dict[str, Any]:
    """Return the summary of the tasks that filters select, by function or by what has submitted them."""
    found, _ = columns_of("tasks", _filters(request), TASKS_MAX, timeout_of(request), True, True)
    if request.query_params.get("summary_by") != "lineage":
        return {"cluster": lineage.by_name(found)}
    actors, _ = columns_of("actors", [], TASKS_MAX, timeout_of(request), True, True)
    return {"cluster": lineage.by_lineage(found, actors)}


def timeline(request: Request) -> Response:
    """Return the recent tasks as trace events; with download=1 as a file for viewers."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        skate.timeline(filename=file.name)
        answer = Response(file.read(), media_type="application/json")
    if request.query_params.get("download") in TRUE:
        answer.headers["content-disposition"] = 'attachment; filename="timeline.json"'
    return answer


def _limit(request: Request) -> int:
    limit = int(request.query_params.get("limit", DEFAULT_LIMIT))
    if limit > RAY_MAX_LIMIT_FROM_API_SERVER:
        raise ValueError(
            f"limit={limit} is over {RAY_MAX_LIMIT_FROM_API_SERVER}, the most rows of an answer; use a filter"
        )
    return limit


def timeout_of(request: Request) -> float:
    return max(0.0, min(float(request.query_params.get("timeout", DEFAULT_RPC_TIMEOUT)), DEFAULT_RPC_TIMEOUT))


def _filters(request: Request) -> list[tuple[str, str, Any]]:
    parameters = request.query_params
    parts = [parameters.getlist(f"filter_{each}") for each in ("keys", "predicates", "values")]
    if len({len(each) for each in parts}) != 1:
        raise ValueError("filter_keys, filter_predicates and filter_values must have the same number")
    hidden = COLUMNS.intersection(parts[0])
    if hidden and not sees_everything(request):
        raise ValueError(f"a filter by {', '.join(sorted(hidden))} needs the token for everything")
    return list(zip(*parts, strict=True))
