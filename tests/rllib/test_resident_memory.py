"""The resident memory of long runs: flat, once buffers and allocators are warm."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from skate.rllib.algorithms.dqn import DQNConfig
from skate.rllib.algorithms.ppo import PPOConfig

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def short_iterations(kind: str) -> Any:
    """Return an algorithm of which an iteration takes few milliseconds."""
    config: Any = (PPOConfig if kind == "PPO" else DQNConfig)().environment("CartPole-v1")
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=2)
    config.rl_module(model_config={"fcnet_hiddens": [8]}).debugging(seed=1, log_sys_usage=False)
    if kind == "PPO":
        return config.training(train_batch_size=32, minibatch_size=32, num_epochs=1).build_algo()
    buffer = {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 256}
    config.training(
        train_batch_size=8, replay_buffer_config=buffer, num_steps_sampled_before_learning_starts=16
    )
    return config.reporting(min_sample_timesteps_per_iteration=8, min_time_s_per_iteration=0).build_algo()


@pytest.mark.parametrize("kind", ["PPO", "DQN"])
def test_memory_is_flat_over_thousands_of_iterations(kind: str) -> None:
    algorithm = short_iterations(kind)
    for _ in range(300):
        algorithm.train()
    before = resident()
    for _ in range(1500):
        algorithm.train()
    after = resident()
    algorithm.stop()
    assert after < 1.02 * before, f"{(after - before) / 1500:.0f} bytes of each iteration stay"
