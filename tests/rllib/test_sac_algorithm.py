"""SAC from end to end: results, seeds, and actions within the bounds of the space."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from skate.rllib.algorithms.sac import SACConfig
from tests.rllib.test_ppo import digest


def small(seed: int = 3) -> SACConfig:
    """Return a configuration with fifty updates an iteration."""
    return (
        SACConfig()
        .environment("Pendulum-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .training(train_batch_size_per_learner=32, num_steps_sampled_before_learning_starts=100)
        .rl_module(model_config={"fcnet_hiddens": [16], "head_fcnet_hiddens": []})
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=300)
        .debugging(seed=seed)
    )


def test_an_iteration_and_its_seed() -> None:
    digests = []
    for seed in (1, 1, 2):
        algorithm = small(seed).build_algo()
        result = algorithm.train()
        learned = result["learners"]["default_policy"]
        for key in ("policy_loss", "qf_loss", "alpha_loss", "alpha_value"):
            assert np.isfinite(learned[key])
        assert result["replay_buffer"]["num_env_steps_stored"] == 300
        digests.append(digest(algorithm))
        env = gym.make("Pendulum-v1")
        observation, _ = env.reset(seed=1)
        assert env.action_space.contains(np.asarray(algorithm.compute_single_action(observation), np.float32))
        algorithm.stop()
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]
