"""Lets a router of the user's choose."""

from __future__ import annotations

from typing import Any

from skate.serve.identity import DeploymentID, ReplicaID
from skate.serve.request_router import PendingRequest, RequestMetadata, RunningReplica
from skate.serve.routing.call import Call
from skate.serve.routing.table import Key


class CustomChoice:
    """One router object, asked for each request."""

    def __init__(self, config: Any, key: Key) -> None:
        app, name = key
        self.deployment_id = DeploymentID(name, app)
        self.router = config.get_request_router_class()(self.deployment_id)
        self.router.initialize_state(**config.request_router_kwargs)
        self._targets: dict[str, Any] = {}

    def update(self, targets: list[Any]) -> None:
        """Update the current replicas."""
        self._targets = {target.place.replica: target for target in targets}
        known = [self._running(each, 0) for each in targets]
        self.router._curr_replicas = {each.replica_id: each for each in known}
        self.router.update_replicas(known)

    def _running(self, target: Any, limit: int) -> RunningReplica:
        place = target.place
        replica = ReplicaID(place.replica, self.deployment_id)
        return RunningReplica(
            replica, target.load(), limit, frozenset(target.models), dict(place.stats or {}), place.node
        )

    def choose(self, call: Call, limit: int) -> Any:
        """Choose a replica with room, from the best group that has one; None if there is none. Raises the router's
        exceptions.
        """
        meta = call.meta
        request, method, route, app, model, session = meta[:6]
        about = RequestMetadata(request, method, route, app, model, session, is_streaming=call.stream)
        pending = PendingRequest(call.args, call.kwargs, about)
        candidates = [self._running(each, limit) for each in self._targets.values()]
        self.router._curr_replicas = {each.replica_id: each for each in candidates}
        for group in at_once(self.router.choose_replicas(candidates, pending)):
            for one in sorted(group, key=lambda each: each.queue_len):
                target = self._targets.get(one.replica_id.unique_id)
                if target is not None and target.load() < limit:
                    self.router.on_request_routed(pending, one.replica_id, None)
                    return target
        return None


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
