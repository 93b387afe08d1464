"""The classic probes: environments of a few steps, each of which a learner without one of its parts cannot solve."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from skate.rllib.algorithms.dqn import DQNConfig
from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.algorithms.sac import SACConfig
from skate.rllib.core.columns import Columns

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

GAMMA = 0.5
SEEN = [-1.0, 1.0]


class Probe(gym.Env[Any, Any]):
    """Shows one number, and pays by the kind of the probe.

    ``constant`` pays 1. ``shown`` pays what it shows. ``later`` pays 1 in its second step. ``acted`` pays for the first
    action, and ``both`` for the action that goes with what is shown.
    """

    def __init__(self, settings: Any) -> None:
        self.kind, continuous = settings["kind"], settings["continuous"]
        self.observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32) if continuous else gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.shown = 0.0 if self.kind in ("constant", "acted") else float(self.np_random.choice(SEEN))
        if self.kind == "later":
            self.shown = -1.0
        return np.array([self.shown], np.float32), {}

    def step(self, action: Any) -> Any:
        side = float(np.asarray(action).reshape(-1)[0])
        side = (1.0 if side > 0 else -1.0) if self.action_space.shape else 2.0 * side - 1.0
        reward = {
            "constant": 1.0,
            "shown": self.shown,
            "later": 1.0 if self.shown > 0 else 0.0,
            "acted": side,
            "both": side * self.shown,
        }[self.kind]
        over = self.kind != "later" or self.shown > 0
        self.shown = 1.0 if self.kind == "later" else self.shown
        return np.array([self.shown], np.float32), reward, over, False, {}


#: What the best policy gets from the first and from the second number on.
WORTH = {
    "constant": (1.0, 1.0),
    "shown": (-1.0, 1.0),
    "later": (GAMMA, 1.0),
    "acted": (1.0, 1.0),
    "both": (1.0, 1.0),
}


def configured(name: str, kind: str) -> Any:
    config: Any = {"PPO": PPOConfig, "DQN": DQNConfig, "noisy DQN": DQNConfig, "SAC": SACConfig}[name]()
    config.environment(Probe, env_config={"kind": kind, "continuous": name == "SAC"})
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=4)
    config.rl_module(model_config={"fcnet_hiddens": [32], "head_fcnet_hiddens": []}).debugging(seed=2)
    if name == "PPO":
        return config.training(
            gamma=GAMMA, lr=5e-3, train_batch_size=256, minibatch_size=64, num_epochs=4, lambda_=0.95
        )
    config.training(gamma=GAMMA, num_steps_sampled_before_learning_starts=200, train_batch_size=64)
    config.reporting(min_sample_timesteps_per_iteration=500, min_time_s_per_iteration=0)
    if name == "DQN":
        return config.training(
            lr=3e-3, target_network_update_freq=50, epsilon=[(0, 1.0), (1000, 0.3)], hiddens=[32]
        )
    if name == "noisy DQN":
        # Noise in the weights is all that explores.
        return config.training(lr=3e-3, target_network_update_freq=50, epsilon=0.0, noisy=True)
    return config.training(actor_lr=3e-3, critic_lr=3e-3, alpha_lr=3e-2, initial_alpha=0.1, tau=0.05)


def worth(algorithm: Any, name: str, shown: float, action: Any) -> float:
    """Return what the learner thinks that a number is worth, if the action is the best one."""
    modules = algorithm.learner_group._learner.module
    module = modules["default_policy"].unwrapped()
    batch = {Columns.OBS: torch.tensor([[shown]], dtype=torch.float32)}
    with torch.no_grad():
        if name == "PPO":
            return float(module.compute_values(batch))
        if name.endswith("DQN"):
            return float(module.compute_q_values(batch)["qf_preds"].max())
        batch[Columns.ACTIONS] = torch.tensor([[action]], dtype=torch.float32)
        return float(module.compute_q_values(batch))


@pytest.mark.parametrize("kind", WORTH)
@pytest.mark.parametrize("name", ["PPO", "DQN", "noisy DQN", "SAC"])
def test_a_probe_is_solved(name: str, kind: str) -> None:
    algorithm = configured(name, kind).build_algo()
    shown = (0.0, 0.0) if kind in ("constant", "acted") else SEEN
    wanted = WORTH[kind]
    wrong: list[str] = []
    for _ in range(30):
        algorithm.train()
        wrong = []
        for number, value in zip(shown, wanted, strict=True):
            action = algorithm.compute_single_action(np.array([number], np.float32), explore=False)
            side = float(np.asarray(action).reshape(-1)[0])
            side = (1.0 if side > 0 else -1.0) if name == "SAC" else 2.0 * side - 1.0
            found = worth(algorithm, name, number, side)
            if abs(found - value) > 0.2:
                wrong.append(f"{number} is worth {value}, not {found}")
            best = {"acted": 1.0, "both": number}.get(kind, side)
            if side != best:
                wrong.append(f"{action} is not the best action at {number}")
        if not wrong:
            break
    algorithm.stop()
    assert not wrong
