"""A router that takes one replica after the other."""

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
    """Sends requests to the replicas in turn; one that is full is passed over.

    Requests of a model take turns among the replicas that hold it; each model has a turn of its own.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Several callers begin at different replicas.
        self._turn = _somewhere()
        self._turns: dict[str, int] = defaultdict(_somewhere)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Take the replicas there are now; models that no replica holds any more lose their turns."""
        super().update_replicas(replicas)
        held = {model for each in replicas for model in each.multiplexed_model_ids}
        for model in self._turns.keys() - held:
            del self._turns[model]

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The replica whose turn it is, and the others after it, one by one."""
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
