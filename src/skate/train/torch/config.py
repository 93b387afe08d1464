"""The process group of a run's workers."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from skate.train.backend import Backend, BackendConfig


@dataclass
class TorchConfig(BackendConfig):
    """How the workers' process group is created.

    Args:
        backend: "nccl", "gloo" or another; by default nccl for workers with GPUs, else gloo.
        init_method: "env" or "tcp"; the workers meet at the same store with either.
        timeout_s: seconds after which a collective operation fails.
        deepspeed_config: (Skate only) a DeepSpeed config, with which `prepare_model` creates its engines.
    """

    backend: str | None = None
    init_method: str = "env"
    timeout_s: int = 1800
    deepspeed_config: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.init_method not in ("env", "tcp"):
            raise ValueError(f'init_method must be "env" or "tcp", got {self.init_method!r}')
        if self.timeout_s <= 0:
            raise ValueError(f"timeout_s must be a number of seconds above 0, got {self.timeout_s}")

    @property
    def backend_cls(self) -> type[Backend]:
        return TorchBackend

    @property
    def train_func_context(self) -> Callable[[], contextlib.AbstractContextManager[Any]]:
        return on_own_device

    @property
    def framework(self) -> Any:
        return "torch"

    def to_dict(self) -> dict[str, Any]:
        return {"backend": self.backend, "init_method": self.init_method, "timeout_s": self.timeout_s}

    @property
    def preload(self) -> tuple[str, ...]:
        return ("torch",)


class TorchBackend(Backend):
    """Creates the process group, and destroys it."""

    share_cuda_visible_devices = True

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        backend = backend_config.backend
        if backend == "nccl" and not worker_group.scaling.num_gpus_per_worker:
            raise ValueError(
                'TorchConfig(backend="nccl") needs workers with GPUs, but these have none; leave backend out, '
                "or request GPUs with ScalingConfig(use_gpu=True)"
            )
        if backend is None:
            backend = "nccl" if worker_group.scaling.num_gpus_per_worker else "gloo"
        port = worker_group.execute_single(0, _listen)
        worker_group.execute(_join, backend, port, backend_config.timeout_s)
        if backend_config.deepspeed_config is not None:
            worker_group.execute(_with_deepspeed, backend_config.deepspeed_config)

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        worker_group.execute(_leave)


#: Ray's name for it.
_TorchBackend = TorchBackend


#: The socket at which the workers meet, in rank 0, until torch takes it over.
_listener: socket.socket | None = None


def _listen() -> int:
    """Listen at a free port for the other workers; return it.

    The socket stays open until torch takes it over, so that no other process gets the port in between.
    """
    global _listener
    if socket.has_dualstack_ipv6():
        _listener = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        _listener = socket.create_server(("", 0))
    port: int = _listener.getsockname()[1]
    os.environ["MASTER_PORT"] = str(port)
    return port


def _join(backend: str, port: int, timeout_s: int) -> None:
    global _listener
    import torch  # in workers, which load it in any case
    from torch import distributed

    os.environ["MASTER_PORT"] = str(port)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if backend == "nccl":
        if not torch.cuda.is_available():
            raise RuntimeError(
                f"the workers of this run were assigned GPUs, but torch {torch.__version__} finds none here; "
                "check nvidia-smi and that this build of torch has CUDA, or train with ScalingConfig(use_gpu=False)"
            )
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
        torch.cuda.set_device(local_device_index())
    timeout = timedelta(seconds=timeout_s)
    listener, _listener = _listener, None
    store = distributed.TCPStore(  # type: ignore[attr-defined]  # public, but its stub does not export it
        os.environ["MASTER_ADDR"],
        port,
        size,
        is_master=rank == 0,
        timeout=timeout,
        multi_tenant=True,  # as torch's own rendezvous, so that the training function can join this store
        master_listen_fd=None if listener is None else listener.detach(),
        use_libuv=os.environ.get("USE_LIBUV", "1") == "1",
    )
    # for Accelerate, whose own choice would be cuda:LOCAL_RANK or cpu:0
    os.environ["ACCELERATE_TORCH_DEVICE"] = f"cuda:{local_device_index()}" if _has_own_gpu() else "cpu"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)


def _with_deepspeed(config: dict[str, Any]) -> None:
    from skate.train.torch.deepspeed import remember  # loads torch, in workers

    remember(config)


@contextlib.contextmanager
def on_own_device() -> Iterator[None]:
    """Make this worker's GPU the current device of the training function's thread."""
    import torch  # in workers

    if _has_own_gpu():
        torch.cuda.set_device(local_device_index())
    yield


def _has_own_gpu() -> bool:
    """Return True if this worker was assigned a GPU that torch can use."""
    import torch  # in workers

    import skate  # workers have it

    return bool(skate.get_runtime_context().get_accelerator_ids().get("GPU")) and torch.cuda.is_available()


def local_device_index(gpu: Any = None) -> int:
    """Return the index, among the GPUs visible to this process, of one of its own; by default the first of those."""
    import skate  # workers have it

    own = [gpu] if gpu is not None else skate.get_runtime_context().get_accelerator_ids().get("GPU", [])
    visible = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
    return visible.index(str(own[0])) if own and str(own[0]) in visible else 0


def _leave() -> None:
    from torch import distributed  # in workers

    if distributed.is_initialized():
        distributed.destroy_process_group()
