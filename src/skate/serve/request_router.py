"""Custom request routers: classes that rank the replicas for each request."""

from __future__ import annotations

import abc
import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skate.serve.identity import DeploymentID, ReplicaID
from skate.serve.routing.replica_result import ReplicaResult as ReplicaResult

__all__ = [
    "FIFOMixin",
    "LocalityMixin",
    "MultiplexMixin",
    "PendingRequest",
    "ReplicaID",
    "RequestRouter",
    "RunningReplica",
]


class RunningReplica:
    """A replica that accepts requests, with its current state."""

    #: Skate has no availability zones and no Java.
    availability_zone: str | None = None
    is_cross_language = False
    #: Replicas receive connections from other processes, and have no port of their own.
    backend_http_endpoint: tuple[str, int] | None = None

    def __init__(self, replica_id: ReplicaID, target: Any, max_ongoing_requests: int) -> None:
        self._replica_id = replica_id
        self._target = target
        self._limit = max_ongoing_requests

    @property
    def replica_id(self) -> ReplicaID:
        """The id of the replica."""
        return self._replica_id

    @property
    def actor_id(self) -> Any:
        """The id of its actor."""
        return self._target.entry.actor._actor_id

    @property
    def node_id(self) -> str:
        """The node that the replica runs on."""
        node: str = self._target.entry.node
        return node

    @property
    def queue_len(self) -> int:
        """The number of its current requests, running or waiting."""
        seen: int = self._target.load()
        return seen

    @property
    def max_ongoing_requests(self) -> int:
        """The number of requests that it processes concurrently."""
        return self._limit

    @property
    def multiplexed_model_ids(self) -> set[str]:
        """The models that it has loaded."""
        return set(self._target.models)

    @property
    def routing_stats(self) -> dict[str, Any]:
        """The last result of its object's `record_routing_stats`."""
        return dict(self._target.entry.stats or {})

    @property
    def replica_metadata(self) -> dict[str, Any]:
        """The result of its object's `record_replica_metadata`, called once, when the replica is ready."""
        return dict(self._target.entry.metadata or {})

    async def get_queue_len(self, *, deadline_s: float) -> int:
        """Return `queue_len`, without a request to the replica."""
        return self.queue_len

    def __repr__(self) -> str:
        return f"RunningReplica({self._replica_id}, queue_len={self.queue_len})"


@dataclass
class RequestRoutingContext:
    """The attempts so far to find a replica for a request."""

    multiplexed_start_matching_time: float | None = None
    tried_fewest_multiplexed_models: bool = False
    tried_first_multiplexed_models: bool = False
    tried_same_node: bool = False
    tried_same_az: bool = False
    #: True to wait before the next attempt. If a router leaves it False, it has more candidates to try
    #: immediately.
    should_backoff: bool = False


@dataclass(frozen=True)
class RequestMetadata:
    """The properties of a request."""

    request_id: str
    #: Unique, although programs may use the same `request_id` for several requests.
    internal_request_id: str
    call_method: str = "__call__"
    route: str = ""
    app_name: str = ""
    multiplexed_model_id: str = ""
    session_id: str = ""
    is_streaming: bool = False


def _future() -> Any:
    """Return a future of the running loop; None in threads without a loop."""
    try:
        return asyncio.get_running_loop().create_future()
    except RuntimeError:
        return None


@dataclass
class PendingRequest:
    """A request that waits to be sent to a replica."""

    args: list[Any]
    kwargs: dict[Any, Any]
    metadata: RequestMetadata
    #: Seconds since the epoch.
    created_at: float = field(default_factory=time.time)
    future: Any = field(default_factory=_future)
    routing_context: RequestRoutingContext = field(default_factory=RequestRoutingContext)
    #: True once the responses of other calls among the arguments are available.
    resolved: bool = False

    def reset_future(self) -> None:
        """Create a new future, because the request is sent again."""
        self.future = _future()


class QueueLengths:
    """The number of requests at each replica, by its id."""

    def __init__(self, replicas: Callable[[], dict[ReplicaID, RunningReplica]]) -> None:
        self._replicas = replicas

    def get(self, replica_id: ReplicaID) -> int | None:
        """Return the number of a replica's current requests; None if there is no such replica."""
        found = self._replicas().get(replica_id)
        return None if found is None else found.queue_len


