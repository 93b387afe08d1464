"""A small ResNet reads handwritten digits: two workers with DDP, rows from a dataset split between them.

The 1,797 images come with scikit-learn. Run it: python examples/train/digits_resnet.py [--epochs N]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn

import skate as ray
import skate.data
from skate import train
from skate.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer, prepare_model


class Block(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))
        self.past = nn.Conv2d(channels_in, channels, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(y)) + self.past(x)).relu()


def resnet() -> nn.Module:
    """74,000 parameters for images of 8 by 8."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        Block(16, 16, 1),
        Block(16, 32, 2),
        Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = prepare_model(resnet())
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"], weight_decay=0.01)
    steps = config["epochs"] * (config["rows"] // train.get_context().get_world_size() // 64 + 1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=config["lr"], total_steps=steps)
    rows_for_training = train.get_dataset_shard("train")
    rows_for_test = train.get_dataset_shard("test")
    for epoch in range(config["epochs"]):
        model.train()
        seen, total = 0, 0.0
        for batch in rows_for_training.iter_torch_batches(
            batch_size=64, local_shuffle_buffer_size=512, local_shuffle_seed=epoch
        ):
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            seen += len(batch["label"])
            total += loss.item() * len(batch["label"])
        model.eval()
        right = count = 0
        with torch.no_grad():
            for batch in rows_for_test.iter_torch_batches(batch_size=512):
                right += int((model(batch["image"]).argmax(1) == batch["label"]).sum())
                count += len(batch["label"])
        metrics = {"epoch": epoch, "loss": total / seen, "accuracy": right / count, "rows": seen}
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if train.get_context().get_world_rank() == 0:
                torch.save(model.module.state_dict(), Path(folder, "model.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            train.report(metrics, checkpoint=checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--storage", default=None, help="where results go; a passing folder if left out")
    given = parser.parse_args()

    digits = load_digits()
    rows = [
        {"image": image[None].astype("float32") / 16, "label": int(label)}
        for image, label in zip(digits.images, digits.target, strict=True)
    ]
    ray.init(num_cpus=4, preload=["torch"])
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as passing:
        result = TorchTrainer(
            loop,
            train_loop_config={"epochs": given.epochs, "lr": 5e-3, "rows": 1440},
            datasets={
                "train": skate.data.from_items(rows[:1440]),
                "test": skate.data.from_items(rows[1440:]),
            },
            dataset_config=train.DataConfig(datasets_to_split=["train"]),
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(
                name="digits",
                storage_path=given.storage or passing,
                checkpoint_config=CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="accuracy"),
            ),
        ).fit()
        print(result.metrics_dataframe[["epoch", "loss", "accuracy"]].to_string(index=False))
        best = result.get_best_checkpoint("accuracy", "max")
        with best.as_directory() as folder:
            model = resnet()
            model.load_state_dict(torch.load(Path(folder, "model.pt")))
    print(f"accuracy {result.metrics['accuracy']:.3f} after {time.perf_counter() - began:.1f} s")
    ray.shutdown()


if __name__ == "__main__":
    main()
