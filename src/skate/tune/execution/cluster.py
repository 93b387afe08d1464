"""The cluster, as seen by allocation functions of schedulers."""

from __future__ import annotations


class Cluster:
    """The resources of the cluster, with the methods that schedulers' allocation functions use."""

    def __init__(self, resources: dict[str, float]) -> None:
        self._resources = resources

    def get_num_cpus(self) -> int:
        """The total number of CPUs."""
        return int(self._resources.get("CPU", 0))

    def get_num_gpus(self) -> int:
        """The total number of GPUs."""
        return int(self._resources.get("GPU", 0))
