"""Uploads of packages: a client asks for one by the hash of its contents, and sends it if it is not there."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from skate.dashboard.job_routes import refusal
from skate.job_submission.manager import of_session
from skate.runtime_env.package_store import PackageRefused, PackageStore


def look(request: Request) -> Response:
    """Answer 200 if a package is there, else 404."""
    try:
        if _store(request).exists(request.path_params["name"]):
            return Response()
    except (ValueError, ConnectionError) as error:
        return PlainTextResponse(str(error), 404)
    return PlainTextResponse("the package does not exist", 404)


async def put(request: Request) -> Response:
    """Store a package, piece by piece."""
    refused = refusal(request)
    if refused is not None:
        return refused
    try:
        upload = await run_in_threadpool(_store(request).upload, request.path_params["name"])
    except (ValueError, OSError) as error:
        return PlainTextResponse(str(error), 400)
    try:
        async for piece in request.stream():
            await run_in_threadpool(upload.write, piece)
        await run_in_threadpool(upload.finish)
    except PackageRefused as error:
        return PlainTextResponse(str(error), 413)
    except OSError as error:
        return PlainTextResponse(f"the package cannot be stored: {error.strerror}", 507)
    finally:
        upload.close()
    return Response()


def _store(request: Request) -> PackageStore:
    if request.path_params["protocol"] != "gcs":
        raise PackageRefused("packages have the protocol gcs")
    return of_session().packages
