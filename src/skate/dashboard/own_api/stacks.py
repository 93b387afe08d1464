"""Stacks and profiles of processes. They interfere with the processes, so they need a token for `control`."""

from __future__ import annotations

import json
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from skate.util.profiling.requests import MODES, take
from skate.util.profiling.stacks import stacks_of_all

SECONDS_MAX = 60.0
BODY_BYTES_MAX = 1 << 16


def stacks(request: Request) -> Response:
    """Return the stacks of all processes."""
    return JSONResponse(
        {
            "processes": [
                {
                    "pid": each.pid,
                    "node_id": each.node_id,
                    "name": each.name,
                    "problem": each.problem,
                    "threads": [
                        {"name": thread.name, "frames": [frame._asdict() for frame in thread.frames]}
                        for thread in each.threads
                    ],
                }
                for each in stacks_of_all()
            ]
        }
    )


async def profile(request: Request) -> Response:
    """Take a profile of some seconds, and return its stacks: names of frames once, and stacks as numbers of them."""
    try:
        asked = await _asked(request)
        seconds = min(SECONDS_MAX, float(asked.get("seconds", 5)))
        pids = [int(pid) for pid in asked.get("pids", ())]
        mode = str(asked.get("mode", "cpu"))
        if mode not in MODES:
            raise ValueError(f"the mode must be one of {', '.join(MODES)}, not {mode!r}")
        found, missing = await run_in_threadpool(take, seconds, mode=mode, pids=pids)
    except (TypeError, ValueError) as error:
        return PlainTextResponse(str(error), 400)
    numbers: dict[str, int] = {}
    stacks = [
        [at, [numbers.setdefault(frame, len(numbers)) for frame in frames], weight]
        for at, one in enumerate(found)
        for frames, weight in one.samples.stacks
    ]
    processes = [{"pid": one.pid, "node_id": one.node_id, "name": one.name} for one in found]
    return JSONResponse(
        {"processes": processes, "frames": list(numbers), "stacks": stacks, "mode": mode, "missing": missing}
    )


async def _asked(request: Request) -> dict[str, Any]:
    """Return the JSON of a request. Raises ValueError if it is too long, or no object."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            raise ValueError(f"the request is longer than {BODY_BYTES_MAX} bytes")
    found = json.loads(body or b"{}")
    if not isinstance(found, dict):
        raise ValueError("the request is no JSON object")
    return found
