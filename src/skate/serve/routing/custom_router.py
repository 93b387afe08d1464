"""An adapter for the user's request routers."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from skate.serve.identity import DeploymentID, ReplicaID
from skate.serve.request_router import PendingRequest, RequestMetadata, RunningReplica
from skate.serve.routing.call import Call
from skate.serve.routing.replica_result import ReplicaResult
from skate.serve.routing.table import Key

#: The most calls of a router for one request, if it does not ask for a pause; then the request waits.
_TRIES = 8


class CustomChoice:
    """A router object that chooses the replica of each request."""

    def __init__(self, config: Any, key: Key, own_node: str, wake: Callable[[], None]) -> None:
        app, name = key
        self.deployment_id = DeploymentID(name, app)
        self.router = config.get_request_router_class()(
            deployment_id=self.deployment_id,
            handle_source="UNKNOWN",
            self_node_id=own_node,
            prefer_local_node_routing=True,
            initial_backoff_s=config.initial_backoff_s,
            backoff_multiplier=config.backoff_multiplier,
            max_backoff_s=config.max_backoff_s,
        )
        self.router._wake = wake
        self.router.initialize_state(**config.request_router_kwargs)
        self._known: dict[str, RunningReplica] = {}

    def update(self, targets: list[Any], limit: int) -> None:
        """Pass the current replicas to the router."""
        known = self._known
        self._known = {}
        for target in targets:
            name = target.entry.replica
            one = known.get(name)
            if one is None or one._target is not target:
                one = RunningReplica(ReplicaID(name, self.deployment_id), target, limit)
            one._limit = limit
            self._known[name] = one
        self.router.update_replicas(list(self._known.values()))

    def died(self, target: Any) -> None:
        """Notify the router that a replica's process has ended."""
        one = self._known.pop(target.entry.replica, None)
        if one is not None:
            self.router.on_replica_actor_died(one.replica_id)

    def choose(self, call: Call, limit: int) -> Any:
        """Return a replica with room from the best group that has one, or None. Raises the exceptions of the router."""
        if not self._known:
            return None
        pending = getattr(call, "pending", None)
        if pending is None:
            request, method, route, app, model, session = call.meta[:6]
            unique = os.urandom(16).hex()
            about = RequestMetadata(request, unique, method, route, app, model, session, call.stream)
            pending = PendingRequest(list(call.args), call.kwargs, about, resolved=True)
            call.pending = pending
        for _ in range(_TRIES):
            before = dataclasses.replace(pending.routing_context)
            candidates = list(self._known.values())
            target = self._first(at_once(self.router.choose_replicas(candidates, pending)), limit)
            if target is not None:
                return target
            if pending.routing_context.should_backoff or pending.routing_context == before:
                return None
        return None

    def _first(self, groups: Any, limit: int) -> Any:
        stopped = None
        for group in groups:
            for one in sorted(group, key=lambda each: each.queue_len):
                if one.replica_id.unique_id in self._known and one._target.load() < limit:
                    if not one._target.view.stopped():
                        return one._target
                    stopped = stopped or one._target
        return stopped

    def sending(self, target: Any) -> None:
        """Notify the router that a request is about to be sent to a replica."""
        self.router.on_send_request(self._id(target))

    def sent(self, call: Call, target: Any, result: Any) -> None:
        """Notify the router that a request was sent to a replica."""
        pending = getattr(call, "pending", None)
        if pending is not None:
            self.router.on_request_routed(pending, self._id(target), ReplicaResult(result))

    def completed(self, call: Call, target: Any) -> None:
        """Notify the router that a request has ended."""
        pending = getattr(call, "pending", None)
        if pending is not None:
            call.pending = None
            self.router.on_request_completed(self._id(target), pending.metadata.internal_request_id)

    def cancelled(self, call: Call) -> None:
        """Notify the router that a request was cancelled before it was sent, if the router wants to know."""
        pending = getattr(call, "pending", None)
        notify = getattr(self.router, "on_request_cancelled", None)
        if pending is not None and notify is not None:
            call.pending = None
            notify(pending.metadata.internal_request_id)

    def _id(self, target: Any) -> ReplicaID:
        return ReplicaID(target.entry.replica, self.deployment_id)


def at_once(coroutine: Any) -> Any:
    """Run a coroutine that never waits, and return its result. Raises RuntimeError if it waits."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    coroutine.close()
    raise RuntimeError(
        "choose_replicas of a request router must not await; it runs in the thread of the caller"
    )
