"""Environments that lose their state when they are pickled: they begin new episodes in a restored run, and after a kill."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
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
from skate.rllib.callbacks.callbacks import RLlibCallback
from skate.rllib.env.multi_agent_env import make_multi_agent
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


class Notes(RLlibCallback):
    """Counts the steps of an episode in itself, from its start to its end, and holds what cannot be pickled."""

    def __init__(self) -> None:
        self.steps: dict[str, int] = {}
        self.lock = threading.Lock()

    def on_episode_start(self, *, episode: Any, **kwargs: Any) -> None:
        self.steps[episode.id_] = 0

    def on_episode_step(self, *, episode: Any, **kwargs: Any) -> None:
        self.steps[episode.id_] += 1

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        assert self.steps.pop(episode.id_) == (episode.env_t if hasattr(episode, "env_t") else episode.t)
        metrics_logger.log_value("ended", 1, reduce="lifetime_sum")


@pytest.mark.parametrize("agents", [0, 2])
def test_what_a_callback_has_noted_of_a_running_episode_is_restored_with_it(
    agents: int, tmp_path: Path
) -> None:
    made = config().environment("CartPole-v1").callbacks(Notes)
    if agents:
        made.environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": agents})
        made.multi_agent(policies={"p"}, policy_mapping_fn=lambda *_, **__: "p")
    algorithm = made.build_algo()
    algorithm.train()
    path = algorithm.save_to_path(tmp_path / "saved")
    algorithm.stop()
    restored = Algorithm.from_checkpoint(path)
    assert any(restored.env_runner._callbacks.objects[0].steps.values())
    assert restored.train()["env_runners"]["ended"] > 1
    restored.stop()


def test_state_that_would_be_lost_is_refused() -> None:
    env = gymnasium.wrappers.TimeLimit(Simulated({}), 10)
    with pytest.raises(pickle.PicklingError, match="Simulated is pickled by its arguments"):
        lane_state.packed({"envs": [env]})
    held = pickle.loads(lane_state.packed({"envs": [gymnasium.make("CartPole-v1")], "steps": 3}))
    assert held["steps"] == 3
