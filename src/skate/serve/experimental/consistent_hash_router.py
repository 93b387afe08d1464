"""A router that sends the requests of a session to the same replica."""

from __future__ import annotations

from typing import Any

from skate.serve.llm.affinity import by_session
from skate.serve.request_router import PendingRequest, RequestRouter, RunningReplica

#: Defaults, unless request_router_kwargs has other values.
DEFAULT_NUM_VIRTUAL_NODES = 100
DEFAULT_NUM_FALLBACK_REPLICAS = 2


class ConsistentHashRouter(RequestRouter):
    """Sends all requests of a session to one replica while that replica exists. If a replica ends, only its
    sessions move.

    `handle.options(session_id=...)` sets the session. OpenAI's endpoints read it from the header `x-session-
    id` (RAY_SERVE_SESSION_ID_HEADER_KEY sets another header) or the request's `user`. Requests without a
    session are spread evenly.
    """

    def initialize_state(
        self,
        num_virtual_nodes: int = DEFAULT_NUM_VIRTUAL_NODES,
        num_fallback_replicas: int = DEFAULT_NUM_FALLBACK_REPLICAS,
        **_: Any,
    ) -> None:
        """Set the arguments from request_router_kwargs.

        Args:
            num_virtual_nodes: accepted without effect. The highest hash of session and replica spreads as evenly
                as many points on a ring, and needs none.
            num_fallback_replicas: the number of other replicas for a session whose own replica is full; 0 for none.
        """
        for name, value in (
            ("num_virtual_nodes", num_virtual_nodes),
            ("num_fallback_replicas", num_fallback_replicas),
        ):
            least = 1 if name == "num_virtual_nodes" else 0
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                kind = "a positive int" if least else "a non-negative int"
                raise ValueError(f"{name} must be {kind}, got {value!r}.")
        self._fallbacks = num_fallback_replicas

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return the replica of the session, then its fallback replicas, one per group."""
        if pending_request is None:
            return [candidate_replicas]
        metadata = pending_request.metadata
        names = {str(each.replica_id.unique_id): each for each in candidate_replicas}
        order = by_session(metadata.session_id or metadata.request_id, list(names))
        return [[names[name]] for name in order[: 1 + self._fallbacks]]
