"""ASHA: unpromising trials are ended early."""

from __future__ import annotations

from skate import tune
from skate.tune.examples.tune_basic_example import easy_objective, evaluation_fn
from skate.tune.schedulers import AsyncHyperBandScheduler

__all__ = ["easy_objective", "evaluation_fn", "main"]


def main(num_samples: int = 20) -> tune.ResultGrid:
    """Search and print the best configuration."""
    space = {"steps": 100, "width": tune.randint(10, 100), "height": tune.uniform(0, 100)}
    config = tune.TuneConfig(
        metric="mean_loss",
        mode="min",
        num_samples=num_samples,
        scheduler=AsyncHyperBandScheduler(grace_period=5, max_t=100),
    )
    found = tune.Tuner(easy_objective, param_space=space, tune_config=config).fit()
    print("best:", found.get_best_result().config)
    return found


if __name__ == "__main__":
    main()
