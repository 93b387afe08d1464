"""Small trainings, written once: test_torchrun.py runs them under torchrun as they are, and in a TorchTrainer prepared by it.

torchrun --nproc-per-node 2 torchrun_programs.py <file for the losses>
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS = 12
ROWS = 96
BATCH = 4

Wrap = Callable[[nn.Module], nn.Module]
Load = Callable[[DataLoader[Any]], Any]


def data() -> TensorDataset:
    """Rows to learn: the same in every process."""
    made = torch.Generator().manual_seed(3)
    rows = torch.randn(ROWS, 8, generator=made)
    return TensorDataset(rows, rows[:, :1] * 2 - rows[:, 1:2] + 0.1 * torch.randn(ROWS, 1, generator=made))


def model() -> nn.Module:
    """A small one, with layers of layers, so that there is something to shard."""
    torch.manual_seed(7)
    block = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(2)]
    return nn.Sequential(nn.Linear(8, 16), *block, nn.Linear(16, 1))


def curve(wrap: Wrap, load: Load, accumulate: int = 1) -> list[float]:
    """Train; the mean loss over all ranks at each step."""
    trained = wrap(model())
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
    loader = load(DataLoader(data(), batch_size=BATCH, shuffle=True))
    losses: list[float] = []
    epoch = 0
    while len(losses) < STEPS:
        loader.sampler.set_epoch(epoch)
        epoch += 1
        for number, (rows, wanted) in enumerate(loader):
            loss = nn.functional.mse_loss(trained(rows), wanted)
            (loss / accumulate).backward()
            if (number + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
            seen = loss.detach().clone()
            distributed.all_reduce(seen)
            losses.append(seen.item() / distributed.get_world_size())
    return losses[:STEPS]


def sampled(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Do by hand the work of prepare_data_loader."""
    sampler: DistributedSampler[Any] = DistributedSampler(loader.dataset, shuffle=True)
    return DataLoader(loader.dataset, batch_size=loader.batch_size, sampler=sampler)


def sharded(module: nn.Module) -> nn.Module:
    """FSDP2 by hand: each block, then the whole."""
    from torch.distributed.fsdp import fully_shard

    for child in module.children():
        if isinstance(child, nn.Sequential):
            fully_shard(child)
    fully_shard(module)
    return module


BY_HAND: dict[str, Callable[[], list[float]]] = {
    "ddp": lambda: curve(DistributedDataParallel, sampled),
    "fsdp2": lambda: curve(sharded, sampled),
    "accumulation": lambda: curve(DistributedDataParallel, sampled, accumulate=3),
}


def prepared(name: str) -> list[float]:
    """The same in a worker of a TorchTrainer."""
    from skate.train.torch import prepare_data_loader, prepare_model

    strategy = "fsdp2" if name == "fsdp2" else "ddp"
    accumulate = 3 if name == "accumulation" else 1
    return curve(
        lambda module: prepare_model(module, parallel_strategy=strategy), prepare_data_loader, accumulate
    )


def main() -> None:
    """Under torchrun: all of them, by hand."""
    distributed.init_process_group("gloo")
    found = {name: run() for name, run in BY_HAND.items()}
    if int(os.environ["RANK"]) == 0:
        with open(sys.argv[1], "w") as file:
            json.dump(found, file)
    distributed.destroy_process_group()
    os._exit(
        0
    )  # torch now and then aborts a process that has done all this, while its threads end with the interpreter


if __name__ == "__main__":
    main()
