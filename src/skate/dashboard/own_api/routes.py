"""The table of the routes about libraries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from skate.dashboard.own_api import data, llm, serve, train, tune

Endpoint = Callable[[Request], Response | Awaitable[Response]]
ROUTES: dict[str, Endpoint] = {
    "/api/skate/data": data.datasets,
    "/api/skate/train": train.runs,
    "/api/skate/tune": tune.searches,
    "/api/skate/serve": serve.applications,
    "/api/skate/llm": llm.models,
}
#: The guard wants the scope `control` for them.
CHANGES: dict[tuple[str, str], Endpoint] = {("POST", "/api/skate/serve/try"): serve.attempt}
