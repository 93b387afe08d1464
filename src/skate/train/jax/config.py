"""How processes of JAX find each other: a coordinator in the first worker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from skate.installed import missing
from skate.train.backend import Backend, BackendConfig


@dataclass
class JaxConfig(BackendConfig):
    """Which devices the workers compute on.

    Args:
        use_tpu: refused here.
        use_gpu: the GPUs of the workers; the trainer fills it in. Without it they compute on their CPUs, through gloo.

    Raises:
        ValueError: TPUs are asked for.
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
    """Makes one distributed program of the workers' processes, and ends it."""

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
