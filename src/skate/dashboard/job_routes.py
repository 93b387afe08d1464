"""Ray's REST of jobs: submit, stop, delete, look, read and follow the output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from skate.dashboard.mask import masked
from skate.job_submission.manager import JobManager, of_session, status_of
from skate.job_submission.request import JobSubmitRequest
from skate.util import state
from skate.util.state.common import RAY_MAX_LIMIT_FROM_API_SERVER

REQUEST_BYTES_MAX = 1 << 20
#: How often a followed log is looked at.
LOOK_SECONDS = 0.1
#: How long programs may take to answer that they run; those that do not are left out.
LIST_SECONDS = 5.0
#: Ray's client explains 401 and 403 as a wrong token.
NOT_ACCEPTED = 501


def refusal(request: Request) -> Response | None:
    """Return the answer if this server accepts no jobs."""
    if getattr(request.app.state, "accepts_jobs", False):
        return None
    return PlainTextResponse(
        "this server accepts no jobs, because it was started without --jobs; `skate job submit` without an address needs no "
        "server",
        NOT_ACCEPTED,
    )


def answered(change: Callable[[Request, JobManager], Any]) -> Callable[[Request], Any]:
    """Return an endpoint that changes something: errors become statuses with one sentence."""

    async def endpoint(request: Request) -> Response:
        refused = refusal(request)
        if refused is not None:
            return refused
        try:
            given = change(request, of_session())
            return JSONResponse(await given)
        except (LookupError, ValueError, TypeError, RuntimeError, OSError) as error:
            return PlainTextResponse(str(error), status_of(error))

    endpoint.__name__ = change.__name__
    return endpoint


async def _submit(request: Request, jobs: JobManager) -> dict[str, str]:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > REQUEST_BYTES_MAX:
            raise ValueError(f"the request is larger than {REQUEST_BYTES_MAX} bytes")
    given = json.loads(body)
    if not isinstance(given, dict):
        raise TypeError("the request must be a JSON object")
    job = await run_in_threadpool(lambda: jobs.submit(JobSubmitRequest(**given)))
    return {"job_id": job, "submission_id": job}


async def _stop(request: Request, jobs: JobManager) -> dict[str, bool]:
    return {"stopped": await run_in_threadpool(lambda: jobs.stop(jobs.id_of(_id(request))))}


async def _delete(request: Request, jobs: JobManager) -> dict[str, bool]:
    return {"deleted": await run_in_threadpool(lambda: jobs.delete(jobs.id_of(_id(request))))}


submit, stop, delete = answered(_submit), answered(_stop), answered(_delete)


def rows(request: Request) -> Response:
    """Return all jobs: those that were submitted, and the programs that run now."""
    found = state.list_jobs(
        detail=True, limit=RAY_MAX_LIMIT_FROM_API_SERVER, timeout=LIST_SECONDS, raise_on_missing_output=False
    )
    return JSONResponse(masked(request, [row.asdict() for row in found]))


def row(request: Request) -> Response:
    """Return one job."""
    wanted = _id(request)
    try:
        return JSONResponse(masked(request, of_session().details(wanted).dict()))
    except (LookupError, ConnectionError):  # it may be a program that was not submitted
        driver = state.get_job(wanted, timeout=LIST_SECONDS)
    if driver is None:
        return PlainTextResponse(f"Job {wanted} does not exist", 404)
    return JSONResponse(masked(request, driver.asdict()))


def log(request: Request) -> Response:
    """Return the output of a job."""
    try:
        return JSONResponse({"logs": of_session().log(_id(request))})
    except (LookupError, ConnectionError) as error:
        return PlainTextResponse(str(error), 404)


async def follow(stream: WebSocket) -> None:
    """Send the output of a job as it comes, until the job has ended."""
    try:
        tail = of_session().follow(stream.path_params["job_id"])
    except (LookupError, ConnectionError) as error:
        await stream.send_denial_response(PlainTextResponse(str(error), 404))
        return
    await stream.accept()
    gone = asyncio.ensure_future(stream.receive())  # nothing but the end comes from a client
    try:
        while (text := await run_in_threadpool(tail.read)) is not None:
            if text:
                await stream.send_text(text)
            elif (await asyncio.wait({gone}, timeout=LOOK_SECONDS))[0]:
                return
        await stream.close(1000)
    except WebSocketDisconnect:
        return
    finally:
        gone.cancel()
        tail.close()


def _id(request: Request) -> str:
    return str(request.path_params["job_id"])
