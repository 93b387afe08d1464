"""Strategies of Lightning for workers of a run: the device is the worker's, and samplers count its ranks."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch.strategies import DDPStrategy, DeepSpeedStrategy, FSDPStrategy
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, StateDictType

from skate.train.torch.prepare import get_device


class _OfTheRun:
    """Mixin before a strategy: each process is one worker, on any number of nodes."""

    world_size: int
    global_rank: int

    @property
    def root_device(self) -> torch.device:
        """The device of this worker."""
        return get_device()

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        """Return the arguments for `DistributedSampler`."""
        return {"num_replicas": self.world_size, "rank": self.global_rank}


class RayDDPStrategy(_OfTheRun, DDPStrategy):
    """`DDPStrategy` over the workers of a run; arguments are the same, but those of the process group belong
    to `TorchConfig`."""


class RayFSDPStrategy(_OfTheRun, FSDPStrategy):
    """`FSDPStrategy` over the workers of a run; arguments are the same. Workers without GPUs use gloo."""

    def _setup_model(self, model: torch.nn.Module) -> torch.nn.Module:
        wrapped = any(isinstance(each, FullyShardedDataParallel) for each in model.modules())
        if self.root_device.type == "cpu" and not wrapped:
            # Lightning names the device by its index, and a CPU has none; it leaves wrapped models unchanged.
            given = {**self.kwargs, "device_id": torch.device("cpu")}
            self.kwargs.pop("auto_wrap_policy", None)
            model = FullyShardedDataParallel(
                model,
                cpu_offload=self.cpu_offload,
                mixed_precision=self.mixed_precision_config,
                sharding_strategy=self.sharding_strategy,
                **given,
            )
        return super()._setup_model(model)

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Return the weights for a checkpoint: all of them on rank 0, or this rank's, depending on
        `state_dict_type`."""
        if self.root_device.type != "cpu" or self._state_dict_type != "full":
            return super().lightning_module_state_dict()
        # Lightning requests a copy on the CPU; if the weights are already there, torch reads freed memory.
        assert self.model is not None
        kind, config = StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=True)
        with FullyShardedDataParallel.state_dict_type(self.model, kind, config):
            return self.model.state_dict()


class RayDeepSpeedStrategy(_OfTheRun, DeepSpeedStrategy):
    """`DeepSpeedStrategy` over the workers of a run; arguments are the same. Workers without GPUs use gloo."""

    @property
    def root_device(self) -> torch.device:
        """The device of this worker, always with an index, as DeepSpeed requires."""
        found = get_device()
        return torch.device("cpu", 0) if found.type == "cpu" else found

    def setup_environment(self) -> None:
        """Find the ranks; the process group already exists."""
        if self.root_device.type == "cpu":  # Lightning itself rejects it on CPUs
            DDPStrategy.setup_environment(self)
        else:
            super().setup_environment()

    def setup_distributed(self) -> None:
        """Set up the process group, or only the ranks on a CPU."""
        if self.root_device.type == "cpu":
            self.set_world_ranks()
        else:
            super().setup_distributed()
