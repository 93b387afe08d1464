"""Request routers for models, which prefer replicas that have processed most of a prompt."""

from __future__ import annotations

from typing import Any

from skate.serve.llm.affinity import Prefixes, by_prefix, text_of
from skate.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica


class PrefixCacheAffinityRouter(RequestRouter):
    """Prefers the replica that has processed most of a request's prompt, unless it is much busier than others."""

    def initialize_state(
        self,
        imbalanced_threshold: float | None = None,
        match_rate_threshold: float | None = 0.1,
        do_eviction: bool | None = True,
        eviction_threshold_chars: int | None = 3_200_000,
        **_: Any,
    ) -> None:
        """Set the arguments from request_router_kwargs; see skate.serve.llm.affinity.by_prefix."""
        self._imbalanced = float("inf") if imbalanced_threshold is None else float(imbalanced_threshold)
        self._share = 0.1 if match_rate_threshold is None else float(match_rate_threshold)
        self._prefixes = Prefixes(max(1, (eviction_threshold_chars or 3_200_000) // 64))

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return the replicas to try, best first."""
        names = {_name(each.replica_id): each for each in candidate_replicas}
        text = None if pending_request is None else text_of(pending_request.args)
        loads = {name: _load(self, each) for name, each in names.items()}
        best = by_prefix(
            text,
            loads,
            self._prefixes,
            imbalanced_threshold=self._imbalanced,
            match_rate_threshold=self._share,
        )
        chosen = [names[name] for name in best]
        rest = [each for name, each in names.items() if name not in set(best)]
        return [each for each in (chosen, rest) if each]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """Record the replica of a prompt."""
        text = text_of(pending_request.args)
        if text is not None:
            self._prefixes.add(text, _name(replica_id))

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Remove a replica that has ended."""
        self._prefixes.drop(_name(replica_id))


class KVAwareRouter(PrefixCacheAffinityRouter):
    """Prefers the replica with the keys of a request's prompt, estimated from the prompts sent to it."""


def _name(replica_id: ReplicaID) -> str:
    return str(getattr(replica_id, "unique_id", replica_id))


def _load(router: RequestRouter, replica: RunningReplica) -> int:
    cache = getattr(router, "replica_queue_len_cache", None)
    found = None if cache is None else cache.get(replica.replica_id)
    return int(found or getattr(replica, "queue_len", 0) or 0)
