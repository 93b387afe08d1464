"""Several simulated nodes, and the results of their tasks."""

from __future__ import annotations

import random

from skate.simulation.nodes.star import Star
from skate.simulation.programs.spec import Spec


def world(*cpus: int) -> Star:
    return Star(random.Random(1), list(cpus))


def outcome(nodes: Star, spec: Spec) -> str:
    return next(word for task_id, word in nodes.outcomes.items() if nodes.specs[task_id] is spec)
