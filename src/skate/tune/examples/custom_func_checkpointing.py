"""A function that resumes from its checkpoint."""

from __future__ import annotations

import json
import pathlib
import tempfile
from typing import Any

from skate import tune
from skate.tune.examples.tune_basic_example import evaluation_fn

__all__ = ["evaluation_fn", "train_func"]


def train_func(config: dict[str, Any]) -> None:
    """Reports "mean_loss" for steps up to `config["steps"]`, each with a checkpoint, and resumes from the last one."""
    start = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            start = json.loads(pathlib.Path(folder, "checkpoint.json").read_text())["step"] + 1
    for step in range(start, int(config.get("steps", 10))):
        loss = evaluation_fn(step, config.get("width", 10), config.get("height", 10))
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "checkpoint.json").write_text(json.dumps({"step": step}))
            tune.report(
                {"iterations": step, "mean_loss": loss}, checkpoint=tune.Checkpoint.from_directory(folder)
            )


if __name__ == "__main__":
    tune.Tuner(train_func, param_space={"width": tune.uniform(1, 20)}).fit()
