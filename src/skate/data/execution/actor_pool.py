"""A pool of actors for one operator: as many as work demands, between its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import skate
from skate.data.execution.operators import ChainRunning, Work
from skate.data.execution.work import MapActor

#: Pieces of work that wait at an actor while it runs one, so that it need not wait for the next.
IN_FLIGHT = 2


class ActorPool:
    """The actors of one operator, and what each has to do."""

    def __init__(self, operator: ChainRunning, key: str, holder: list[Any]) -> None:
        assert operator.compute.actors is not None
        self.operator = operator
        self.fewest, self.most, first = operator.compute.actors
        self._key = key
        self._holder = holder
        options = {name: value for name, value in operator.compute.remote_args.items() if value is not None}
        if operator.compute.remote_args_fn is not None:
            options.update(operator.compute.remote_args_fn())
        options.setdefault("num_cpus", 1 if not options.get("num_gpus") else 0)
        options.setdefault("max_restarts", -1)
        options["max_task_retries"] = options.pop("max_retries", -1)
        options["max_concurrency"] = max(operator.compute.calls_per_actor, options.get("max_concurrency", 1))
        self._class = skate.remote(MapActor).options(**options)
        self._depth = operator.compute.in_flight_per_actor or max(
            IN_FLIGHT, 2 * operator.compute.calls_per_actor
        )
        self._actors: list[Any] = []
        self._load: dict[int, int] = {}
        self._of: dict[int, int] = {}
        self._starting: dict[Any, int] = {}
        for _ in range(first):
            self._add()

    def _add(self) -> None:
        actor = self._class.remote(self._key, self._holder)
        self._actors.append(actor)
        self._load[len(self._actors) - 1] = 0
        self._starting[actor.ready.remote()] = len(self._actors) - 1

    def look(self) -> None:
        """See which actors are up; raises the error of a constructor that failed. Adds an actor when all are busy."""
        if self._starting:
            ready, _ = skate.wait(list(self._starting), num_returns=len(self._starting), timeout=0)
            for ref in ready:
                skate.get(ref)
                del self._starting[ref]
        busy = all(load >= 1 for load in self._load.values())
        if busy and not self._starting and len(self._actors) < self.most and self.operator.queue:
            free = skate.available_resources()
            if all(free.get(name, 0) >= amount for name, amount in self._asks().items()):
                self._add()

    def _asks(self) -> dict[str, float]:
        args = self.operator.compute.remote_args
        asked = {
            "CPU": args.get("num_cpus", 1) or 0,
            "GPU": args.get("num_gpus", 0) or 0,
            **(args.get("resources") or {}),
        }
        return {name: amount for name, amount in asked.items() if amount}

    def room(self) -> bool:
        """Whether an actor can take one more piece of work."""
        return min(self._load.values()) < self._depth

    def submit(
        self, work: Work, key: str, holder: list[Any], sources: Sequence[Any], refs: Sequence[Any]
    ) -> Any:
        """Give a piece of work to the actor with the least to do."""
        number = min(self._load, key=lambda each: (self._load[each], each))
        self._load[number] += 1
        self._of[id(work)] = number
        method = self._actors[number].chain.options(num_returns="streaming")
        return method.remote(key, holder, list(sources), *refs)

    def ended(self, work: Work) -> None:
        """A piece of work has ended."""
        number = self._of.pop(id(work), None)
        if number is not None:
            self._load[number] -= 1

    def close(self) -> None:
        """Let the actors go."""
        self._actors.clear()
        self._load.clear()
        self._starting.clear()
