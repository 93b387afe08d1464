"""A router that keeps a session at one replica."""

from __future__ import annotations

from typing import Any

from skate.serve.llm.affinity import by_session
from skate.serve.request_router import PendingRequest, RequestRouter, RunningReplica

#: Taken by request_router_kwargs when they say nothing else.
DEFAULT_NUM_VIRTUAL_NODES = 100
DEFAULT_NUM_FALLBACK_REPLICAS = 2


class ConsistentHashRouter(RequestRouter):
    """Sends all requests of a session to one replica for as long as that is there; when one goes, only its sessions move.

    The session is that of `handle.options(session_id=...)`, which OpenAI's endpoints take from the header `x-session-id`
    (another one by RAY_SERVE_SESSION_ID_HEADER_KEY) or the request's `user`. Requests of no session are spread evenly.
    """

    def initialize_state(
        self,
        num_virtual_nodes: int = DEFAULT_NUM_VIRTUAL_NODES,
        num_fallback_replicas: int = DEFAULT_NUM_FALLBACK_REPLICAS,
        **_: Any,
    ) -> None:
        """Take the arguments of request_router_kwargs.

        Args:
            num_virtual_nodes: taken and of no effect: the highest of the hashes of session and replica is as even as many
                points on a ring, and needs none.
            num_fallback_replicas: how many others a session may go to while its own is full; 0 for none.
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
        """The session's own replica, then those that it may go to instead, one by one."""
        if pending_request is None:
            return [candidate_replicas]
        said = pending_request.metadata
        names = {str(each.replica_id.unique_id): each for each in candidate_replicas}
        order = by_session(said.session_id or said.request_id, list(names))
        return [[names[name]] for name in order[: 1 + self._fallbacks]]
