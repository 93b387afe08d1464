"""A vision transformer reads handwritten digits: patches of 2 by 2 pixels, two workers, a torch data loader.

Run it: python examples/train/digits_vit.py [--epochs N]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset
from transformers import ViTConfig, ViTForImageClassification

import skate as ray
from skate import train
from skate.train import RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer, prepare_data_loader, prepare_model


def vit() -> ViTForImageClassification:
    """100,000 parameters, randomly initialized, so nothing is downloaded."""
    return ViTForImageClassification(
        ViTConfig(
            image_size=8,
            patch_size=2,
            num_channels=1,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=128,
            num_labels=10,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    loader = prepare_data_loader(
        DataLoader(TensorDataset(images[:1440], labels[:1440]), batch_size=32, shuffle=True)
    )
    model = prepare_model(vit())
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    steps = config["epochs"] * len(loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=config["lr"], total_steps=steps)
    for epoch in range(config["epochs"]):
        loader.sampler.set_epoch(epoch)
        model.train()
        for pixels, targets in loader:
            loss = model(pixel_values=pixels, labels=targets).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            right = model(pixel_values=images[1440:]).logits.argmax(1) == labels[1440:]
        train.report({"epoch": epoch, "loss": loss.item(), "accuracy": right.float().mean().item()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    ray.init(num_cpus=2, preload=["torch", "transformers"])
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as storage:
        result = TorchTrainer(
            loop,
            train_loop_config={"epochs": given.epochs, "lr": 3e-3},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name="vit", storage_path=storage),
        ).fit()
    print(result.metrics_dataframe[["epoch", "loss", "accuracy"]].to_string(index=False))
    print(f"accuracy {result.metrics['accuracy']:.3f} after {time.perf_counter() - began:.1f} s")
    ray.shutdown()


if __name__ == "__main__":
    main()
