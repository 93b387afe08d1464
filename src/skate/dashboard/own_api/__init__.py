"""JSON for the page: the routes below `/api/skate/`.

now.py   the overview that the page asks for each second

Add a route for reading to READS, or one that interferes with processes, or is expensive for them, to CONTROLS: it is a POST, and
needs a token for `control`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from skate.dashboard.own_api import now

Endpoint = Callable[[Request], Response | Awaitable[Response]]

READS: dict[str, Endpoint] = {
    "/api/skate/now": now.overview_since,
}
CONTROLS: dict[str, Endpoint] = {}
