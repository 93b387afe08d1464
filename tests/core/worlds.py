"""Several simulated nodes, and the results of their tasks."""

from __future__ import annotations

import random

from skate.simulation.nodes.world import World
from skate.simulation.programs.spec import Spec


def world(*cpus: int) -> World:
    return World(random.Random(1), list(cpus))


def outcome(nodes: World, spec: Spec) -> str:
    return next(word for task_id, word in nodes.outcomes.items() if nodes.specs[task_id] is spec)
