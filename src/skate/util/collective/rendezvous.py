"""Rendezvous of a group's members through a named actor, which stores the address of rank 0.

Rank 0 opens a store on a port chosen by the system and publishes it; the others request it. When all have
done so, the actor forgets it, so that a group of the same name can be created again.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import skate as ray

NAMESPACE = "skate_collective"


class Rendezvous:
    """Holds the address of rank 0 of a group."""

    def __init__(self) -> None:
        self._address: Any = None
        self._unanswered = 0

    def offer(self, address: Any, others: int) -> None:
        """Set the address at which rank 0 waits for this many others."""
        self._address = address if others else None
        self._unanswered = others

    async def ask(self, seconds: float) -> Any:
        """Return the address once it is known; None after the timeout."""
        until = time.monotonic() + seconds
        while self._address is None and time.monotonic() < until:
            await asyncio.sleep(0.005)
        found = self._address
        if found is not None:
            self._unanswered -= 1
            if self._unanswered <= 0:
                self._address = None
        return found


def rendezvous(
    kind: str, group_name: str, rank: int, world_size: int, seconds: float, offer: Any
) -> tuple[Any, Any]:
    """Agree on an address: rank 0's is the result of `offer()`. Returns it, and an object to hold until all have met.

    Raises RuntimeError if rank 0 has not joined within this many seconds.
    """
    actor = (
        ray.remote(num_cpus=0)(Rendezvous)
        .options(name=f"{kind}:{group_name}", namespace=NAMESPACE, get_if_exists=True)
        .remote()
    )
    if rank == 0:
        address = offer()
        ray.get(actor.offer.remote(address, world_size - 1))
    else:
        address = ray.get(actor.ask.remote(seconds))
        if address is None:
            raise RuntimeError(
                f"rank 0 of the collective group {group_name!r} has not joined within {seconds:g} s, but rank "
                f"{rank} of {world_size} waits for it; every member must call init_collective_group"
            )
    return address, actor
