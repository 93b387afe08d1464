"""FSDP2: a model that no worker holds completely; two workers write its checkpoint in shards, four resume from it.

Run it: python examples/train/fsdp2.py [--epochs N]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as shards
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

import skate as ray
from skate import train
from skate.train import Checkpoint, RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer


def network() -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(64, 256), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Linear(256, 256), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    place = train.get_context()
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    begins = 0
    if train.get_checkpoint() is not None:
        with train.get_checkpoint().as_directory() as folder:
            begins = int(Path(folder, "epoch").read_text()) + 1
            weights, moments = get_state_dict(model, optimizer)
            shards.load({"model": weights, "optimizer": moments}, checkpoint_id=folder)
            set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    own = range(place.get_world_rank(), 1440, place.get_world_size())
    for epoch in range(begins, config["epochs"]):
        for at in torch.randperm(len(own)).split(32):
            rows = [own[each] for each in at.tolist()]
            loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = (model(images[1440:]).argmax(1) == labels[1440:]).float().mean().item()
        with tempfile.TemporaryDirectory() as own_folder:
            # One folder for the shards of all ranks: rank 0's, which is on the same machine here.
            folder = train.collective.broadcast_from_rank_zero(own_folder)
            weights, moments = get_state_dict(model, optimizer)
            shards.save({"model": weights, "optimizer": moments}, checkpoint_id=folder)
            checkpoint = None
            if place.get_world_rank() == 0:
                Path(folder, "epoch").write_text(str(epoch))
                checkpoint = Checkpoint.from_directory(folder)
            metrics = {"epoch": epoch, "accuracy": right, "workers": place.get_world_size()}
            train.report(metrics, checkpoint=checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4, help="of each of the two runs")
    given = parser.parse_args()
    ray.init(num_cpus=4, preload=["torch"])
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as storage:
        for workers, epochs in ((2, given.epochs), (4, 2 * given.epochs)):
            result = TorchTrainer(
                loop,
                train_loop_config={"epochs": epochs},
                scaling_config=ScalingConfig(num_workers=workers),
                run_config=RunConfig(name="sharded", storage_path=storage),
            ).fit()
        print(result.metrics_dataframe.to_string(index=False))
    print(f"accuracy {result.metrics['accuracy']:.3f} after {time.perf_counter() - began:.1f} s")
    ray.shutdown()


if __name__ == "__main__":
    main()
