"""The source of ranks for Lightning."""

from __future__ import annotations

from lightning.fabric.plugins.environments.lightning import LightningEnvironment

from skate.train.worker.train_context import get_context


class RayLightningEnvironment(LightningEnvironment):
    """Returns the ranks of the run; values that Lightning derives from its number of devices are ignored."""

    @property
    def creates_processes_externally(self) -> bool:
        """True: the workers have already been started."""
        return True

    def world_size(self) -> int:
        """Return the number of workers."""
        return get_context().get_world_size()

    def global_rank(self) -> int:
        """Return the rank of this worker."""
        return get_context().get_world_rank()

    def local_rank(self) -> int:
        """Return the local rank of this worker on its node."""
        return get_context().get_local_rank()

    def node_rank(self) -> int:
        """Return the rank of this worker's node."""
        return get_context().get_node_rank()

    def set_world_size(self, size: int) -> None:
        """No-op: the run sets the world size."""

    def set_global_rank(self, rank: int) -> None:
        """Adjust only which rank prints: the run sets the rank itself."""
        super().set_global_rank(self.global_rank())

    def teardown(self) -> None:
        """No-op: environment variables of the worker stay, because other parts of the function may need them."""
