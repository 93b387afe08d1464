"""Counts and latencies of HTTP requests."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import Scope


#: Upper bounds of the latency buckets, in milliseconds.
BOUNDS_MS = (
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    300,
    400,
    500,
    1000,
    2000,
    5000,
    10_000,
    60_000,
    120_000,
    300_000,
    600_000,
)


_METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "WS"))


class Requests:
    """Statistics of one replica's responses, by route, method and status."""

    def __init__(self, app: str, deployment: str) -> None:
        self.app = app
        self.deployment = deployment
        #: Requests that are being answered.
        self.open = 0
        self.counts: dict[tuple[str, str, int], int] = {}
        self.classes: dict[str, list[int]] = {}
        self.sums: dict[str, float] = {}

    def done(self, scope: Scope, route: str, status: int, seconds: float) -> None:
        """Record the end of a request."""
        self.open -= 1
        method = scope.get("method", "WS")
        # A client may invent methods, each of which would add a permanent series.
        key = (route, method if method in _METHODS else "OTHER", status)
        self.counts[key] = self.counts.get(key, 0) + 1
        classes = self.classes.get(route)
        if classes is None:
            classes = self.classes[route] = [0] * (len(BOUNDS_MS) + 1)
            self.sums[route] = 0.0
        ms = seconds * 1e3
        self.sums[route] += ms
        classes[bisect_left(BOUNDS_MS, ms)] += 1

    def snapshot(self) -> dict[str, Any]:
        """Return the statistics as plain data."""
        return {
            "app": self.app,
            "deployment": self.deployment,
            "open": self.open,
            "counts": dict(self.counts),
            "classes": {route: list(each) for route, each in self.classes.items()},
            "sums": dict(self.sums),
        }
