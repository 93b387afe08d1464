"""Environments that lose their state when they are pickled: they begin new episodes in a restored run, and after a kill."""

from __future__ import annotations

import logging
import os
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")
import gymnasium

import skate
from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.env.sampling import lane_state


class Simulated(gymnasium.Env, gymnasium.utils.EzPickle):  # type: ignore[misc]
    """Wraps a simulation of another language, as environments of Box2D do: a copy of it has none until it is reset."""

    def __init__(self, settings: dict[str, Any]) -> None:
        gymnasium.utils.EzPickle.__init__(self, settings)
        self.settings = settings
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
        self.action_space = gymnasium.spaces.Discrete(2)
        self.steps: int | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.low, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.steps is not None, "there is no simulation"
        self.steps += 1
        order = Path(self.settings.get("folder", "/nowhere"), "kill")
        if order.exists():
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.observation_space.high, 1.0, self.steps == 50, False, {}


def config(runners: int = 0, **settings: Any) -> Any:
    made = PPOConfig().environment(Simulated, env_config=settings).debugging(seed=3)
    made.env_runners(num_env_runners=runners, num_envs_per_env_runner=2)
    made.rl_module(model_config={"fcnet_hiddens": [8]})
    return made.training(train_batch_size=64, minibatch_size=32, num_epochs=1)


@pytest.fixture
def session() -> Iterator[None]:
    skate.init(num_cpus=2, preload=["torch"])
    yield
    skate.shutdown()


def test_a_restored_run_begins_new_episodes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    algorithm = config().build_algo()
    algorithm.train()
    with caplog.at_level(logging.WARNING):
        path = algorithm.save_to_path(tmp_path / "saved")
    assert "begin new episodes" in caplog.text
    algorithm.stop()
    restored = Algorithm.from_checkpoint(path)
    result = restored.train()
    assert result["training_iteration"] == 2
    for _ in range(3):
        result = restored.train()
    assert result["env_runners"]["episode_len_max"] == 50
    restored.stop()


@pytest.mark.usefixtures("session")
def test_a_killed_runner_begins_new_episodes(tmp_path: Path) -> None:
    algorithm = config(1, folder=str(tmp_path)).build_algo()
    algorithm.train()
    (tmp_path / "kill").touch()
    for _ in range(4):
        result = algorithm.train()
    assert not (tmp_path / "kill").exists()
    assert result["env_runners"]["episode_len_max"] == 50
    algorithm.stop()


def test_state_that_would_be_lost_is_refused() -> None:
    env = gymnasium.wrappers.TimeLimit(Simulated({}), 10)
    with pytest.raises(pickle.PicklingError, match="Simulated is pickled by its arguments"):
        lane_state.packed({"envs": [env]})
    held = pickle.loads(lane_state.packed({"envs": [gymnasium.make("CartPole-v1")], "steps": 3}))
    assert held["steps"] == 3
