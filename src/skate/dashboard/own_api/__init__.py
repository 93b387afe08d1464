"""JSON for the page: the routes below `/api/skate/`.

now.py   the overview that the page asks for each second
data.py, train.py, tune.py, serve.py, llm.py   the libraries of a program, as they announce themselves
session.py   all of it as a file

Add a route for reading to READS, or one that interferes with processes, or is expensive for them, to CONTROLS: it is a POST, and
needs a token for `control`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from skate.dashboard.own_api import data, llm, now, serve, session, train, tune

Endpoint = Callable[[Request], Response | Awaitable[Response]]

READS: dict[str, Endpoint] = {
    "/api/skate/now": now.overview_since,
    "/api/skate/data": data.datasets,
    "/api/skate/train": train.runs,
    "/api/skate/tune": tune.searches,
    "/api/skate/serve": serve.applications,
    "/api/skate/llm": llm.models,
    "/api/skate/session": session.save,
}
CONTROLS: dict[str, Endpoint] = {
    "/api/skate/serve/try": serve.attempt,
}
