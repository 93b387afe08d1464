"""Keeps a session: asks the page's routes as the page does, and appends what has changed to a file."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import itertools
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Protocol
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

import skate
from skate.dashboard.access import READ
from skate.dashboard.guard import GRANTED
from skate.dashboard.own_api.readings.plain import number, rows
from skate.dashboard.own_api.rows import KINDS
from skate.dashboard.session_file import MAGIC, SessionWriter, entry

#: How often everything is asked; with more and more of the room used, less often.
EVERY_SECONDS = 2.0
ROOM_BYTES = 256 << 20
#: The share of the room at which the pauses begin to grow: with each further half of the rest, they double.
PLENTY = 0.5
#: The most things of a kind that are asked for one by one: datasets, runs, searches, deployments, models.
EACH_MAX = 30
#: Tables of all tasks and objects are asked in each of so many rounds only, and in the last one.
LARGE_ROUNDS = 10
#: Parts of answers that change while nothing happens.
CLOCKS = ("at", "now", "cursor")
LARGE = ("/api/skate/tasks", "/api/skate/memory", "/api/skate/logs/files")
ROWS = "/api/skate/rows/{kind}"
TASK, TASK_LINES = "/api/skate/task/{task_id}", "/api/skate/task/{task_id}/lines"
NOW, STREAMS, LINES = "/api/skate/now", "/api/skate/logs/streams", "/api/skate/logs/lines"
#: The most streams of one question, and the most questions of a round, for lines of output.
STREAMS_MAX, LINES_ROUNDS = 400, 20
#: How much of a node's id names it in a cursor of output.
NODE_DIGITS = 16

Params = Mapping[str, str]
Endpoint = Callable[[Request], Response | Awaitable[Response]]
Routes = Mapping[str, Endpoint]
NONE: Params = {}


class Sink(Protocol):
    """Where answers go."""

    def add(self, key: str, at: float, answer: bytes) -> bool:
        """Keep an answer; return False if there is no room for it."""


def key_of(path: str, params: Params) -> str:
    """Return the key of a question: its path, and its query in order."""
    return f"{path}?{urlencode(sorted(params.items()))}" if params else path


def stream_of(row: Mapping[str, object]) -> str:
    """Return the name of a stream of output in a cursor: its node, pid, and "out" or "err"."""
    return f"{str(row.get('node_id', ''))[:NODE_DIGITS]}:{row.get('pid')}.{row.get('stream')}"


def _keys(kind: str) -> Callable[[object], Iterator[Params]]:
    """Return what yields a question for each of the things in an answer."""

    def each(answer: object) -> Iterator[Params]:
        for row in rows(_part(answer, kind))[:EACH_MAX]:
            yield {"key": str(row["key"])}

    return each


def _deployments(answer: object) -> Iterator[Params]:
    found = [row for app in rows(_part(answer, "applications")) for row in rows(app.get("deployments"))]
    for row in found[:EACH_MAX]:
        yield {"key": str(row["key"])}


#: The routes about libraries, and the further questions that their answers lead to.
LIBRARIES: dict[str, Callable[[object], Iterator[Params]]] = {
    "/api/skate/data": _keys("datasets"),
    "/api/skate/train": _keys("runs"),
    "/api/skate/tune": _keys("searches"),
    "/api/skate/llm": _keys("models"),
    "/api/skate/programs": _keys("programs"),
    "/api/skate/serve": _deployments,
}


class Recorder:
    """Asks the routes, and passes on answers that differ from the last ones.

    Args:
        sink: where they go.
        routes: the endpoints of the page by path.
    """

    def __init__(self, sink: Sink, routes: Routes) -> None:
        self._sink = sink
        self._routes = routes
        self._digests: dict[str, bytes] = {}
        self._cursor = ""
        #: The number of the next line of each stream of output.
        self._lines: dict[str, int] = {}
        self._failed: set[str] = set()
        self._complained: set[str] = set()
        #: False once an answer has found no room.
        self.has_room = True

    def round(self, in_full: bool = True) -> None:
        """Ask everything once; the large tables only if it is to be in full."""
        now = self._ask(NOW, {"cursor": self._cursor} if self._cursor else NONE, is_keyed=False)
        self._cursor = str(_part(now, "cursor") or "")
        for path, further in LIBRARIES.items():
            for params in further(self._ask(path)):
                self._ask(path, params)
        self._ask_lines()
        for row in rows(_part(now, "failed"))[:EACH_MAX]:
            self._ask_task(str(row.get("task_id", "")))
        if in_full:
            for path in LARGE:
                self._ask(path)
            for kind in sorted(KINDS):
                self._ask(ROWS, of={"kind": kind})

    def _ask_task(self, task_id: str) -> None:
        """Keep the page of a failed task, once."""
        if task_id and task_id not in self._failed:
            self._failed.add(task_id)
            for path in (TASK, TASK_LINES):
                self._ask(path, of={"task_id": task_id})

    def _ask_lines(self) -> None:
        """Keep the lines of output that are new."""
        streams = {
            stream_of(row): int(number(row.get("end")) or 0)
            for row in rows(_part(self._ask(STREAMS), "streams"))
        }
        for _ in range(LINES_ROUNDS):
            behind = [name for name, end in streams.items() if self._lines.get(name, 0) < end][:STREAMS_MAX]
            if not behind:
                return
            cursor = ",".join(f"{name}={self._lines.get(name, 0)}" for name in behind)
            found = rows(_part(self._ask(LINES, {"cursor": cursor}, is_keyed=False), "rows"))
            for row in found:
                lines = row.get("lines")
                size = len(lines) if isinstance(lines, list) else 0
                self._lines[stream_of(row)] = int(number(row.get("start")) or 0) + size
            if not found:
                self._lines.update({name: streams[name] for name in behind})

    def _ask(self, route: str, params: Params = NONE, of: Params = NONE, is_keyed: bool = True) -> object:
        """Ask a route, keep its answer under its path and query, and return it; None if it has refused.

        Args:
            route: its path, with names for parameters.
            params: the query.
            of: the parameters of the path.
            is_keyed: False if the query only says where the last question has ended.
        """
        path = route.format(**of)
        try:
            response = _answer(self._routes[route], path, params, of)
        except Exception as error:  # any route may fail, and the others shall be kept
            if route not in self._complained:
                self._complained.add(route)
                print(
                    f"skate dashboard: {path} is not kept: {type(error).__name__}: {error}",
                    file=sys.stderr,
                    flush=True,
                )
            return None
        if response.status_code != 200:
            return None
        value: object = json.loads(bytes(response.body))
        key = key_of(path, params if is_keyed else NONE)
        shown = (
            {name: each for name, each in value.items() if name not in CLOCKS}
            if isinstance(value, dict)
            else value
        )
        digest = hashlib.blake2b(json.dumps(shown).encode(), digest_size=16).digest()
        if self._digests.get(key) != digest:
            if self._sink.add(key, time.time(), bytes(response.body)):
                self._digests[key] = digest
            else:
                self.has_room = False
        return value


def _part(answer: object, name: str) -> object:
    return answer.get(name) if isinstance(answer, dict) else None


def _answer(endpoint: Endpoint, path: str, params: Params, of: Params) -> Response:
    """Call a route as the page does with a token that reads, so secrets are hidden."""
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": "", "scheme": "http",
        "query_string": urlencode(params).encode(), "headers": [(b"host", b"127.0.0.1")], "path_params": dict(of),
        GRANTED: READ,
    }  # fmt: skip
    found = endpoint(Request(scope))
    if isinstance(found, Response):
        return found

    async def awaited() -> Response:
        return await found

    assert inspect.isawaitable(found)
    return asyncio.run(awaited())


class FileRecorder:
    """Records into a file from a thread, until `close`.

    Args:
        path: a new file.
        routes: the endpoints of the page by path.
        bytes_max: the most bytes of the file.
        every: seconds between two rounds, as long as there is plenty of room.

    Raises:
        OSError: the file exists, or cannot be made.
    """

    def __init__(
        self, path: str, routes: Routes, bytes_max: int = ROOM_BYTES, every: float = EVERY_SECONDS
    ) -> None:
        self._writer = SessionWriter(path, bytes_max)
        self._recorder = Recorder(self._writer, routes)
        self._every = every
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skate-recorder", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for number_of in itertools.count():
            self._recorder.round(number_of % LARGE_ROUNDS == 0)
            if not self._recorder.has_room or self._end.wait(self._pause()):
                break
        if not self._recorder.has_room:
            print(
                f"skate dashboard: {self._writer.path} is full; it keeps what was before",
                file=sys.stderr,
                flush=True,
            )

    def _pause(self) -> float:
        rest, pause = 1.0 - self._writer.share, self._every
        while rest < PLENTY and pause < 1e6:
            rest, pause = rest * 2, pause * 2
        return pause

    def close(self) -> None:
        """Keep what is new, and close the file. The session still runs."""
        self._end.set()
        self._thread.join()
        if self._recorder.has_room and _session_runs():
            self._recorder.round()
        self._writer.close()


def _session_runs() -> bool:
    try:
        skate.cluster_resources()
    except (ConnectionError, RuntimeError, skate.exceptions.RaySystemError):
        return False
    return True


class _Bytes:
    """A sink in memory."""

    def __init__(self) -> None:
        self.parts = [MAGIC]
        self._left = ROOM_BYTES

    def add(self, key: str, at: float, answer: bytes) -> bool:
        """Keep an answer."""
        try:
            made = entry(key, at, answer)
        except ValueError:
            return False
        self._left -= len(made)
        if self._left < 0:
            return False
        self.parts.append(made)
        return True


def session_now(routes: Routes) -> bytes:
    """Return a session file of this moment."""
    sink = _Bytes()
    Recorder(sink, routes).round()
    return b"".join(sink.parts)
