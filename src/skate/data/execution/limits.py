"""The bytes and tasks that a run may use."""

from __future__ import annotations


class Limits:
    """The bytes of blocks in transit, the number of concurrent tasks, and the available CPUs."""

    def __init__(self, budget_bytes: int, slots: int, cpus: float = 1 << 30) -> None:
        self.budget_bytes = budget_bytes
        self.slots = slots
        self.cpus = cpus
