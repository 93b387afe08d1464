"""Decides, at the beginning of each request, which process gets its connection."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from skate.serve.routing.board import View
from skate.serve.routing.table import Key, Line, Place, Route, Table


@dataclass(frozen=True)
class Transfer:
    """Move the connection to one of these processes, the best one first."""

    mailboxes: tuple[bytes, ...]
    #: True if it cannot be served here at all.
    foreign: bool = False


@dataclass(frozen=True)
class Hold:
    """Let the connection wait, because no replica has room or exists."""

    key: Key


@dataclass(frozen=True)
class Reject:
    """Answer the request immediately with this status."""

    status: int
    reason: str
    retry_after_s: float | None = None


#: Serve's own paths that require an API key if an application has any.
GUARDED = ("/-/metrics", "/-/routes")
_NO_KEYS = "no process with the API keys is running now; try again in a moment"
#: Serve it in this process.
HERE = None
Decision = Transfer | Hold | Reject | None


class Dispatcher:
    """A process's knowledge of routes and of other processes."""

    def __init__(self, own: Key | None, own_replica: str, node: str) -> None:
        self.own = own
        self.own_replica = own_replica
        self.node = node
        self.table = Table()
        self.draining = False
        #: True if all routes lead here, so that requests need not be inspected.
        self.only_own = False
        #: True if a new request would have to wait here.
        self.full: Callable[[], bool] = lambda: False
        self.queued: Callable[[Key], int] = lambda key: 0
        self._views: dict[str, View] = {}

    def update(self, table: Table) -> None:
        """Apply a new table."""
        self.table = table
        self.only_own = all(self.own == (route.app, route.ingress) for route in table.routes)
        living = {
            place.replica: place for line in table.lines.values() for place in line.places if place.mailbox
        }
        for name in [name for name in self._views if name not in living]:
            self._views.pop(name).close()
        for name, place in living.items():
            if name not in self._views:
                self._views[name] = View(place.pid, place.fd, place.node, self.node)

    def decide(self, path: str) -> Decision:
        """Decide where a request for a path is served."""
        if path.startswith("/-/"):
            return self._own_path(path)
        route = self.table.match(path)
        if route is None:
            return HERE  # which answers 404
        key = (route.app, route.ingress)
        if key == self.own and not self.draining and not self.full():
            return HERE
        return self._choose(key, route)

    def _own_path(self, path: str) -> Decision:
        """Decide for Serve's own paths: any process answers, but pages that need a key go to a process with the
        keys.
        """
        if path not in GUARDED:
            return HERE
        lines = self.table.lines
        places = [place for line in lines.values() for place in line.places if place.guarded]
        if self.own in lines and lines[self.own].guarded:
            return HERE
        if not places and not any(line.guarded for line in lines.values()):
            return HERE
        here = [place for place in places if place.mailbox and place.node == self.node]
        if here:
            return Transfer(tuple(place.mailbox for place in self.not_stopped(here)), foreign=True)
        return Reject(503, _NO_KEYS, 1)

    def _choose(self, key: Key, route: Route) -> Decision:
        line = self.table.lines.get(key)
        mine = key == self.own
        if line is None:
            return HERE if mine else Reject(503, f"the application {route.app!r} is not ready", 1)
        others = [
            place
            for place in line.places
            if place.mailbox and place.replica != self.own_replica and place.node == self.node
        ]
        if not others:
            if mine:  # even while draining, because no other process can
                return HERE
            return self._without_replicas(key, route, line)
        if mine and not self.draining:
            # This process is full, but another one is better only if it has room now.
            free = [
                place
                for place in others
                if self._load(place) < line.max_ongoing and not self._is_stopped(place)
            ]
            return Transfer(self._ordered(free)) if free else HERE
        return Transfer(self._ordered(others), foreign=not mine)

    def _without_replicas(self, key: Key, route: Route, line: Line) -> Decision:
        if line.failed:
            return Reject(503, f"the application {route.app!r} could not be deployed", line.retry_after_s)
        if not line.been_ready:
            return Reject(503, f"the application {route.app!r} is being deployed; try again in a moment", 1)
        waiting = self.queued(key)
        if 0 <= line.max_queued <= waiting:
            return Reject(
                line.status_code, f"{waiting} requests are already waiting", line.retry_after_s or 1
            )
        return Hold(key)

    def _load(self, place: Place) -> int:
        view = self._views.get(place.replica)
        return 0 if view is None else view.load()

    def _is_stopped(self, place: Place) -> bool:
        view = self._views.get(place.replica)
        return view is not None and view.stopped()

    def not_stopped(self, places: list[Place]) -> list[Place]:
        """Leave out the stopped processes, whose mailboxes still accept connections, unless all are stopped."""
        return [place for place in places if not self._is_stopped(place)] or places

    def _ordered(self, places: list[Place]) -> tuple[bytes, ...]:
        places = self.not_stopped(places)
        drawn = random.sample(places, min(2, len(places)))
        best = sorted(drawn, key=self._load)
        rest = [place for place in places if place not in best]
        return tuple(place.mailbox for place in (*best, *rest))
