"""The cluster as allocation functions of schedulers ask about it."""

from __future__ import annotations


class Cluster:
    """What the cluster has, by the questions that allocation functions of schedulers ask."""

    def __init__(self, resources: dict[str, float]) -> None:
        self._resources = resources

    def get_num_cpus(self) -> int:
        """CPUs in all."""
        return int(self._resources.get("CPU", 0))

    def get_num_gpus(self) -> int:
        """GPUs in all."""
        return int(self._resources.get("GPU", 0))
