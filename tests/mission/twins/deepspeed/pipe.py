"""Layers in stages, one a worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import distributed
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


class LayerSpec:
    """A layer that is made where it is needed."""

    def __init__(self, kind: Any, *given: Any) -> None:
        self.kind, self.given = kind, given

    def build(self) -> Any:
        """Make it."""
        return self.kind(*self.given)


class PipelineModule(torch.nn.Sequential):
    """The layers of this worker's stage."""

    def __init__(
        self,
        layers: Sequence[LayerSpec],
        num_stages: int,
        loss_fn: Any,
        partition_method: str,
        activation_checkpoint_interval: int,
    ) -> None:
        assert partition_method == "uniform" and num_stages == distributed.get_world_size()
        rank = distributed.get_rank()
        bounds = [len(layers) * stage // num_stages for stage in range(num_stages + 1)]
        super().__init__(*(each.build() for each in layers[bounds[rank] : bounds[rank + 1]]))
        self.loss = [loss_fn]  # not as a layer, which it would become


class PipelineEngine:
    """Takes a step of all stages at a time."""

    def __init__(self, model: PipelineModule, optimizer: Any, config: dict[str, Any]) -> None:
        self.optimizer, self.pieces = optimizer, config["gradient_accumulation_steps"]
        self.rank, self.last = distributed.get_rank(), distributed.get_world_size() - 1
        stage = PipelineStage(model, self.rank, self.last + 1, torch.device("cpu"))
        self.schedule = ScheduleGPipe(stage, n_microbatches=self.pieces, loss_fn=model.loss[0])

    def train_batch(self, data_iter: Iterator[Any]) -> torch.Tensor:
        """The mean loss of as many micro-batches as make a step."""
        inputs, labels = (
            torch.cat(each) for each in zip(*(next(data_iter) for _ in range(self.pieces)), strict=True)
        )
        losses: list[Any] = []
        if self.rank == 0:
            self.schedule.step(inputs)
        else:
            self.schedule.step(target=labels, losses=losses)
        self.optimizer.step()
        self.optimizer.zero_grad()
        mean = torch.stack(losses).mean().detach() if losses else torch.zeros(())
        distributed.broadcast(mean, src=self.last)
        return mean
