"""A trainable that learns nothing and has a curve all the same, for trying schedulers."""

from __future__ import annotations

import math
from typing import Any

from skate.tune.registry import register_trainable
from skate.tune.trainable.trainable import Trainable


class MyTrainableClass(Trainable):
    """Reports "episode_reward_mean", a curve that rises to `config["height"]` over about `config["width"]` steps."""

    def setup(self, config: dict[str, Any]) -> None:
        """Begin at step 0."""
        self.timestep = 0

    def step(self) -> dict[str, Any]:
        """One step along the curve."""
        self.timestep += 1
        height, width = float(self.config.get("height", 1)), float(self.config.get("width", 1))
        return {"episode_reward_mean": height * math.tanh(self.timestep / width)}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """The step."""
        return {"timestep": self.timestep}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from the step."""
        self.timestep = checkpoint["timestep"]


class _Endless(Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.info: dict[str, Any] = {"weights": 0}

    def step(self) -> dict[str, Any]:
        return {
            "episode_reward_mean": 10,
            "episode_len_mean": 5,
            "timesteps_this_iter": 10,
            "info": self.info,
        }

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return dict(self.info)

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.info = dict(checkpoint)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True


def register_mock_trainable() -> None:
    """Register one that goes on for ever, as "__fake"."""
    register_trainable("__fake", _Endless)
