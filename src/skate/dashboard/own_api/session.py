"""The button Save of the page: the session of this moment as a file, which `skate dashboard open` shows."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def save(request: Request) -> Response:
    """Return the file."""
    from skate.dashboard.recorder import session_now  # only for who saves; it needs files of this package

    name = time.strftime("session-%Y-%m-%d_%H-%M-%S.skate")
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    routes = {each.path: each.endpoint for each in request.app.routes if isinstance(each, Route)}
    return Response(session_now(routes), media_type="application/octet-stream", headers=headers)
