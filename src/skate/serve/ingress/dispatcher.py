"""Decides, at the beginning of each request, which process gets its connection."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from skate.serve.routing.counter_page import View
from skate.serve.routing.table import DeploymentEntry, Key, ReplicaEntry, Route, Table


@dataclass(frozen=True)
class Transfer:
    """Move the connection to one of these processes, the best one first."""

    mailboxes: tuple[bytes, ...]
    #: True if it cannot be served here at all.
    foreign: bool = False
    #: Replicas on other nodes, for which it is carried through a tunnel.
    remote: tuple[Any, ...] = ()


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
        #: True if a replica has loaded a model, so that the models that requests name matter.
        self.has_models = False
        #: True if a new request would have to wait here.
        self.full: Callable[[], bool] = lambda: False
        self.queued: Callable[[Key], int] = lambda key: 0
        self._views: dict[str, View] = {}

    def update(self, table: Table) -> None:
        """Apply a new table."""
        self.table = table
        self.has_models = any(
            entry.models for deployment in table.deployments.values() for entry in deployment.entries
        )
        self.only_own = not self.has_models and all(
            self.own == (route.app, route.ingress) for route in table.routes
        )
        living = {
            entry.replica: entry
            for deployment in table.deployments.values()
            for entry in deployment.entries
            if entry.mailbox
        }
        for name in [name for name in self._views if name not in living]:
            self._views.pop(name).close()
        for name, entry in living.items():
            if name not in self._views:
                self._views[name] = View(entry.pid, entry.fd, entry.node, self.node)

    def decide(self, path: str, tunneled: bool = False, model: str = "") -> Decision:
        """Decide where a request for a path is served: if it names a model, by a replica that has the model. One that came
        through a tunnel is served where it came to, even if that replica is full."""
        if path.startswith("/-/"):
            return self._own_path(path, tunneled)
        route = self.table.match(path)
        if route is None:
            return HERE  # which answers 404
        key = (route.app, route.ingress)
        holders = self._holders(key, model) if model else []
        if holders:
            if key == self.own and any(entry.replica == self.own_replica for entry in holders):
                return HERE
            return Transfer(self._ordered(holders), foreign=key != self.own)
        if key == self.own and not self.draining and not self.full():
            return HERE
        return self._choose(key, route, tunneled)

    def _holders(self, key: Key, model: str) -> list[ReplicaEntry]:
        """Return the replicas on this node that have a model, and room."""
        deployment = self.table.deployments.get(key)
        if deployment is None:
            return []
        return [
            entry
            for entry in deployment.entries
            if model in entry.models
            and entry.mailbox
            and entry.node == self.node
            and not self._is_stopped(entry)
            and self._load(entry) < deployment.max_ongoing
        ]

    def _own_path(self, path: str, tunneled: bool) -> Decision:
        """Decide for Serve's own paths: any process answers, but pages that need a key go to a process with the
        keys.
        """
        if path not in GUARDED:
            return HERE
        deployments = self.table.deployments
        entries = [
            entry for deployment in deployments.values() for entry in deployment.entries if entry.guarded
        ]
        if self.own in deployments and deployments[self.own].guarded:
            return HERE
        if not entries and not any(deployment.guarded for deployment in deployments.values()):
            return HERE
        here = [entry for entry in entries if entry.mailbox and entry.node == self.node]
        if here:
            return Transfer(tuple(entry.mailbox for entry in self.not_stopped(here)), foreign=True)
        remote = () if tunneled else self._remote(entries)
        if remote:
            return Transfer((), True, remote)
        return Reject(503, _NO_KEYS, 1)

    def _remote(self, entries: Iterable[ReplicaEntry]) -> tuple[Any, ...]:
        """Return the replicas on other nodes that serve HTTP, in random order, because their loads are not known here."""
        found = [entry.actor for entry in entries if entry.mailbox and entry.node != self.node]
        return tuple(random.sample(found, len(found)))

    def _choose(self, key: Key, route: Route, tunneled: bool) -> Decision:
        deployment = self.table.deployments.get(key)
        mine = key == self.own
        if deployment is None:
            return HERE if mine else Reject(503, f"the application {route.app!r} is not ready", 1)
        others = [
            entry
            for entry in deployment.entries
            if entry.mailbox and entry.replica != self.own_replica and entry.node == self.node
        ]
        remote = () if mine and tunneled else self._remote(deployment.entries)
        if not others:
            if remote:
                return Transfer((), not mine, remote)
            if mine:  # even while draining, because no other process can
                return HERE
            return self._without_replicas(key, route, deployment)
        if mine and not self.draining:
            # This process is full, but another one is better only if it has room now.
            free = [
                entry
                for entry in others
                if self._load(entry) < deployment.max_ongoing and not self._is_stopped(entry)
            ]
            if free:
                return Transfer(self._ordered(free))
            return Transfer((), remote=remote) if remote else HERE
        return Transfer(self._ordered(others), foreign=not mine)

    def _without_replicas(self, key: Key, route: Route, deployment: DeploymentEntry) -> Decision:
        if deployment.failed:
            return Reject(
                503,
                f"the application {route.app!r} is unavailable, because it could not be deployed",
                deployment.retry_after_s,
            )
        if not deployment.been_ready:
            return Reject(503, f"the application {route.app!r} is being deployed; try again in a moment", 1)
        waiting = self.queued(key)
        if 0 <= deployment.max_queued <= waiting:
            return Reject(
                deployment.status_code,
                f"{waiting} requests are already waiting",
                deployment.retry_after_s or 1,
            )
        return Hold(key)

    def _load(self, entry: ReplicaEntry) -> int:
        view = self._views.get(entry.replica)
        return 0 if view is None else view.load()

    def _is_stopped(self, entry: ReplicaEntry) -> bool:
        view = self._views.get(entry.replica)
        return view is not None and view.stopped()

    def not_stopped(self, entries: list[ReplicaEntry]) -> list[ReplicaEntry]:
        """Leave out the stopped processes, whose mailboxes still accept connections, unless all are stopped."""
        return [entry for entry in entries if not self._is_stopped(entry)] or entries

    def _ordered(self, entries: list[ReplicaEntry]) -> tuple[bytes, ...]:
        entries = self.not_stopped(entries)
        drawn = random.sample(entries, min(2, len(entries)))
        best = sorted(drawn, key=self._load)
        rest = [entry for entry in entries if entry not in best]
        return tuple(entry.mailbox for entry in (*best, *rest))