def _nobody() -> None:
    """Wake nobody: the router serves no requests yet."""


class RequestRouter(abc.ABC):
    """The base class of routers. Subclasses rank the candidates, and are notified about requests and
    replicas.
    """

    #: Has waiting requests choose again, instead of after a pause; set by what calls the router.
    _wake: Callable[[], None] = staticmethod(_nobody)

    def __init__(
        self,
        deployment_id: DeploymentID,
        handle_source: Any = None,
        self_actor_id: str | None = None,
        self_actor_handle: Any = None,
        use_replica_queue_len_cache: bool = False,
        get_curr_time_s: Callable[[], float] | None = None,
        create_replica_wrapper_func: Callable[..., Any] | None = None,
        initial_backoff_s: float = 0.025,
        backoff_multiplier: float = 2,
        max_backoff_s: float = 0.5,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self._deployment_id = deployment_id
        self._handle_source = handle_source
        self._self_actor_handle = self_actor_handle
        self._get_curr_time_s = get_curr_time_s or time.time
        self.initial_backoff_s = initial_backoff_s
        self.backoff_multiplier = backoff_multiplier
        self.max_backoff_s = max_backoff_s
        self._replicas: dict[ReplicaID, RunningReplica] = {}
        self._replicas_list: list[RunningReplica] = []
        self._replica_id_set: set[ReplicaID] = set()
        self._replica_queue_len_cache = QueueLengths(lambda: self._replicas)

    def update_backoff_params(
        self,
        initial_backoff_s: float | None = None,
        backoff_multiplier: float | None = None,
        max_backoff_s: float | None = None,
    ) -> None:
        """Update the pauses, in seconds, from a changed RequestRouterConfig."""
        self.initial_backoff_s = self.initial_backoff_s if initial_backoff_s is None else initial_backoff_s
        self.backoff_multiplier = (
            self.backoff_multiplier if backoff_multiplier is None else backoff_multiplier
        )
        self.max_backoff_s = self.max_backoff_s if max_backoff_s is None else max_backoff_s

    @property
    def deployment_id(self) -> DeploymentID:
        """The deployment whose requests are routed."""
        return self._deployment_id

    @property
    def app_name(self) -> str:
        """The application of the deployment."""
        return self._deployment_id.app_name

    @property
    def curr_replicas(self) -> dict[ReplicaID, RunningReplica]:
        """The current replicas by id."""
        return self._replicas

    @property
    def replica_queue_len_cache(self) -> QueueLengths:
        """The current number of requests at each replica; not cached, despite its name."""
        return self._replica_queue_len_cache

    def select_available_replicas(
        self, candidates: list[RunningReplica] | None = None
    ) -> list[RunningReplica]:
        """Return the candidates (by default all replicas) with room for another request."""
        found = self._replicas_list if candidates is None else candidates
        return [each for each in found if each.queue_len < each.max_ongoing_requests]

    def initialize_state(self, **kwargs: Any) -> None:  # noqa: B027 (may be left out)
        """Set the arguments from `request_router_kwargs`. Called once, before any request."""

    @abc.abstractmethod
    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return groups of replicas, the best group first. Within a group, the replica with the shortest
        queue is chosen.

        Runs in the thread of the caller, and must not wait.
        """

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Update the replicas. Overriding methods must call this one too."""
        self._replicas = {each.replica_id: each for each in replicas}
        self._replicas_list = list(replicas)
        self._replica_id_set = set(self._replicas)

    def on_send_request(self, replica_id: ReplicaID) -> None:  # noqa: B027 (may be left out)
        """Handle that a request is about to be sent to a replica."""

    def on_request_routed(  # noqa: B027 (may be left out)
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        """Handle that a request was sent to a replica."""

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:  # noqa: B027 (may be left out)
        """Handle that a request has ended, successfully or not. Its id is the one in its metadata."""

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Remove a replica whose process has ended. Overriding methods must call this one too."""
        self._replicas.pop(replica_id, None)
        self._replicas_list = list(self._replicas.values())
        self._replica_id_set.discard(replica_id)


class MultiplexMixin:
    """Prefers replicas that have loaded the model of the request."""

    _replicas: dict[ReplicaID, RunningReplica]
    _replica_id_set: set[ReplicaID]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def _holding(self, model: str) -> set[ReplicaID]:
        return {name for name, each in self._replicas.items() if model in each.multiplexed_model_ids}

    def _with_fewest(self) -> set[ReplicaID]:
        counts = {name: len(each.multiplexed_model_ids) for name, each in self._replicas.items()}
        fewest = min(counts.values(), default=0)
        return {name for name, count in counts.items() if count == fewest}

    def apply_multiplex_routing(self, pending_request: PendingRequest | None = None) -> set[ReplicaID]:
        """Return the replicas to try next: those with the model, then those with the fewest models, then all."""
        if pending_request is None:
            return self._replica_id_set
        tried = pending_request.routing_context
        if tried.multiplexed_start_matching_time is None:
            tried.multiplexed_start_matching_time = time.time()
        tried.should_backoff = True
        if not tried.tried_first_multiplexed_models:
            tried.tried_first_multiplexed_models = True
            holding = self._holding(pending_request.metadata.multiplexed_model_id)
            if holding:
                tried.should_backoff = False
                return holding
        if not tried.tried_fewest_multiplexed_models:
            tried.tried_fewest_multiplexed_models = True
            tried.should_backoff = False
            return self._with_fewest()
        return self._replica_id_set

    def rank_replicas_via_multiplex(
        self, replicas: list[RunningReplica], multiplexed_model_id: str
    ) -> list[list[RunningReplica]]:
        """Return three groups: replicas with the model, those with the fewest models, and all others."""
        holding, fewest = self._holding(multiplexed_model_id), self._with_fewest()
        ranks: list[list[RunningReplica]] = [[], [], []]
        for each in replicas:
            name = each.replica_id
            ranks[0 if name in holding else 1 if name in fewest else 2].append(each)
        return ranks


class FIFOMixin:
    """Sends requests in the order of arrival, which is the default anyway."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class LocalityMixin:
    """Prefers replicas on the same node."""

    _replicas: dict[ReplicaID, RunningReplica]
    _replica_id_set: set[ReplicaID]

    def __init__(
        self,
        self_node_id: str | None = None,
        prefer_local_node_routing: bool = False,
        prefer_local_az_routing: bool = False,
        self_availability_zone: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._self_node_id = self_node_id
        self._prefer_local_node_routing = prefer_local_node_routing
        self._prefer_local_az_routing = prefer_local_az_routing
        self._self_availability_zone = self_availability_zone

    def _near(self) -> dict[str, set[ReplicaID]]:
        near: dict[str, set[ReplicaID]] = defaultdict(set)
        zone = self._self_availability_zone
        for name, each in self._replicas.items():
            if self._self_node_id is not None and each.node_id == self._self_node_id:
                near["node"].add(name)
            if zone is not None and each.availability_zone == zone:
                near["zone"].add(name)
        return near

    def apply_locality_routing(self, pending_request: PendingRequest | None = None) -> set[ReplicaID]:
        """Return the replicas to try next: those on this node, then those in this zone, then all."""
        if pending_request is None:
            return self._replica_id_set
        tried = pending_request.routing_context
        near = self._near()
        tried.should_backoff = False
        if self._prefer_local_node_routing and not tried.tried_same_node and near["node"]:
            tried.tried_same_node = True
            return near["node"]
        if self._prefer_local_az_routing and not tried.tried_same_az and near["zone"]:
            tried.tried_same_az = True
            return near["zone"]
        tried.should_backoff = True
        return self._replica_id_set

    def rank_replicas_via_locality(self, replicas: list[RunningReplica]) -> list[list[RunningReplica]]:
        """Return three groups: replicas on this node, those in this zone, and all others."""
        near = self._near()
        ranks: list[list[RunningReplica]] = [[], [], []]
        for each in replicas:
            name = each.replica_id
            ranks[0 if name in near["node"] else 1 if name in near["zone"] else 2].append(each)
        return ranks
