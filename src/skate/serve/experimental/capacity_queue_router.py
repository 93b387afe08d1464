"""A router that takes a place from a CapacityQueue for each request."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import skate
from skate.serve.identity import NAMESPACE, ReplicaID, deployment_actor_name
from skate.serve.request_router import (
    LocalityMixin,
    MultiplexMixin,
    PendingRequest,
    RequestRouter,
    RunningReplica,
)
from skate.util import list_named_actors

#: How often a request asks an actor that cannot be reached, unless request_router_kwargs has another value.
DEFAULT_MAX_FAULT_RETRIES = 3


class CapacityQueueRouter(LocalityMixin, MultiplexMixin, RequestRouter):
    """Sends each request to the replica at which a CapacityQueue has given it a place, and releases the place afterwards.

    All handles share the queue, so together they never send a replica more than `max_ongoing_requests`. Requests wait while
    no place is free. If the actor cannot be reached, a request goes to the less busy replica instead.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._queue: Any = None
        #: By request: the answer of the queue, the place that is not used yet, the place in use, and the failures.
        self._asked: dict[str, Future[str | None]] = {}
        self._places: dict[str, str] = {}
        self._used: dict[str, str] = {}
        self._faults: dict[str, int] = {}

    def initialize_state(self, **kwargs: Any) -> None:
        """Set the arguments from request_router_kwargs.

        Args:
            capacity_queue_actor_name: the name of the CapacityQueue in `deployment_actors`.
            max_fault_retries: how often a request asks an actor that cannot be reached.
        """
        if "capacity_queue_actor_name" not in kwargs:
            raise ValueError(
                "CapacityQueueRouter requires 'capacity_queue_actor_name' in request_router_kwargs: the name of a "
                "CapacityQueue in deployment_actors"
            )
        self._actor_name = str(kwargs["capacity_queue_actor_name"])
        self._max_faults = int(kwargs.get("max_fault_retries", DEFAULT_MAX_FAULT_RETRIES))

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return the replica of the request's place; no replica while the request waits for one."""
        if pending_request is None:
            return [candidate_replicas]
        pending_request.routing_context.should_backoff = True
        request = pending_request.metadata.internal_request_id
        answer = self._asked.get(request)
        if answer is not None and answer.done():
            del self._asked[request]
            self._take_answer(request, answer)
            answer = None
        place = self._places.get(request)
        if place is not None:
            for each in candidate_replicas:
                if each.replica_id.unique_id == place:
                    return [[each]]
            self._release(self._places.pop(request))  # its replica has ended
        if self._faults.get(request, 0) >= self._max_faults:
            return [candidate_replicas]
        if answer is None:
            self._ask(request)
        return []

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """Keep the place of a request until it ends."""
        request = pending_request.metadata.internal_request_id
        self._faults.pop(request, None)
        place = self._places.pop(request, None)
        if place is not None:
            self._used[request] = place

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """Release the place of a request that has ended."""
        self.on_request_cancelled(internal_request_id)

    def on_request_cancelled(self, internal_request_id: str) -> None:
        """Release the place of a cancelled request."""
        self._faults.pop(internal_request_id, None)
        for places in (self._used, self._places):
            place = places.pop(internal_request_id, None)
            if place is not None:
                self._release(place)
        answer = self._asked.pop(internal_request_id, None)
        if answer is not None:
            answer.add_done_callback(self._release_answer)

    def _find(self) -> Any:
        app, deployment = self._deployment_id.app_name, self._deployment_id.name
        before, after = deployment_actor_name(app, deployment, "\0", self._actor_name).split("\0")
        for each in list_named_actors(all_namespaces=True):
            name = each["name"]
            if each["namespace"] == NAMESPACE and name.startswith(before) and name.endswith(after):
                return skate.get_actor(name, namespace=NAMESPACE)
        raise ValueError(
            f"there is no actor {self._actor_name!r} among the deployment_actors of {deployment!r}"
        )

    def _ask(self, request: str) -> None:
        try:
            if self._queue is None:
                self._queue = self._find()
            answer = self._queue.acquire.remote().future()
        except (ValueError, skate.exceptions.RayError):
            self._queue = None
            self._faults[request] = self._faults.get(request, 0) + 1
            return
        self._asked[request] = answer
        answer.add_done_callback(self._wake_if_answered)

    def _wake_if_answered(self, answer: Future[str | None]) -> None:
        # Without a place, the request asks again after a pause.
        if not answer.cancelled() and answer.exception() is None and answer.result() is not None:
            self._wake()

    def _take_answer(self, request: str, answer: Future[str | None]) -> None:
        try:
            place = answer.result()
        except skate.exceptions.RayError:
            self._queue = None
            self._faults[request] = self._faults.get(request, 0) + 1
            return
        if place is not None:
            self._faults.pop(request, None)
            self._places[request] = place

    def _release_answer(self, answer: Future[str | None]) -> None:
        if not answer.cancelled() and answer.exception() is None:
            place = answer.result()
            if place is not None:
                self._release(place)

    def _release(self, place: str) -> None:
        queue = self._queue
        if queue is None:
            return
        try:
            queue.release.remote(place)
        except skate.exceptions.RayError:
            self._queue = None
