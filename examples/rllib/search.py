"""Tune searches for PPO's learning rate; the best policy is evaluated with its checkpoint."""

from __future__ import annotations

import skate as ray
from skate import tune
from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.ppo import PPOConfig

config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    .training(lr=tune.grid_search([1e-3, 1e-5]), train_batch_size=1024, minibatch_size=256, num_epochs=6)
    .rl_module(model_config={"fcnet_hiddens": [64, 64]})
    .evaluation(evaluation_config={"explore": False}, evaluation_duration=3)
    .debugging(seed=1)
)

if __name__ == "__main__":
    ray.init(num_cpus=2)
    results = tune.Tuner(
        "PPO",
        param_space=config,
        tune_config=tune.TuneConfig(metric="env_runners/episode_return_mean", mode="max"),
        run_config=tune.RunConfig(
            stop={"training_iteration": 8, "env_runners/episode_return_mean": 200},
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
            verbose=0,
        ),
    ).fit()
    best = results.get_best_result()
    print("best learning rate:", best.config["lr"])
    algorithm = Algorithm.from_checkpoint(best.checkpoint)
    print("return without exploration:", algorithm.evaluate()["env_runners"]["episode_return_mean"])
    algorithm.stop()
    ray.shutdown()
