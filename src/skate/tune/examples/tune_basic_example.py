"""A search for the minimum of a function of two numbers."""

from __future__ import annotations

import time
from typing import Any

from skate import tune


def evaluation_fn(step: int, width: float, height: float) -> float:
    """A loss that falls with the steps; its minimum is at width 20 and height -100."""
    return float((0.1 + width * step / 100) ** -1 + height * 0.1)


def easy_objective(config: dict[str, Any]) -> None:
    """Reports "mean_loss" and "iterations" for each of `config["steps"]` steps of `config["sleep"]` seconds."""
    for step in range(int(config.get("steps", 10))):
        tune.report({"iterations": step, "mean_loss": evaluation_fn(step, config["width"], config["height"])})
        time.sleep(config.get("sleep", 0.0))


def main(num_samples: int = 10) -> tune.ResultGrid:
    """Search and print the best configuration."""
    space = {"steps": 10, "width": tune.uniform(1, 20), "height": tune.uniform(-100, 100)}
    found = tune.Tuner(
        easy_objective,
        param_space=space,
        tune_config=tune.TuneConfig(metric="mean_loss", mode="min", num_samples=num_samples),
    ).fit()
    print("best:", found.get_best_result().config)
    return found


if __name__ == "__main__":
    main()
