"""PPO balances a pole: a policy in twelve lines."""

from __future__ import annotations

from skate.rllib.algorithms.ppo import PPOConfig

config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    .training(lr=1e-3, train_batch_size=1024, minibatch_size=256, num_epochs=6, lambda_=0.95, vf_clip_param=1e9)
    .rl_module(model_config={"fcnet_hiddens": [64, 64]})
    .debugging(seed=1)
)
algorithm = config.build_algo()
for _ in range(20):
    result = algorithm.train()
    print(f"iteration {result['training_iteration']:2}: {result['env_runners']['episode_return_mean']:5.1f} steps")
print("saved to", algorithm.save_to_path())
algorithm.stop()
