"""A PPO whose iteration takes a tenth of a second."""

from __future__ import annotations

from ray.rllib.algorithms.ppo import PPOConfig


def small() -> PPOConfig:
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .training(train_batch_size=64, minibatch_size=32, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [4]})
        .debugging(seed=1)
    )
