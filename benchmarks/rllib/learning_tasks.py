"""The trainings of `make learning`, with the same settings on every side."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Task:
    """One training.

    Attributes:
        algorithm: PPO, DQN or SAC.
        env: The id of the environment in gymnasium.
        steps: Steps of the environment in all.
        sb3: Arguments of the class in Stable-Baselines3.
        ours: Arguments of the configuration's `training`.
        model: Settings of the networks of ours.
        envs: Copies of the environment.
        hidden: Widths of the hidden layers.
        module: The path of the class of ours, if it is not the default one.
    """

    algorithm: str
    env: str
    steps: int
    sb3: dict[str, Any]
    ours: dict[str, Any]
    model: dict[str, Any]
    envs: int = 1
    hidden: tuple[int, ...] = field(default=(64, 64))
    module: str | None = None


def ppo(
    env: str, steps: int, *, envs: int, fragment: int, minibatch: int, epochs: int, lr: float, **more: float
) -> Task:
    """Return a training with PPO.

    Args:
        env: The id of the environment.
        steps: Steps in all.
        envs: Copies of the environment.
        fragment: Steps of each in a batch.
        minibatch: Rows in a minibatch.
        epochs: How often each row is used.
        lr: The learning rate.
        more: `gamma`, `lambda_` and `entropy`, where they are not 0.99, 0.95 and 0; `continuous=1` if actions are numbers.
    """
    gamma, lambda_ = more.get("gamma", 0.99), more.get("lambda_", 0.95)
    entropy = more.get("entropy", 0.0)
    both = {"gamma": gamma}
    sb3 = both | {
        "n_steps": fragment,
        "batch_size": minibatch,
        "n_epochs": epochs,
        "learning_rate": lr,
        "gae_lambda": lambda_,
        "ent_coef": entropy,
        "vf_coef": 0.5,
        "clip_range": 0.2,
        "max_grad_norm": 0.5,
    }
    ours = both | {
        "train_batch_size": fragment * envs,
        "minibatch_size": minibatch,
        "num_epochs": epochs,
        "lr": lr,
        "lambda_": lambda_,
        "entropy_coeff": entropy,
        "vf_loss_coeff": 0.5,
        "clip_param": 0.2,
        "grad_clip": 0.5,
        "vf_clip_param": 1e9,
        "use_kl_loss": False,
    }
    model = {
        "fcnet_activation": "tanh",
        # Stable-Baselines3 builds two networks with orthogonal weights. This gain is for the head of values.
        "vf_share_layers": False,
        "fcnet_kernel_initializer": "orthogonal_",
        "fcnet_kernel_initializer_kwargs": {"gain": math.sqrt(2)},
        "fcnet_bias_initializer": "zeros_",
        "head_fcnet_kernel_initializer": "orthogonal_",
        "head_fcnet_kernel_initializer_kwargs": {"gain": 1.0},
        "head_fcnet_bias_initializer": "zeros_",
        # Where actions are numbers, their spread is a parameter and not an output of the network.
        "free_log_std": bool(more.get("continuous")),
    }
    module = "benchmarks.rllib.small_policy_head.SmallPolicyHead"
    return Task("PPO", env, steps, sb3, ours, model, envs, module=module)


def dqn(
    env: str, steps: int, *, lr: float, minibatch: int, random: int, epsilon: int, uniform: bool = True
) -> Task:
    """Return a training with plain DQN, one update for each step.

    Args:
        env: The id of the environment.
        steps: Steps in all.
        lr: The learning rate.
        minibatch: Rows in an update.
        random: Steps before learning.
        epsilon: Steps in which the share of random actions goes from 1 to 0.05.
        uniform: Let all actions be random before learning, as they are in Stable-Baselines3 whatever that share is.
    """
    first = [[random, 1.0], [random + 1, 1.0 - 0.95 * (random + 1) / epsilon]] if uniform else []
    sb3 = {
        "learning_rate": lr,
        "batch_size": minibatch,
        "learning_starts": random,
        "train_freq": 1,
        "gradient_steps": 1,
        "target_update_interval": 500,
        "buffer_size": 50_000,
        "exploration_fraction": epsilon / steps,
        "exploration_final_eps": 0.05,
        "max_grad_norm": 10.0,
    }
    ours = {
        "lr": lr,
        "train_batch_size_per_learner": minibatch,
        "num_steps_sampled_before_learning_starts": random,
        "target_network_update_freq": 500,
        "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 50_000},
        "epsilon": [[0, 1.0], *first, [epsilon, 0.05]],
        "grad_clip": 10.0,
        "dueling": False,
        "double_q": False,
    }
    return Task("DQN", env, steps, sb3, ours, {"fcnet_activation": "relu"}, hidden=(256, 256))


def sac(env: str, steps: int, *, lr: float, random: int, learner: str | None = None) -> Task:
    """Return a training with SAC, one update for each step.

    Args:
        env: The id of the environment.
        steps: Steps in all.
        lr: The learning rate of all three parts.
        random: Steps before learning.
        learner: The path of the class of ours, if it is not the default one.
    """
    sb3 = {"learning_rate": lr, "batch_size": 256, "learning_starts": random, "buffer_size": 50_000}
    ours = {
        "actor_lr": lr,
        "critic_lr": lr,
        "alpha_lr": lr,
        "train_batch_size_per_learner": 256,
        "num_steps_sampled_before_learning_starts": random,
        "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 50_000},
    }
    if learner is not None:
        ours["learner_class"] = learner
    return Task("SAC", env, steps, sb3, ours, {"fcnet_activation": "relu"}, hidden=(256, 256))


TASKS = {
    "ppo_cartpole": ppo(
        "CartPole-v1", 100_000, envs=8, fragment=128, minibatch=256, epochs=10, lr=1e-3
    ),
    "ppo_acrobot": ppo(
        "Acrobot-v1", 300_000, envs=16, fragment=128, minibatch=256, epochs=4, lr=1e-3, lambda_=0.94
    ),
    "ppo_lunarlander": ppo(
        "LunarLander-v3",
        1_000_000,
        envs=16,
        fragment=1024,
        minibatch=64,
        epochs=4,
        lr=3e-4,
        gamma=0.999,
        lambda_=0.98,
        entropy=0.01,
    ),
    "ppo_halfcheetah": ppo(
        "HalfCheetah-v5", 1_000_000, envs=8, fragment=256, minibatch=64, epochs=10, lr=3e-4, continuous=1
    ),
    "dqn_cartpole": dqn("CartPole-v1", 50_000, lr=5e-4, minibatch=64, random=1000, epsilon=10_000),
    # Its kept trainings are older than `uniform`, which changes a hundredth of their steps.
    "dqn_lunarlander": dqn(
        "LunarLander-v3", 100_000, lr=6.3e-4, minibatch=128, random=1000, epsilon=12_000, uniform=False
    ),
    "sac_pendulum": sac("Pendulum-v1", 20_000, lr=1e-3, random=1000),
    "sac_halfcheetah": sac(
        "HalfCheetah-v5",
        100_000,
        lr=3e-4,
        random=10_000,
        learner="benchmarks.rllib.squared_errors.SquaredErrors",
    ),
}  # fmt: skip
