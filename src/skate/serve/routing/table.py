"""The table that the controller publishes: replicas and routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Key = tuple[str, str]  # application, deployment


@dataclass(frozen=True)
class Place:
    """A replica that takes requests."""

    replica: str
    actor: Any
    pid: int
    fd: int
    node: str
    #: Where connections are handed to it; empty if it takes none.
    mailbox: bytes = b""
    models: tuple[str, ...] = ()
    stats: Any = None
    rank: int = 0
    #: Its application has API keys.
    guarded: bool = False
    #: Its object's `record_replica_metadata`, asked once.
    metadata: Any = None
    node_ip: str = ""


@dataclass(frozen=True)
class Line:
    """A deployment as routers see it."""

    places: tuple[Place, ...]
    max_ongoing: int
    max_queued: int
    status_code: int = 503
    retry_after_s: float | None = None
    router: Any = None
    #: Whether it has ever had a replica that was ready: until then requests by HTTP are refused.
    been_ready: bool = True
    #: Why it takes no requests for good; empty if it does, or will.
    failed: str = ""
    #: It has API keys, also while it has no replica.
    guarded: bool = False


@dataclass(frozen=True)
class Route:
    """An application as HTTP sees it."""

    app: str
    prefix: str
    ingress: str
    asgi: bool = False
    docs_path: str | None = None


@dataclass
class Table:
    """All of it, with the number of its edition."""

    version: int = -1
    lines: dict[Key, Line] = field(default_factory=dict)
    #: Longest prefix first.
    routes: tuple[Route, ...] = ()
    #: Everything the controller knows, for its own restart.
    memory: Any = None
    http: Any = None

    def match(self, path: str) -> Route | None:
        """The route that a path belongs to."""
        for route in self.routes:
            prefix = route.prefix
            if prefix == "/" or path == prefix or (path.startswith(prefix) and path[len(prefix)] == "/"):
                return route
        return None
