"""The button Save of the page: the session of this moment as a file, which `skate dashboard open` shows."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response


def save(request: Request) -> Response:
    """Return the file."""
    from skate.dashboard.recorder import session_now  # it asks the table in which this function is

    name = time.strftime("session-%Y-%m-%d_%H-%M-%S.skate")
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(session_now(), media_type="application/octet-stream", headers=headers)
