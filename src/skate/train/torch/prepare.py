"""Preparation of models and data loaders in the training function, for training across workers."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler

from skate.train.torch.config import local_device_index
from skate.train.worker.session import current

_STRATEGIES = ("ddp", "fsdp", "fsdp2", "deepspeed", None)


def get_device() -> torch.device:
    """Return the device of this worker: its first GPU, or the CPU.

    Raises:
        RuntimeError: called outside of the training function.
    """
    return get_devices()[0]


def get_devices() -> list[torch.device]:
    """Return all devices of this worker: its GPUs, or the CPU.

    Raises:
        RuntimeError: called outside of the training function.
    """
    current("torch.get_devices()")
    return devices_of_process()


def devices_of_process() -> list[torch.device]:
    """Return the GPUs of the task or actor that calls, or the CPU."""
    if not torch.cuda.is_available():
        return [torch.device("cpu")]
    import skate  # workers have it

    own = skate.get_runtime_context().get_accelerator_ids().get("GPU", [])
    if not own:
        return [torch.device("cpu")]
    return [torch.device(f"cuda:{local_device_index(gpu)}") for gpu in own]


def prepare_model(
    model: torch.nn.Module,
    move_to_device: bool | torch.device = True,
    parallel_strategy: str | None = "ddp",
    parallel_strategy_kwargs: dict[str, Any] | None = None,
) -> torch.nn.Module:
    """Move a model to this worker's device and wrap it so that the workers' gradients are averaged.

    Args:
        model: the model, the same on all ranks.
        move_to_device: True to move it, or the device to move it to.
        parallel_strategy: "ddp", "fsdp" (FullyShardedDataParallel), "fsdp2" (`fully_shard`), "deepspeed", or
            None for none; "ddp" means "deepspeed" if the trainer has a `deepspeed_config`.
        parallel_strategy_kwargs: keywords for the wrapper, `deepspeed.initialize` for DeepSpeed.

    Raises:
        ValueError: the strategy is unknown.
        RuntimeError: called outside of the training function.
    """
    place = current("torch.prepare_model()").place
    if parallel_strategy not in _STRATEGIES:
        names = ", ".join(f'"{name}"' for name in _STRATEGIES if name)
        raise ValueError(f"parallel_strategy must be one of {names}, or None, got {parallel_strategy!r}")
    device = get_device()
    if isinstance(move_to_device, torch.device):
        device, move_to_device = move_to_device, True
    deepspeed = sys.modules.get("skate.train.torch.deepspeed")  # loaded where the trainer has a config for it
    if parallel_strategy == "deepspeed" or (
        parallel_strategy == "ddp" and deepspeed and deepspeed.remembered()
    ):
        from skate.train.torch.deepspeed import engine_of  # few runs need it

        return cast(
            torch.nn.Module, engine_of(model, parallel_strategy_kwargs or {}, device, place.world_size)
        )
    if move_to_device:
        model = model.to(device)
    if parallel_strategy is None or place.world_size == 1 or not distributed.is_initialized():
        return model
    given = dict(parallel_strategy_kwargs or {})
    if parallel_strategy == "ddp":
        if device.type == "cuda":
            given = {"device_ids": [device], "output_device": device, **given}
        return DistributedDataParallel(model, **given)
    if parallel_strategy == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel  # 200 ms that few runs need

        if device.type == "cpu":
            given.setdefault("device_id", torch.device("cpu"))
        return FullyShardedDataParallel(model, **given)
    from torch.distributed.fsdp import fully_shard  # imported only if used

    for child in model.children():
        if any(True for _ in child.parameters()) and len(list(child.children())) > 0:
            fully_shard(child, **given)
    fully_shard(model, **given)
    return model


def prepare_data_loader(
    data_loader: DataLoader[Any],
    add_dist_sampler: bool = True,
    move_to_device: bool = True,
    auto_transfer: bool = True,
) -> Any:
    """Return a loader for this worker's part of the data.

    Args:
        data_loader: the loader, the same on all ranks.
        add_dist_sampler: True to give each rank its part, shuffled if the loader shuffles. Loaders with a custom
            sampler and loaders of an `IterableDataset` are left unchanged.
        move_to_device: True to move batches to this worker's device.
        auto_transfer: True to copy the next batch to a GPU during the computation of the current one.

    Raises:
        RuntimeError: called outside of the training function.
    """
    place = current("torch.prepare_data_loader()").place
    loader = data_loader
    plain = isinstance(loader.sampler, (RandomSampler, SequentialSampler)) and not isinstance(
        loader.dataset, IterableDataset
    )
    if add_dist_sampler and place.world_size > 1 and plain and loader.batch_size is not None:
        loader = _split(loader, place.world_rank, place.world_size)
    if move_to_device:
        return _OnDevice(loader, get_device(), auto_transfer)
    return loader


def _split(loader: DataLoader[Any], rank: int, size: int) -> DataLoader[Any]:
    shuffle = isinstance(loader.sampler, RandomSampler)
    sampler: DistributedSampler[Any] = DistributedSampler(
        loader.dataset, num_replicas=size, rank=rank, shuffle=shuffle, drop_last=loader.drop_last
    )
    given: dict[str, Any] = {
        "batch_size": loader.batch_size,
        "num_workers": loader.num_workers,
        "collate_fn": loader.collate_fn,
        "pin_memory": loader.pin_memory,
        "drop_last": loader.drop_last,
        "timeout": loader.timeout,
        "worker_init_fn": loader.worker_init_fn,
        "multiprocessing_context": loader.multiprocessing_context,
        "generator": loader.generator,
        "persistent_workers": loader.persistent_workers,
    }
    if loader.num_workers:
        given["prefetch_factor"] = loader.prefetch_factor
    return DataLoader(loader.dataset, sampler=sampler, **given)


class _OnDevice:
    """A loader that moves batches to a device; everything else is delegated to the wrapped loader."""

    def __init__(self, loader: DataLoader[Any], device: torch.device, ahead: bool) -> None:
        self._loader = loader
        self._device = device
        self._ahead = ahead and device.type == "cuda"
        self._passes = 0

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._loader, name)

    def __iter__(self) -> Iterator[Any]:
        if not self._ahead:
            for batch in self._loader:
                yield to_device(batch, self._device)
            return
        yield from self._with_stream()

    def _with_stream(self) -> Iterator[Any]:
        """Copies the next batch on a separate stream while the current one is computed."""
        stream: Any = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        batches = iter(self._loader)

        def copy() -> Any:
            try:
                batch = next(batches)
            except StopIteration:
                return None
            with torch.cuda.stream(stream):
                return (to_device(batch, self._device, non_blocking=True),)

        coming = copy()
        while coming is not None:
            torch.cuda.current_stream(self._device).wait_stream(stream)
            (batch,) = coming
            _keep_for_stream(batch, torch.cuda.current_stream(self._device))
            coming = copy()
            yield batch


def to_device(batch: Any, device: torch.device, non_blocking: bool = False) -> Any:
    """Move the tensors of a batch to a device; dicts, lists and tuples are traversed."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=non_blocking)
    if isinstance(batch, Mapping):
        made = {name: to_device(value, device, non_blocking) for name, value in batch.items()}
        return made if type(batch) is dict else type(batch)(made)  # type: ignore[call-arg]
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device, non_blocking) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_device(value, device, non_blocking) for value in batch)
    if hasattr(batch, "to") and not isinstance(batch, torch.nn.Module):
        return batch.to(device)
    return batch


