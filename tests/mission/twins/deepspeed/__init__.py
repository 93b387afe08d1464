"""Has the names of DeepSpeed that the documents use, over plain torch: what their loops do can be seen without its compilers."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from deepspeed.pipe import PipelineEngine, PipelineModule


def initialize(model: Any, config: dict[str, Any], **given: Any) -> tuple[Any, Any, None, Any]:
    """An engine, its optimizer, and a schedule of the learning rate."""
    settings = config["optimizer"]
    kind = {"AdamW": torch.optim.AdamW, "Adam": torch.optim.Adam}[settings["type"]]
    params = {name: value for name, value in settings["params"].items() if name != "torch_adam"}
    assert not config.get("fp16", {}).get("enabled"), "Type fp16 is not supported on your device."
    optimizer = kind(model.parameters(), **params)
    if isinstance(model, PipelineModule):
        return PipelineEngine(model, optimizer, config), optimizer, None, None
    steps = config["scheduler"]["params"]["warmup_num_steps"]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / steps))
    return Engine(model, optimizer), optimizer, None, schedule


class Engine(DistributedDataParallel):
    """A model with the methods that loops of DeepSpeed call."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        super().__init__(model)
        self.optimizer = optimizer
        self.global_rank, self.local_rank = distributed.get_rank(), int(os.environ["LOCAL_RANK"])

    def backward(self, loss: torch.Tensor) -> None:
        """The gradients, averaged over the workers."""
        loss.backward()

    def save_checkpoint(self, folder: str) -> None:
        """A file of every rank, named as DeepSpeed names them."""
        name = f"zero_pp_rank_{self.global_rank}_mp_rank_00_optim_states.pt"
        torch.save(self.optimizer.state_dict(), os.path.join(folder, name))
