"""A router that uses the replicas in turn."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from skate.serve.request_router import (
    FIFOMixin,
    MultiplexMixin,
    PendingRequest,
    RequestRouter,
    RunningReplica,
)


def _somewhere() -> int:
    return random.randrange(2**31)


class RoundRobinRouter(FIFOMixin, MultiplexMixin, RequestRouter):
    """Sends requests to the replicas in turn, skipping full ones.

    Requests of a model take turns among the replicas that have loaded it, separately for each model.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Callers start at different replicas.
        self._turn = _somewhere()
        self._turns: dict[str, int] = defaultdict(_somewhere)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Update the replicas, and drop the turns of models that no replica has loaded."""
        super().update_replicas(replicas)
        held = {model for each in replicas for model in each.multiplexed_model_ids}
        for model in self._turns.keys() - held:
            del self._turns[model]

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return the replica whose turn it is, then the following ones, one per group."""
        candidates = candidate_replicas
        model = "" if pending_request is None else pending_request.metadata.multiplexed_model_id
        holding = False
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True
            if model:
                first = not pending_request.routing_context.tried_first_multiplexed_models
                allowed = self.apply_multiplex_routing(pending_request)
                candidates = [each for each in candidates if each.replica_id in allowed]
                holding = first and bool(candidates) and model in candidates[0].multiplexed_model_ids
        if not candidates:
            return []
        if holding:
            at = self._turns[model]
            self._turns[model] += 1
        else:
            at = self._turn
            self._turn += 1
        at %= len(candidates)
        return [[each] for each in candidates[at:] + candidates[:at]]
