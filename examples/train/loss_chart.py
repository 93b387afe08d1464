"""A chart of the loss: the reports of a run as a pandas table, drawn with matplotlib.

Run it: python examples/train/loss_chart.py [--picture loss.png]
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import matplotlib
import torch
from sklearn.datasets import load_diabetes

import skate as ray
from skate import train
from skate.train import RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer, prepare_model

matplotlib.use("Agg")  # a file, not a window


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    patients, progression = (
        torch.tensor(each, dtype=torch.float32) for each in load_diabetes(return_X_y=True)
    )
    patients = patients / patients.std(0)
    progression = ((progression - progression.mean()) / progression.std())[:, None]
    model = prepare_model(
        torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    own = range(train.get_context().get_world_rank(), 342, train.get_context().get_world_size())
    for epoch in range(config["epochs"]):
        loss = torch.nn.functional.mse_loss(model(patients[own]), progression[own])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            unseen = torch.nn.functional.mse_loss(model(patients[342:]), progression[342:])
        train.report({"epoch": epoch, "training": loss.item(), "unseen": unseen.item()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--picture", default="loss.png")
    given = parser.parse_args()
    ray.init(num_cpus=2, preload=["torch"])
    with tempfile.TemporaryDirectory() as storage:
        result = TorchTrainer(
            loop,
            train_loop_config={"epochs": given.epochs},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name="diabetes", storage_path=storage),
        ).fit()
        reports = result.metrics_dataframe
    chart = reports.plot(x="epoch", y=["training", "unseen"], ylabel="mean squared error", figsize=(7, 4))
    best = reports["unseen"].idxmin()
    chart.axvline(best, color="gray", linestyle=":", label=f"best on unseen rows: epoch {best}")
    chart.set_title("Predicting the progression of diabetes")
    chart.legend()
    chart.figure.savefig(given.picture, dpi=120, bbox_inches="tight")
    print(
        f"unseen rows: {reports['unseen'][0]:.2f} at the start, {reports['unseen'][best]:.2f} at best; see {given.picture}"
    )
    ray.shutdown()


if __name__ == "__main__":
    main()
