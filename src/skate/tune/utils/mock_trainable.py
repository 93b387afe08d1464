"""A trainable with a synthetic learning curve, for trying schedulers."""

from __future__ import annotations

import json
import math
import pathlib
import time
from typing import Any

from skate.tune.registry import register_trainable
from skate.tune.trainable.trainable import Trainable

MOCK_TRAINABLE_NAME = "mock_trainable"
MOCK_ERROR_KEY = "mock_error"


class MyTrainableClass(Trainable):
    """Reports "episode_reward_mean", a curve that rises to `config["height"]` over about `config["width"]` steps.

    `config["sleep"]` is the seconds that a step takes. With `config["mock_error"]` the second step fails, unless the trainable
    was restored; with `config["persistent_error"]` in any case.
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Start at step 0."""
        self.timestep = 0
        self.restored = False

    def step(self) -> dict[str, Any]:
        """Advance one step along the curve."""
        config = self.config
        fails = config.get(MOCK_ERROR_KEY) and (config.get("persistent_error") or not self.restored)
        if fails and self.timestep > 0:
            raise RuntimeError(
                f"Failing on purpose! The configuration requests it after step {self.timestep}"
            )
        time.sleep(config.get("sleep", 0))
        self.timestep += 1
        height, width = float(config.get("height", 1)), float(config.get("width", 1))
        return {"episode_reward_mean": height * math.tanh(self.timestep / width)}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the step."""
        pathlib.Path(checkpoint_dir, "checkpoint").write_text(json.dumps({"timestep": self.timestep}))

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Resume from the saved step."""
        self.timestep = json.loads(pathlib.Path(checkpoint_dir, "checkpoint").read_text())["timestep"]
        self.restored = True


def register_mock_trainable() -> None:
    """Register it as "mock_trainable"."""
    register_trainable(MOCK_TRAINABLE_NAME, MyTrainableClass)
