"""The page of a kept session: the same files and routes, answered from a session file, without a node."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from skate.dashboard.access import READ, Access
from skate.dashboard.front import file, front
from skate.dashboard.guard import Guard
from skate.dashboard.own_api.readings.plain import number, rows
from skate.dashboard.own_api.rows import CONDITIONS
from skate.dashboard.recorder import LINES, NOW, key_of, stream_of
from skate.dashboard.session_file import SessionFile

PREFIX = "/api/skate/"
TASKS = "/api/skate/tasks"
#: The parameter that names one thing. All others are filters of a page, or say where it has been.
NAME = "key"
#: The cursor of a page that has seen everything.
SEEN = "end"
#: The answers that are put together for a page that opens: about as many as it draws.
TOGETHER = 120
#: The most lines of output in one answer.
LINES_MAX = 20_000
NOT_KEPT = "the session was kept without this"

Params = Mapping[str, str]


def guarded(session: SessionFile, access: Access) -> Guard:
    """Return the application behind its guard."""
    routes = [
        Route("/", front, methods=["GET"]),
        Route("/page/{path:path}", file, methods=["GET"]),
        Route("/api/healthz", lambda request: PlainTextResponse("success"), methods=["GET"]),
        Route(PREFIX + "{path:path}", endpoint(KeptSession(session)), methods=["GET"]),
    ]
    return Guard(Starlette(routes=routes), access)


def endpoint(session: KeptSession) -> Callable[[Request], Response]:
    """Return the endpoint of all routes below `/api/skate/`."""

    def answer(request: Request) -> Response:
        found = session.answer(PREFIX + request.path_params["path"], request.query_params)
        return PlainTextResponse(NOT_KEPT, 404) if found is None else JSONResponse(found)

    return answer


class KeptSession:
    """The answers of a kept session.

    Args: session: its file.
    """

    def __init__(self, session: SessionFile) -> None:
        self._session = session

    def answer(self, path: str, params: Params) -> dict[str, object] | None:
        """Return the answer to a question of the page, or None if it was not kept."""
        if path == NOW:
            return self._now(params.get("cursor", ""), number_of(params.get("at", "")))
        if path == LINES:
            return {"rows": list(self._lines(params.get("cursor", "")))}
        named = {NAME: params[NAME]} if params.get(NAME) else {}
        found = self._last(key_of(path, named))
        if found is None:
            return self._row(path)
        if path == TASKS:
            found["rows"] = _matching(found, params)
        return found

    def _last(self, key: str) -> dict[str, object] | None:
        places = self._session.places.get(key)
        return self._read(key, -1) if places else None

    def _read(self, key: str, at: int) -> dict[str, object]:
        """Return an answer with the time of the session, so that a page can say what it shows."""
        found = self._session.answer(self._session.places[key][at])
        kept = {"began": self._session.began, "ended": self._session.ended}
        return {**found, "kept": kept, "scope": READ} if isinstance(found, dict) else {"kept": kept}

    def _row(self, path: str) -> dict[str, object] | None:
        """Return the row of a table, which is not kept by itself."""
        table, _, wanted = path.rpartition("/")
        found = self._last(table)
        for row in rows(found.get("rows")) if found else ():
            if found is not None and row.get(str(found.get("id"))) == wanted:
                return {"row": row}
        return None

    def _now(self, cursor: str, moment: float | None) -> dict[str, object] | None:
        """Return the last overview of a moment with the ended tasks of those before, and then without new ones.

        Without a moment, it is the end of the session. A moment before the first overview is that of the first one.
        """
        places = self._session.places.get(NOW)
        if not places:
            return None
        end = len(places) if moment is None else max(1, bisect_right([each.at for each in places], moment))
        found = self._read(NOW, end - 1)
        pieces = [] if cursor == SEEN else [self._read(NOW, at) for at in range(max(0, end - TOGETHER), end)]
        for name in ("ended", "failed"):
            if isinstance(found.get(name), list):
                listed = [each[name] for each in pieces if isinstance(each.get(name), list)]
                found[name] = [] if cursor == SEEN else [row for each in listed for row in _listed(each)]
        return {**found, "cursor": SEEN}

    def _lines(self, cursor: str) -> Iterator[dict[str, object]]:
        """Yield the kept lines of the streams in a cursor, from its numbers on."""
        wanted = dict(_numbers(cursor))
        left = LINES_MAX
        for at in range(len(self._session.places.get(LINES, ()))):
            for row in rows(self._read(LINES, at).get("rows")):
                name, lines = stream_of(row), row.get("lines")
                if name not in wanted:
                    name = name.rpartition(":")[2]
                size = len(lines) if isinstance(lines, list) else 0
                if name in wanted and (number(row.get("start")) or 0) + size > wanted[name]:
                    yield row
                    left -= size
                    if left <= 0:
                        return


def number_of(text: str) -> float | None:
    """Return a finite number of seconds; None if the text is none."""
    try:
        return number(float(text))
    except ValueError:
        return None


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _numbers(cursor: str) -> Iterator[tuple[str, int]]:
    for each in cursor.split(","):
        name, _, text = each.partition("=")
        if text.isdecimal():
            yield name, int(text)


def _matching(found: Mapping[str, object], params: Params) -> list[object]:
    """Return the rows of a table of tasks that have what a page filters by."""
    columns = [str(each) for each in _listed(found.get("columns"))]
    asked = {columns.index(name): params[name] for name in CONDITIONS if params.get(name) and name in columns}
    listed = _listed(found.get("rows"))
    if not asked:
        return listed
    return [
        row for row in listed if isinstance(row, list) and all(row[at] == word for at, word in asked.items())
    ]
