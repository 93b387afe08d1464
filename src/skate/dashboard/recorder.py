"""Keeps a session: asks the page's routes as the page does, and appends what has changed to a file."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from skate.dashboard.access import READ
from skate.dashboard.guard import GRANTED
from skate.dashboard.own_api import READS, Endpoint
from skate.dashboard.session_file import MAGIC, SessionWriter, entry

#: How often everything is asked; with more and more of the room used, less often.
EVERY_SECONDS = 2.0
ROOM_BYTES = 256 << 20
#: The share of the room at which the pauses begin to grow: with each further half of the rest, they double.
PLENTY = 0.5
#: The most things of a kind that are asked for one by one: datasets, runs, searches, deployments, models.
EACH_MAX = 30
#: Parts of answers that change while nothing happens.
CLOCKS = ("at", "now", "cursor")

Params = Mapping[str, str]


class Sink(Protocol):
    """Where answers go."""

    def add(self, key: str, at: float, answer: bytes) -> bool:
        """Keep an answer; return False if there is no room for it."""


def key_of(path: str, params: Params) -> str:
    """Return the key of a question: its path, and its query in order."""
    return f"{path}?{urlencode(sorted(params.items()))}" if params else path


def _keys(kind: str) -> Callable[[object], Iterator[Params]]:
    """Return what yields a question for each of the things in an answer."""

    def each(answer: object) -> Iterator[Params]:
        found = answer.get(kind) if isinstance(answer, dict) else None
        for row in found[:EACH_MAX] if isinstance(found, list) else ():
            yield {"key": str(row["key"])}

    return each


def _deployments(answer: object) -> Iterator[Params]:
    found = answer.get("applications") if isinstance(answer, dict) else None
    rows = [row for app in found or () for row in app["deployments"]]
    for row in rows[:EACH_MAX]:
        yield {"key": str(row["key"])}


#: Further questions that the answer of a route leads to.
FURTHER: dict[str, Callable[[object], Iterator[Params]]] = {
    "/api/skate/data": _keys("datasets"),
    "/api/skate/train": _keys("runs"),
    "/api/skate/tune": _keys("searches"),
    "/api/skate/llm": _keys("models"),
    "/api/skate/serve": _deployments,
}
#: Routes that are not part of a kept session: those that keep it.
LEFT_OUT = frozenset({"/api/skate/session"})


class Recorder:
    """Asks the routes, and passes on answers that differ from the last ones.

    Args:
        sink: where they go.
        routes: the routes by path.
    """

    def __init__(self, sink: Sink, routes: Mapping[str, Endpoint] = READS) -> None:
        self._sink = sink
        self._routes = {
            path: each for path, each in routes.items() if path not in LEFT_OUT and "{" not in path
        }
        self._digests: dict[str, bytes] = {}
        self._cursors: dict[str, str] = {}

    def round(self) -> bool:
        """Ask everything once; return False if there is no room left."""
        has_room = True
        for path in self._routes:
            cursor = self._cursors.get(path)
            answer = self._ask(path, {} if cursor is None else {"cursor": cursor}, keyed=False)
            if isinstance(answer, _Kept):
                has_room &= answer.has_room
                if isinstance(answer.value, dict) and isinstance(answer.value.get("cursor"), str):
                    self._cursors[path] = answer.value["cursor"]
                for params in FURTHER[path](answer.value) if path in FURTHER else ():
                    more = self._ask(path, params)
                    has_room &= more is None or more.has_room
        return has_room

    def _ask(self, path: str, params: Params, keyed: bool = True) -> _Kept | None:
        """Ask a route; return its answer, or None if it has refused."""
        try:
            response = _answer(self._routes[path], path, params)
        except Exception as error:  # any route may fail, and the others shall be kept
            print(
                f"skate dashboard: {path} is not kept: {type(error).__name__}: {error}",
                file=sys.stderr,
                flush=True,
            )
            return None
        if response.status_code != 200:
            return None
        value = json.loads(bytes(response.body))
        key = key_of(path, params if keyed else {})
        shown = (
            {name: each for name, each in value.items() if name not in CLOCKS}
            if isinstance(value, dict)
            else value
        )
        digest = hashlib.blake2b(json.dumps(shown).encode(), digest_size=16).digest()
        if self._digests.get(key) == digest:
            return _Kept(value, True)
        has_room = self._sink.add(key, time.time(), bytes(response.body))
        if has_room:
            self._digests[key] = digest
        return _Kept(value, has_room)


class _Kept:
    """An answer, and False if there was no room for it."""

    def __init__(self, value: object, has_room: bool) -> None:
        self.value = value
        self.has_room = has_room


def _answer(endpoint: Endpoint, path: str, params: Params) -> Response:
    """Call a route as the page does with a token that reads, so secrets are hidden."""
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": "", "scheme": "http",
        "query_string": urlencode(params).encode(), "headers": [(b"host", b"127.0.0.1")], "path_params": {},
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
        bytes_max: the most bytes of the file.
        every: seconds between two rounds, as long as there is plenty of room.

    Raises:
        OSError: the file exists, or cannot be made.
    """

    def __init__(self, path: str, bytes_max: int = ROOM_BYTES, every: float = EVERY_SECONDS) -> None:
        self._writer = SessionWriter(path, bytes_max)
        self._recorder = Recorder(self._writer)
        self._every = every
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skate-recorder", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._recorder.round() and not self._end.wait(self._pause()):
            pass
        if not self._end.is_set():
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
        """Stop, and close the file."""
        self._end.set()
        self._thread.join()
        self._writer.close()


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


def session_now() -> bytes:
    """Return a session file of this moment."""
    sink = _Bytes()
    Recorder(sink).round()
    return b"".join(sink.parts)
