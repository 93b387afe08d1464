"""Linear regression by several workers."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from skate import train
from skate.train.torch import TorchTrainer, prepare_data_loader, prepare_model


class LinearDataset(Dataset[Any]):
    """Points of y = a * x + b.

    Args:
        a, b: slope and height of the line.
        size: the number of points; x runs from 0 to 10.
    """

    def __init__(self, a: float, b: float, size: int = 1000) -> None:
        self.x = torch.linspace(0, 10, size).unsqueeze(1)
        self.y = a * self.x + b

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.x[index], self.y[index]

    def __len__(self) -> int:
        return len(self.x)


def train_epoch(epoch: int, dataloader: Any, model: Any, loss_fn: Any, optimizer: Any) -> None:
    """Train for one epoch."""
    if train.get_context().get_world_size() > 1:
        dataloader.sampler.set_epoch(epoch)
    for x, y in dataloader:
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()


def validate_epoch(dataloader: Any, model: Any, loss_fn: Any) -> float:
    """Return the mean loss over the test points."""
    model.eval()
    with torch.no_grad():
        losses = [float(loss_fn(model(x), y)) for x, y in dataloader]
    model.train()
    return sum(losses) / len(losses)


def train_func(config: dict[str, Any]) -> list[dict[str, float]]:
    """Train for `config["epochs"]` epochs, report "loss", and return the reports; rank 0 adds checkpoints."""
    size = config.get("batch_size", 32)
    parts = [LinearDataset(2, 5), LinearDataset(2, 5, size=200)]
    loaders = [prepare_data_loader(DataLoader(part, batch_size=size)) for part in parts]
    model = prepare_model(nn.Linear(1, config.get("hidden_size", 1)))
    loss_fn = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=config.get("lr", 1e-2))
    reports = []
    for epoch in range(config.get("epochs", 3)):
        train_epoch(epoch, loaders[0], model, loss_fn, optimizer)
        reports.append({"loss": validate_epoch(loaders[1], model, loss_fn)})
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if train.get_context().get_world_rank() == 0:
                state = {name.removeprefix("module."): value for name, value in model.state_dict().items()}
                torch.save(state, os.path.join(folder, "model.pt"))
                checkpoint = train.Checkpoint.from_directory(folder)
            train.report(reports[-1], checkpoint=checkpoint)
    return reports


def train_linear(
    num_workers: int = 2, use_gpu: bool = False, epochs: int = 3, storage_path: str | None = None
) -> dict[str, Any] | None:
    """Train with several workers; return the metrics of the last report."""
    trainer = TorchTrainer(
        train_func,
        train_loop_config={"lr": 1e-2, "hidden_size": 1, "batch_size": 4, "epochs": epochs},
        scaling_config=train.ScalingConfig(num_workers=num_workers, use_gpu=use_gpu),
        run_config=train.RunConfig(storage_path=storage_path),
    )
    metrics: dict[str, Any] | None = trainer.fit().metrics
    return metrics


if __name__ == "__main__":
    print(train_linear(epochs=1 if "--smoke-test" in sys.argv else 3))