def _keep_for_stream(batch: Any, stream: Any) -> None:
    if isinstance(batch, torch.Tensor):
        if batch.is_cuda:
            batch.record_stream(stream)
    elif isinstance(batch, Mapping):
        for value in batch.values():
            _keep_for_stream(value, stream)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            _keep_for_stream(value, stream)


def enable_reproducibility(seed: int = 0) -> None:
    """Make this worker compute the same in every run: set seeds, and use deterministic algorithms where they exist.

    Raises:
        RuntimeError: called outside of the training function.
    """
    current("torch.enable_reproducibility()")
    torch.manual_seed(seed)
    random.seed(seed)
    import numpy as np  # torch has loaded it if it is installed

    np.random.seed(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)


def accelerate(amp: bool = False) -> None:
    """Rejected: use torch.autocast, or the accelerate library."""
    raise DeprecationWarning(
        "accelerate has been removed; use torch.autocast, or Hugging Face Accelerate, in the function"
    )


def prepare_optimizer(optimizer: Any) -> Any:
    """Rejected: optimizers need no preparation."""
    raise DeprecationWarning("prepare_optimizer has been removed; use the optimizer directly")


def backward(tensor: torch.Tensor) -> None:
    """Rejected: call `tensor.backward()`."""
    raise DeprecationWarning(
        "backward has been removed; call loss.backward(), with torch.amp.GradScaler if you need it"
    )
