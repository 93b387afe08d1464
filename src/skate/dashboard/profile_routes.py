"""Ray's routes to stacks and profiles of workers and tasks.

They interfere with running processes, so the guard wants a token for `control`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from skate.dashboard.state_routes import TRUE
from skate.util import state
from skate.util.profiling import CPU, MEMORY, WALL, flame_graph, take, traceback_of
from skate.util.state.exception import RayStateApiException

CPU_SECONDS, MEMORY_SECONDS = 5, 10
SECONDS_MIN, SECONDS_MAX = 1, 60
#: Ray's formats of CPU profiles, and the names of the table of memory.
FLAMEGRAPH, SPEEDSCOPE, RAW, TABLE = "flamegraph", "speedscope", "raw", "table"


class _Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def profiling_enabled(request: Request) -> Response:
    """Report that profiles can be taken, and the defaults of the routes."""
    defaults = {
        "native": False,
        "subprocesses": False,
        "idle": False,
        "leaks": False,
        "tracePythonAllocators": False,
        "cpuDuration": CPU_SECONDS,
        "memoryDuration": MEMORY_SECONDS,
        "maxDuration": SECONDS_MAX,
        "cpuFormat": FLAMEGRAPH,
        "memoryFormat": FLAMEGRAPH,
    }
    return JSONResponse(
        {"result": True, "msg": "", "data": {"profilingEnabled": True, "profilingDefaults": defaults}}
    )


def worker_traceback(request: Request) -> Response:
    """Return the stacks of a process as text."""
    return _answered(lambda: _traceback(*_process(request)))


def task_traceback(request: Request) -> Response:
    """Return the stacks of the process that runs a task as text."""
    return _answered(lambda: _traceback(*_process_of_task(request)))


def worker_cpu_profile(request: Request) -> Response:
    """Return where a process spends CPU time, by default as a flame graph."""
    return _answered(lambda: _cpu_profile(request, *_process(request)))


def task_cpu_profile(request: Request) -> Response:
    """Return where the process that runs a task spends CPU time, by default as a flame graph."""
    return _answered(lambda: _cpu_profile(request, *_process_of_task(request)))


def memory_profile(request: Request) -> Response:
    """Return which lines of a process, or of that which runs a task, allocate memory and hold it at the end."""

    def make() -> Response:
        pid, node_id = _process_of_task(request) if "task_id" in request.query_params else _process(request)
        shape = _format(request, (FLAMEGRAPH, TABLE))
        return _profile(pid, node_id, MEMORY, _duration(request, MEMORY_SECONDS), shape)

    return _answered(make)


def _answered(make: Callable[[], Response]) -> Response:
    try:
        return make()
    except _Refused as error:
        return PlainTextResponse(str(error), error.status)


def _process(request: Request) -> tuple[int, str]:
    """Return the process that a request names and its node. An IP address names a node, too."""
    asked = request.query_params
    node_id, ip = asked.get("node_id", ""), asked.get("ip", "")
    if not node_id and not ip:
        raise _Refused(400, "ip or node_id is required")
    found = {
        row["node_id"]
        for row in _rows(state.list_nodes)
        if node_id == row["node_id"] or (not node_id and ip == row["node_ip"])
    }
    if not found:
        raise _Refused(404, f"the cluster has no node {node_id or ip}")
    try:
        return int(asked.get("pid", "")), node_id or (found.pop() if len(found) == 1 else "")
    except ValueError:
        raise _Refused(400, f"pid must be the id of a process, got {asked.get('pid', '')!r}") from None


def _process_of_task(request: Request) -> tuple[int, str]:
    """Return the process that runs the task that a request names, and its node."""
    asked = request.query_params
    for name in ("task_id", "attempt_number", "node_id"):
        if name not in asked:
            raise _Refused(400, f"{name} is required")
    for row in _rows(state.list_tasks, filters=[("task_id", "=", asked["task_id"])], detail=True):
        if str(row["attempt_number"]) == asked["attempt_number"]:
            if row["state"] != "RUNNING" or not row["worker_pid"]:
                raise _Refused(404, f"the task attempt does not run: its state is {row['state']}")
            return int(row["worker_pid"]), row["node_id"]
    raise _Refused(404, f"no task has the id {asked['task_id']} and the attempt {asked['attempt_number']}")


def _rows(listed: Callable[..., Any], **more: Any) -> list[dict[str, Any]]:
    try:
        return [row if isinstance(row, dict) else row.__dict__ for row in listed(**more)]
    except RayStateApiException as error:
        raise _Refused(503, str(error)) from None


def _traceback(pid: int, node_id: str) -> Response:
    text = traceback_of(pid, node_id)
    if text is None:
        raise _Refused(404, f"no worker or driver of the session has the id {pid}, or it is stopped")
    return PlainTextResponse(text)


def _cpu_profile(request: Request, pid: int, node_id: str) -> Response:
    mode = WALL if request.query_params.get("idle", "") in TRUE else CPU
    shape = _format(request, (FLAMEGRAPH, SPEEDSCOPE, RAW))
    return _profile(pid, node_id, mode, _duration(request, CPU_SECONDS), shape)


def _profile(pid: int, node_id: str, mode: str, seconds: int, shape: str) -> Response:
    profiles, missing = take(seconds, mode=mode, pids=[pid], node_id=node_id)
    if not profiles:
        problem = missing[0] if missing else f"no worker or driver of the session has the id {pid}"
        raise _Refused(503 if missing else 404, problem)
    if shape == FLAMEGRAPH:
        return Response(flame_graph.svg(profiles, mode), media_type="image/svg+xml")
    if shape == SPEEDSCOPE:
        return PlainTextResponse(flame_graph.speedscope(profiles, mode))
    return PlainTextResponse(
        flame_graph.table(profiles, mode) if shape == TABLE else flame_graph.collapsed(profiles)
    )


def _format(request: Request, known: tuple[str, ...]) -> str:
    shape = request.query_params.get("format", FLAMEGRAPH)
    if shape not in known:
        raise _Refused(400, f"format must be one of {', '.join(known)}, got {shape!r}")
    return shape


def _duration(request: Request, default: int) -> int:
    text = request.query_params.get("duration", str(default))
    seconds = int(text) if text.isdecimal() else 0
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:
        raise _Refused(400, f"duration must be from {SECONDS_MIN} to {SECONDS_MAX} seconds, got {text!r}")
    return seconds
