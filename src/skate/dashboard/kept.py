"""The page of a kept session: the same files and routes, answered from a session file, without a node."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from skate.dashboard.access import READ, Access
from skate.dashboard.front import file, front
from skate.dashboard.guard import Guard
from skate.dashboard.recorder import key_of
from skate.dashboard.session_file import SessionFile

#: Parameters that say where a page has been, not what it asks for.
PROGRESS = frozenset({"cursor", "version", "since"})
#: The cursor of a page that has seen everything.
SEEN = "end"
#: The answers that are put together for a page that asks for what is new: about as many as it draws.
TOGETHER = 60


def guarded(session: SessionFile, access: Access) -> Guard:
    """Return the application behind its guard."""
    routes = [
        Route("/", front, methods=["GET"]),
        Route("/page/{path:path}", file, methods=["GET"]),
        Route("/api/healthz", lambda request: PlainTextResponse("success"), methods=["GET"]),
        Route("/api/skate/{path:path}", answers_of(session), methods=["GET"]),
    ]
    return Guard(Starlette(routes=routes), access)


def answers_of(session: SessionFile) -> Callable[[Request], Response]:
    """Return the endpoint of all routes below `/api/skate/`."""

    def answer(request: Request) -> Response:
        path = f"/api/skate/{request.path_params['path']}"
        params = {name: value for name, value in request.query_params.items() if name not in PROGRESS}
        places = session.places.get(key_of(path, params)) or session.places.get(key_of(path, _named(params)))
        if not places:
            return PlainTextResponse("the session was kept without this", 404)
        found = session.answer(places[-1])
        if not isinstance(found, dict):
            return JSONResponse(found)
        if isinstance(found.get("cursor"), str):
            earlier = [session.answer(each) for each in places[-TOGETHER:-1]]
            found = together(found, earlier, request.query_params.get("cursor", ""))
        kept = {"began": session.began, "ended": session.ended, "at": places[-1].at}
        return JSONResponse({**found, "scope": READ, "kept": kept})

    return answer


def _named(params: dict[str, str]) -> dict[str, str]:
    """Return the parameters that name one thing; filters and sort orders of a page are left out."""
    return {name: value for name, value in params.items() if name == "key"}


def together(last: dict[str, object], earlier: list[object], cursor: str) -> dict[str, object]:
    """Return an answer that has been given in pieces: all of the lists at first, and then nothing new."""
    found = {**last, "cursor": SEEN}
    seen = cursor == SEEN
    for name in ("ended", "failed"):
        pieces = [each.get(name) for each in [*earlier, last] if isinstance(each, dict)]
        if isinstance(last.get(name), list):
            found[name] = (
                [] if seen else [row for piece in pieces if isinstance(piece, list) for row in piece]
            )
    return found
