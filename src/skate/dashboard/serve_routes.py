"""Ray's REST of Serve: the state of its applications; a config that replaces them; their end."""

from __future__ import annotations

import threading

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from skate.dashboard.job_routes import refusal
from skate.dashboard.mask import masked
from skate.dashboard.ray_page import serve_details
from skate.job_submission.manager import of_session

PATH = "/api/serve/applications/"
BODY_BYTES_MAX = 16 << 20
#: Only one config is applied at a time.
_changing = threading.Lock()


def applications(request: Request) -> Response:
    """Return the state of Serve and its applications, as `serve status` reads it."""
    from skate.serve import rest  # most servers are never asked for it, and it loads Serve

    status, answer = rest.act("GET", PATH, b"")
    if status == 200 and isinstance(answer, dict):
        answer = serve_details.completed(answer)
    return JSONResponse(masked(request, answer), status)


async def apply(request: Request) -> Response:
    """Serve exactly the applications of the config in the body."""
    refused = _refusal(request)
    if refused is not None:
        return refused
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            return PlainTextResponse(f"the body is larger than {BODY_BYTES_MAX} bytes", 413)
    return await run_in_threadpool(_change, "PUT", body)


async def delete(request: Request) -> Response:
    """Delete all applications, and end Serve."""
    refused = _refusal(request)
    if refused is not None:
        return refused
    return await run_in_threadpool(_change, "DELETE", b"")


def _refusal(request: Request) -> Response | None:
    """Return the answer if applications cannot be deployed here: they need a node that stays."""
    try:
        refused = refusal(request)
        if refused is None:
            of_session()
        return refused
    except ConnectionError as error:
        return PlainTextResponse(str(error), 500)


def _change(method: str, body: bytes) -> Response:
    from skate.serve import rest  # see above

    with _changing:
        status, answer = rest.act(method, PATH, body)
    return JSONResponse(answer, status)
