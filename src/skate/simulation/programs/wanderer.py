"""An author of programs for several nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.simulation.programs.author import Author
from skate.simulation.programs.spec import Operation, Spec

if TYPE_CHECKING:
    import random


class Wanderer(Author):
    """Places tasks and actors on all nodes."""

    def __init__(self, rng: random.Random, nodes: int, *, free: bool, failures: bool, most_cpus: int) -> None:
        super().__init__(rng, gpus=False, free=free, failures=failures, most_cpus=most_cpus)
        self.nodes = nodes
        self.far = rng.choice((0.6, 0.6, 0.95))  # how often a place is asked for
        self.kinds.append(self._entrust)
        self.weights.append(rng.choice((0.2, 1.5)))

    def _entrust(self) -> Operation:
        """Have a task wait on one node for a value that a task on another node will own."""
        rng = self.rng
        slow = Spec(self.name("slow"), (("work",),) * rng.randrange(1, 40), request={})
        waiter = Spec(self.name("waiter"), (("get", 0),), returns=0, request={})
        lends = (("submit", slow), ("submit", waiter, (), (-1,)), ("get", -1))
        owner = Spec(self.name("owner"), lends, request={})
        for spec in (waiter, owner):
            spec.strategy = ("node", node_id_of(rng.randrange(self.nodes)), True, "wait")
        return ("submit", owner)

    def where(self, spec: Spec) -> None:
        """Draw a placement for a spec."""
        rng = self.rng
        kind = rng.random() * 0.6 / self.far
        number = rng.randrange(self.nodes)
        node_id = node_id_of(number)
        if kind < 0.2:
            spec.strategy = ("spread",)
        elif kind < 0.35:
            spec.strategy = ("node", node_id, rng.random() < 0.5 or self.failures, "wait")
        elif kind < 0.45:
            spec.strategy = ("labels", (("zone", "in", (str(number % 2),)),), ())
        elif kind < 0.6 and not self.failures:
            spec.request = {**spec.request, f"at{number}": 10}

    def task(self, depth: int) -> Spec:
        """Draw a plain task for any node."""
        spec = super().task(depth)
        if spec.request.get("CPU", 0) <= 10_000:
            self.where(spec)
        return spec

    def actor(self) -> tuple[Spec, dict[str, object]]:
        """Return an actor class and how the actor is to live, anywhere."""
        spec, life = super().actor()
        self.where(spec)
        return spec, life


def node_id_of(number: int) -> bytes:
    """Return the id of a node."""
    return f"node{number:04}".encode() + bytes(20)
