"""The problem of `pbt_function` as a class."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from skate import tune
from skate.tune.examples.pbt_function import best_rate, risen
from skate.tune.trainable.trainable import Trainable


class PBTBenchmarkExample(Trainable):
    """A problem whose best learning rate changes during training."""

    def setup(self, config: dict[str, Any]) -> None:
        """Start at accuracy 0."""
        self.lr = config["lr"]
        self.accuracy = 0.0

    def step(self) -> dict[str, Any]:
        """Run one step."""
        self.accuracy = risen(self.accuracy, self.lr)
        best = best_rate(self.accuracy)
        return {
            "mean_accuracy": self.accuracy,
            "cur_lr": self.lr,
            "optimal_lr": best,
            "q_err": max(self.lr, best) / min(self.lr, best),
            "done": self.accuracy > 200,
        }

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the accuracy and the rate."""
        state = {"accuracy": self.accuracy, "lr": self.lr}
        pathlib.Path(checkpoint_dir, "state.json").write_text(json.dumps(state))

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Load the accuracy; the rate comes from the configuration."""
        self.accuracy = json.loads(pathlib.Path(checkpoint, "state.json").read_text())["accuracy"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Switch to another rate in the same process."""
        self.lr, self.config = new_config["lr"], new_config
        return True


if __name__ == "__main__":
    tune.Tuner(
        PBTBenchmarkExample,
        param_space={"lr": 0.0001},
        run_config=tune.RunConfig(stop={"training_iteration": 50}),
    ).fit()
