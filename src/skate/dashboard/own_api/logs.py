"""The output of workers for the view Logs: the list of streams, and new lines of many of them at once."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from skate.util import state
from skate.util.state import overview

ANSWER_SECONDS = 5.0
_CURSOR = re.compile(r"(?:(?:[0-9a-f]{2,64}:)?\d{1,10}\.(?:out|err)=\d{1,18},?){0,512}")


def streams(request: Request) -> Response:
    """Return the streams whose output nodes keep: node, pid, "out" or "err", the number after the last line, if more may come."""
    names = overview.names_by_process(ANSWER_SECONDS)
    found = [
        {**row, "name": names.get((row["node_id"], row["pid"]), "")} for row in overview.kept(ANSWER_SECONDS)
    ]
    return JSONResponse({"streams": found})


def files(request: Request) -> Response:
    """Return the names of outputs that can be read whole: log files of nodes that keep some, and those of submitted jobs."""
    return JSONResponse({"files": state.list_logs(timeout=ANSWER_SECONDS)})


def lines(request: Request) -> Response:
    """Return lines after a cursor: "NODE:PID.out=12,NODE:PID.err=7" has the number of the next line of each stream.

    NODE is the beginning of the node's id. It may be left out.
    """
    cursor = request.query_params.get("cursor", "")
    if not _CURSOR.fullmatch(cursor):
        return PlainTextResponse("the cursor is not a list like 4711.out=0,4711.err=12", 400)
    return JSONResponse({"rows": overview.lines_after(cursor, ANSWER_SECONDS) if cursor else []})
