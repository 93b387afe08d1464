"""Custom routers: a class that ranks the replicas for a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from skate.serve.identity import DeploymentID, ReplicaID


@dataclass(frozen=True)
class RunningReplica:
    """A replica that takes requests."""

    replica_id: ReplicaID
    #: Requests that it has now, in work or waiting.
    queue_len: int = 0
    max_ongoing_requests: int = 0
    multiplexed_model_ids: frozenset[str] = frozenset()
    #: What `record_routing_stats` of its object returned last.
    routing_stats: dict[str, Any] = field(default_factory=dict, compare=False)
    node_id: str = ""

    def __hash__(self) -> int:
        return hash(self.replica_id)


@dataclass(frozen=True)
class RequestMetadata:
    """The properties of a request."""

    request_id: str
    call_method: str
    route: str
    app_name: str
    multiplexed_model_id: str
    session_id: str
    is_streaming: bool = False


@dataclass(frozen=True)
class PendingRequest:
    """A request that is to go to a replica."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    metadata: RequestMetadata


class RequestRouter:
    """Base of routers: subclasses rank the candidates, and may be notified of the chosen replica."""

    def __init__(self, deployment_id: DeploymentID) -> None:
        self.deployment_id = deployment_id
        self._curr_replicas: dict[ReplicaID, RunningReplica] = {}

    @property
    def app_name(self) -> str:
        """The application of the deployment."""
        return self.deployment_id.app_name

    @property
    def curr_replicas(self) -> dict[ReplicaID, RunningReplica]:
        """The replicas there are now, by their ids."""
        return self._curr_replicas

    def select_available_replicas(
        self, candidates: list[RunningReplica] | None = None
    ) -> list[RunningReplica]:
        """The candidates, or all replicas, with room for another request."""
        found = list(self._curr_replicas.values()) if candidates is None else candidates
        return [
            each
            for each in found
            if not each.max_ongoing_requests or each.queue_len < each.max_ongoing_requests
        ]

    def initialize_state(self, **kwargs: Any) -> None:
        """Called once, with `request_router_kwargs`."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return groups of replicas, the best group first; within a group the shortest queue wins.

        Called where the request is made; it must not wait.
        """
        raise NotImplementedError

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """A request went to a replica."""

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Called with the current replicas."""


class MultiplexMixin:
    """Prefers replicas that hold the model of the request."""

    def apply_multiplex_routing(
        self,
        pending_request: PendingRequest | None = None,
        candidate_replicas: list[RunningReplica] | None = None,
    ) -> list[RunningReplica]:
        """The candidates that have the request's model, or all of them."""
        candidates = candidate_replicas or []
        model = "" if pending_request is None else pending_request.metadata.multiplexed_model_id
        holding = [each for each in candidates if model and model in each.multiplexed_model_ids]
        return holding or candidates

    def rank_replicas_via_multiplex(
        self, replicas: list[RunningReplica], multiplexed_model_id: str
    ) -> list[list[RunningReplica]]:
        """Rank the replicas with the model first, then those with the fewest models, and so on."""
        holding = [each for each in replicas if multiplexed_model_id in each.multiplexed_model_ids]
        others = [each for each in replicas if multiplexed_model_id not in each.multiplexed_model_ids]
        counts = sorted({len(each.multiplexed_model_ids) for each in others})
        return [
            holding,
            *([one for one in others if len(one.multiplexed_model_ids) == count] for count in counts),
        ]


class FIFOMixin:
    """Requests go out in the order they came, which they do anyway."""


class LocalityMixin:
    """Prefers replicas of the same node; all replicas count as local."""

    def apply_locality_routing(
        self,
        pending_request: PendingRequest | None = None,
        candidate_replicas: list[RunningReplica] | None = None,
    ) -> list[RunningReplica]:
        """Return all candidates."""
        return candidate_replicas or []

    def rank_replicas_via_locality(self, replicas: list[RunningReplica]) -> list[list[RunningReplica]]:
        """One group: all are on this node."""
        return [list(replicas)]
