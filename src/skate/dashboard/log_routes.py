"""Ray's REST of logs: the names of streams, and their lines as text, once or as they come."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from skate.dashboard.state_routes import TRUE, refusal, reply, timeout_of
from skate.util import state
from skate.util.state.common import DEFAULT_DOWNLOAD_FILENAME, DEFAULT_LOG_LIMIT
from skate.util.state.exception import RayStateApiException
from skate.util.state.logs import FOLLOW_SECONDS, Reader, reader_of, without_colours

#: The least pause between two looks at a followed stream.
PAUSE_SECONDS_MIN = 0.05
_FILE_NAME = re.compile(r"[\w.-]{1,128}")


def names(request: Request) -> Response:
    """List the kept output of workers on a node."""
    node_id, node_ip = request.query_params.get("node_id"), request.query_params.get("node_ip")
    if not node_id and not node_ip:
        return refusal(ValueError("name the node by node_id or node_ip; /api/v0/nodes lists them"))
    try:
        found = state.list_logs(
            node_id=node_id,
            node_ip=node_ip,
            glob_filter=request.query_params.get("glob", "*"),
            timeout=timeout_of(request),
        )
    except (ValueError, RayStateApiException) as error:
        return refusal(error)
    return reply({"result": found})


async def lines(request: Request) -> Response:
    """Return the last lines of a stream; with the media type "stream", also those that come later."""
    asked = request.query_params
    media = request.path_params["media"]
    if media not in ("file", "stream"):
        return PlainTextResponse("404: Not Found", 404)
    try:
        tail = int(asked.get("lines", DEFAULT_LOG_LIMIT))
        pause = max(PAUSE_SECONDS_MIN, float(asked.get("interval") or FOLLOW_SECONDS))
        reader = await run_in_threadpool(_reader, request)
        first = await run_in_threadpool(reader.first, tail)
    except ValueError as error:
        return PlainTextResponse(str(error), 400)
    except RayStateApiException as error:
        return PlainTextResponse(str(error), 404)
    plain = asked.get("filter_ansi_code", "") in TRUE
    name = asked.get("download_filename", DEFAULT_DOWNLOAD_FILENAME)
    name = name if _FILE_NAME.fullmatch(name) else DEFAULT_DOWNLOAD_FILENAME
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    first = without_colours(first) if plain else first
    if media == "file":
        return PlainTextResponse(first, headers=headers)
    followed = _followed(reader, first, pause, plain)
    return StreamingResponse(followed, media_type="text/plain", headers=headers)


def _reader(request: Request) -> Reader:
    asked = request.query_params
    pid, task_id = asked.get("pid"), asked.get("task_id")
    return reader_of(
        (asked.get("node_id"), asked.get("node_ip")),
        asked.get("filename"),
        asked.get("actor_id"),
        None if task_id is None else (task_id, int(asked.get("attempt_number", 0))),
        None if pid is None else int(pid),
        asked.get("suffix", "out"),
        timeout_of(request),
        asked.get("submission_id"),
    )


async def _followed(reader: Reader, first: str, pause: float, plain: bool) -> AsyncIterator[str]:
    """Yield the lines of a stream until it ends; the server stops when its client has gone."""
    yield first
    while True:
        try:
            text = await run_in_threadpool(reader.more)
        except (RayStateApiException, ConnectionError, RuntimeError):  # the session has ended
            return
        if text is None:
            return
        if text:
            yield without_colours(text) if plain else text
        else:
            await asyncio.sleep(pause)
