"""JSON for the page: the routes below `/api/skate/`.

now.py      the overview that the page asks for each second
rows.py     tables of tasks, actors, groups, jobs, nodes and workers; single ones of them
memory.py   objects by the line that made them
logs.py     the output of workers
stacks.py   stacks and profiles
data.py, train.py, tune.py, serve.py, llm.py   the libraries of a program, as they announce themselves
programs.py what programs of users announce
session.py  all of it as a file
frames.py   tracebacks as lines of the program

Add a route for reading to READS, or one that interferes with processes to CONTROLS: it is a POST, and needs a token for
`control`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from skate.dashboard.own_api import (
    data,
    llm,
    logs,
    memory,
    now,
    programs,
    rows,
    serve,
    session,
    stacks,
    train,
    tune,
)

Endpoint = Callable[[Request], Response | Awaitable[Response]]

READS: dict[str, Endpoint] = {
    "/api/skate/now": now.overview_since,
    "/api/skate/tasks": rows.tasks,
    "/api/skate/task/{task_id}": rows.task,
    "/api/skate/task/{task_id}/lines": rows.task_lines,
    "/api/skate/task/{task_id}/arguments": rows.task_arguments,
    "/api/skate/rows/{kind}": rows.rows,
    "/api/skate/rows/{kind}/{row_id}": rows.row,
    "/api/skate/memory": memory.look,
    "/api/skate/logs/streams": logs.streams,
    "/api/skate/logs/lines": logs.lines,
    "/api/skate/logs/files": logs.files,
    "/api/skate/data": data.datasets,
    "/api/skate/train": train.runs,
    "/api/skate/tune": tune.searches,
    "/api/skate/serve": serve.applications,
    "/api/skate/llm": llm.models,
    "/api/skate/programs": programs.programs,
    "/api/skate/session": session.save,
}
CONTROLS: dict[str, Endpoint] = {
    "/api/skate/stacks": stacks.stacks,
    "/api/skate/profile": stacks.profile,
    "/api/skate/serve/try": serve.attempt,
}
