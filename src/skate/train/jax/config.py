"""Rendezvous of JAX processes: a coordinator in the first worker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from skate.installed import missing
from skate.train.backend import Backend, BackendConfig


@dataclass
class JaxConfig(BackendConfig):
    """Selects the devices of the workers.

    Args:
        use_tpu: rejected.
        use_gpu: compute on the workers' GPUs; set by the trainer. Without it, workers compute on their CPUs, through
            gloo.

    Raises:
        ValueError: TPUs are requested.
    """

    use_tpu: bool = False
    use_gpu: bool = False

    def __post_init__(self) -> None:
        if self.use_tpu:
            raise ValueError("TPUs are not supported: leave use_tpu out")

    @property
    def backend_cls(self) -> type[Backend]:
        return JaxBackend


class JaxBackend(Backend):
    """Connects the workers' processes to one distributed program, and shuts it down."""

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        worker_group.execute(_join, backend_config.use_gpu)

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        worker_group.execute(_leave)


def _join(use_gpu: bool) -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cuda" if use_gpu else "cpu")
    try:
        import jax  # in workers, for the first time
    except ModuleNotFoundError as error:
        raise missing("jax", "JaxTrainer", "'skate[jax]'") from error
    size = int(os.environ["WORLD_SIZE"])
    if size == 1:
        return
    if not use_gpu:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        coordinator_address=f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
        num_processes=size,
        process_id=int(os.environ["RANK"]),
    )


def _leave() -> None:
    import jax  # in workers

    if int(os.environ["WORLD_SIZE"]) > 1:
        jax.distributed.shutdown()
