"""A pool of actors for one operator: as many as work demands, between its bounds."""

from __future__ import annotations

from typing import Any

import skate
from skate.data.compute import Compute
from skate.data.exceptions import as_user_code
from skate.data.execution.operators import ChainRunning, Running, Work
from skate.data.execution.work import actor_class
from skate.exceptions import GetTimeoutError, RayTaskError
from skate.resources import Resources

#: Pieces of work queued at an actor while it runs one, so that it never waits for the next.
IN_FLIGHT = 2
#: How often a piece of work or an actor is retried when its worker dies.
RETRIES = 3


def options_of(compute: Compute) -> dict[str, Any]:
    """The options of `remote` that the user set for an operation's tasks or actors."""
    options = {name: value for name, value in compute.remote_args.items() if value is not None}
    if compute.remote_args_fn is not None:
        options.update(compute.remote_args_fn())
    return options


def task_options(operator: Running, cpus_taken: bool) -> dict[str, Any]:
    """The options for a task of an operator; if pools hold all CPUs, a task without explicit resources
    requests none.
    """
    options = options_of(operator.compute)
    options.setdefault("max_retries", RETRIES)
    if cpus_taken and "num_cpus" not in options and not options.get("num_gpus"):
        options["num_cpus"] = 0
    return options


def actor_options(compute: Compute, lean: bool) -> dict[str, Any]:
    """Return the options for an actor of a pool; a lean one takes no CPU unless one was requested."""
    options = options_of(compute)
    options.setdefault("num_cpus", 0 if lean or options.get("num_gpus") else 1)
    options.setdefault("max_restarts", RETRIES)
    options["max_task_retries"] = options.pop("max_retries", RETRIES)
    options["max_concurrency"] = max(compute.calls_per_actor, options.get("max_concurrency", 1))
    return options


def request_of(operator: Running, lean: bool) -> Resources:
    """Return the resources that one actor of an operator's pool requests."""
    options = actor_options(operator.compute, lean)
    return Resources.from_options({**options, "memory": None})


class ActorPool:
    """The actors of one operator, and the work of each.

    Only running actors receive work, so that an actor without room to start blocks nothing. `allotted` is the
    number of actors that fit beside the other operators of the plan.
    """

    def __init__(
        self, operator: ChainRunning, key: str, holder: list[Any], allotted: int, lean: bool
    ) -> None:
        assert operator.compute.actors is not None
        self.operator = operator
        fewest, most, first = operator.compute.actors
        self.fewest = min(fewest, allotted)
        self.most = min(most, allotted)
        self.made = 0
        self.starting: dict[Any, Any] = {}
        self._key = key
        self._holder = holder
        self._request = request_of(operator, lean)
        self._class = skate.remote(actor_class(operator.name)).options(
            **actor_options(operator.compute, lean)
        )
        self._depth = operator.compute.in_flight_per_actor or max(
            IN_FLIGHT, 2 * operator.compute.calls_per_actor
        )
        self._load: dict[Any, int] = {}
        self._of: dict[int, Any] = {}
        for _ in range(min(first, allotted)):
            self._add()

    def _add(self) -> None:
        actor = self._class.remote(self._key, self._holder)
        self.made += 1
        self.starting[actor.ready.remote()] = actor

    def await_fewest(self, seconds: float) -> None:
        """Wait until the smallest number of actors runs. Raises GetTimeoutError if that takes longer."""
        ready, _ = skate.wait(list(self.starting), num_returns=self.fewest, timeout=seconds)
        if len(ready) < self.fewest:
            raise GetTimeoutError(
                f"Timed out while starting actors. {len(ready)} of {self.fewest} actors of {self.operator.name} run after "
                f"{seconds:g} s (DataContext.wait_for_min_actors_s); each requests {self._request}"
            )

    def look(self) -> None:
        """Check which actors are running, and add one if all are busy. Raises the error of a constructor that
        failed."""
        if self.starting:
            ready, _ = skate.wait(list(self.starting), num_returns=len(self.starting), timeout=0)
            for ref in ready:
                try:
                    skate.get(ref)
                except RayTaskError as error:
                    name = f"MapWorker({self.operator.name}).__init__"
                    raise as_user_code(error, name) from error.__cause__
                self._load[self.starting.pop(ref)] = 0
        if self.starting or len(self._load) >= self.most or not self.operator.queue:
            return
        if all(load >= self._depth for load in self._load.values()):
            if self._request.fits(skate.available_resources()):
                self._add()

    def room(self) -> bool:
        """True if an actor can take one more piece of work."""
        return any(load < self._depth for load in self._load.values())

    def submit(self, work: Work, **options: Any) -> Any:
        """Return the remote method of the least loaded actor, and count the piece of work for it."""
        actor = min(self._load, key=self._load.__getitem__)
        self._load[actor] += 1
        self._of[id(work)] = actor
        return actor.submit.options(**options).remote

    def ended(self, work: Work) -> None:
        """Record that a piece of work has ended."""
        actor = self._of.pop(id(work), None)
        if actor in self._load:
            self._load[actor] -= 1

    def kill(self) -> None:
        """Kill all actors of the pool, unless they have ended with their session."""
        for actor in [*self._load, *self.starting.values()] if skate.is_initialized() else ():
            try:
                skate.kill(actor)
            except Exception:  # the actor or the session has already ended
                continue
        self._load.clear()
        self.starting.clear()
