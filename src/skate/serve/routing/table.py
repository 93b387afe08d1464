"""The table that the controller publishes: replicas and routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Key = tuple[str, str]  # application, deployment


@dataclass(frozen=True)
class ReplicaEntry:
    """A replica that accepts requests."""

    replica: str
    actor: Any
    pid: int
    fd: int
    node: str
    #: The address at which it receives connections; empty if it accepts none.
    mailbox: bytes = b""
    models: tuple[str, ...] = ()
    stats: Any = None
    rank: int = 0
    #: True if its application has API keys.
    guarded: bool = False
    #: The result of its object's `record_replica_metadata`, called once.
    metadata: Any = None
    node_ip: str = ""


@dataclass(frozen=True)
class DeploymentEntry:
    """The state of a deployment for routers."""

    entries: tuple[ReplicaEntry, ...]
    max_ongoing: int
    max_queued: int
    status_code: int = 503
    retry_after_s: float | None = None
    router: Any = None
    #: True if it has ever had a ready replica; HTTP requests are rejected until then.
    been_ready: bool = True
    #: The reason why the deployment will never accept requests; empty otherwise.
    failed: str = ""
    #: True if it has API keys, even while it has no replica.
    guarded: bool = False


@dataclass(frozen=True)
class Route:
    """The HTTP route of an application."""

    app: str
    prefix: str
    ingress: str
    asgi: bool = False
    docs_path: str | None = None


@dataclass
class Table:
    """The complete table, with its version."""

    version: int = -1
    deployments: dict[Key, DeploymentEntry] = field(default_factory=dict)
    #: Longest prefix first.
    routes: tuple[Route, ...] = ()
    #: The complete state of the controller, for its restart.
    memory: Any = None
    http: Any = None
    #: True once there has been a route.
    populated: bool = False

    def match(self, path: str) -> Route | None:
        """Return the route of a path, or None."""
        for route in self.routes:
            prefix = route.prefix
            if prefix == "/" or path == prefix or (path.startswith(prefix) and path[len(prefix)] == "/"):
                return route
        return None
