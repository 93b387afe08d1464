"""A run is killed twice, first one of its workers, then the program itself, and resumes from its last
checkpoint each time.

Run it: python examples/train/resume_after_crash.py
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import skate as ray
from skate import train
from skate.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from skate.train.data_parallel_trainer import DataParallelTrainer


def loop(config: dict[str, Any]) -> None:
    x, begins = 1.0, 0  # x converges to the square root of 2
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            epoch, x = Path(folder, "state").read_text().split()
            begins, x = int(epoch) + 1, float(x)
    for epoch in range(begins, config["epochs"]):
        if epoch == 4 and begins == 0 and train.get_context().get_world_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)  # a worker, as if the machine were out of memory
        if epoch == 8 and config["kill_program"]:
            os.kill(config["program"], signal.SIGKILL)  # the program that called fit
            signal.pause()
        x -= 0.2 * (x * x - 2)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "state").write_text(f"{epoch} {x!r}")
            of_rank_0 = (
                Checkpoint.from_directory(folder) if train.get_context().get_world_rank() == 0 else None
            )
            train.report({"epoch": epoch, "begins": begins, "x": x, "error": abs(x * x - 2)}, of_rank_0)


def fit(storage: str, epochs: int, kill_program: bool) -> None:
    result = DataParallelTrainer(
        loop,
        train_loop_config={"epochs": epochs, "program": os.getpid(), "kill_program": kill_program},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="root",
            storage_path=storage,
            failure_config=FailureConfig(max_failures=1),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    ).fit()
    print(result.metrics_dataframe.to_string(index=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--storage", help="used by the program for itself")
    parser.add_argument("--kill", action="store_true", help="the same")
    given = parser.parse_args()
    if given.storage:
        ray.init(num_cpus=2)
        fit(given.storage, given.epochs, given.kill)
        return
    with tempfile.TemporaryDirectory() as storage:
        again = [sys.executable, __file__, "--epochs", str(given.epochs), "--storage", storage]
        killed = subprocess.run([*again, "--kill"], check=False)
        print(f"the program has ended with signal {-killed.returncode}; the same once more", flush=True)
        subprocess.run(again, check=True)


if __name__ == "__main__":
    main()
