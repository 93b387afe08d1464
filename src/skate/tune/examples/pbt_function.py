"""A problem whose best learning rate changes during training, for population based training.

The accuracy rises fastest at the best learning rate, which grows for the first half and then falls again. No
constant rate gets far, so a population that changes its rates wins.
"""

from __future__ import annotations

import json
import pathlib
import random
import sys
import tempfile
from typing import Any

from skate import tune
from skate.tune.schedulers import PopulationBasedTraining

_HALF = 100.0


def best_rate(accuracy: float) -> float:
    """Return the learning rate at which the accuracy rises fastest."""
    return max(0.001, 0.01 * (1 - abs(accuracy - _HALF) / _HALF))


def risen(accuracy: float, rate: float) -> float:
    """Return the accuracy after one more step."""
    best = best_rate(accuracy)
    error = min(max(rate, best) / min(rate, best), 3.0)
    return accuracy + max(0.0, best * 100 * (3 - error) / 2 * random.uniform(0.9, 1.1)) - 0.01 * error


def pbt_function(config: dict[str, Any]) -> None:
    """Report "mean_accuracy" without end, with a checkpoint every `config["checkpoint_interval"]` steps."""
    accuracy, step = 0.0, 1
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            found = json.loads(pathlib.Path(folder, "checkpoint.json").read_text())
        accuracy, step = found["acc"], found["step"] + 1
    every = config.get("checkpoint_interval", 1)
    while True:
        accuracy = risen(accuracy, config["lr"])
        metrics = {
            "mean_accuracy": accuracy,
            "cur_lr": config["lr"],
            "optimal_lr": best_rate(accuracy),
            "q_err": max(config["lr"], best_rate(accuracy)) / min(config["lr"], best_rate(accuracy)),
            "done": accuracy > 2 * _HALF,
        }
        if step % every:
            tune.report(metrics)
        else:
            with tempfile.TemporaryDirectory() as folder:
                state = {"acc": accuracy, "step": step}
                pathlib.Path(folder, "checkpoint.json").write_text(json.dumps(state))
                tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(folder))
        step += 1


def run_tune_pbt(smoke_test: bool = False) -> tune.ResultGrid:
    """Train a population of eight trials; as a smoke test, of two trials for a few steps."""
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=4,
        hyperparam_mutations={"lr": tune.uniform(0.0001, 0.02)},
    )
    config = tune.TuneConfig(
        metric="mean_accuracy", mode="max", scheduler=scheduler, num_samples=2 if smoke_test else 8
    )
    run = tune.RunConfig(stop={"training_iteration": 10 if smoke_test else 200, "done": True})
    space = {"lr": 0.0001, "checkpoint_interval": 4}
    return tune.Tuner(pbt_function, param_space=space, tune_config=config, run_config=run).fit()


if __name__ == "__main__":
    run_tune_pbt(smoke_test="--smoke-test" in sys.argv)
