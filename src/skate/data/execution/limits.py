"""The bytes and tasks that a run may use."""

from __future__ import annotations


class Limits:
    """Bytes of blocks that are on their way, tasks at once, and the CPUs that there are."""

    def __init__(self, budget_bytes: int, slots: int, cpus: float = 1 << 30) -> None:
        self.budget_bytes = budget_bytes
        self.slots = slots
        self.cpus = cpus
