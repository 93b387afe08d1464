"""The overview of the session that the view Now shows, and what the page needs to know about itself."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from skate.dashboard.guard import GRANTED
from skate.dashboard.own_api.frames import place_of
from skate.util.state.overview import overview


def overview_since(request: Request) -> Response:
    """Return the overview, with ended tasks since the cursor of the last answer."""
    try:
        found = overview(request.query_params.get("cursor", ""))
    except ValueError as error:
        return PlainTextResponse(str(error), 400)
    for row in found["failed"]:
        row.update(place_of(row["message"], row["error"]))
    return JSONResponse({**found, "scope": request.scope[GRANTED]})
