"""Observations and actions of several arrays: they reach the learner as episodes, since they fit no column."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from skate.rllib.algorithms.dqn import DQNConfig
from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from skate.rllib.connectors.env_to_module import FlattenObservations
from skate.rllib.core.rl_module.rl_module import RLModuleSpec

NUMBERS = gym.spaces.Box(-1, 1, (2,))


class Masked(gym.Env[Any, Any]):
    """Allows two of three actions, and raises for the third."""

    def __init__(self, context: Any) -> None:
        self.action_space = gym.spaces.Discrete(3)
        mask = gym.spaces.Box(0.0, 1.0, (3,))
        self.observation_space = gym.spaces.Dict({"action_mask": mask, "observations": NUMBERS})

    def observe(self) -> dict[str, np.ndarray]:
        self.mask = np.ones(3, np.float32)
        self.mask[self.np_random.integers(3)] = 0.0
        numbers = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"action_mask": self.mask, "observations": numbers}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert self.mask[action], f"action {action} is not allowed by {self.mask}"
        self.at += 1
        return self.observe(), 1.0, self.at >= 10, False, {}


class Masking(DefaultPPOTorchRLModule):
    """Takes the mask out of the batch; values are computed first, and what is training finds the mask beside it."""

    def __init__(self, *, observation_space: Any, **kwargs: Any) -> None:
        super().__init__(observation_space=observation_space["observations"], **kwargs)

    @staticmethod
    def taken_out(batch: dict[str, Any]) -> torch.Tensor:
        mask: torch.Tensor = batch["obs"].pop("action_mask")
        batch["obs"] = batch["obs"].pop("observations")
        return mask

    def masked(self, out: dict[str, Any], mask: torch.Tensor) -> dict[str, Any]:
        return {**out, "action_dist_inputs": out["action_dist_inputs"] + torch.log(mask).clamp(min=-3.4e38)}

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        mask = self.taken_out(batch)
        return self.masked(super()._forward_exploration(batch, **kwargs), mask)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self.masked(super()._forward_train(batch, **kwargs), batch["mask"])

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        if isinstance(batch["obs"], dict):
            batch["mask"] = self.taken_out(batch)
        return super().compute_values(batch, embeddings)


def small(env: Any) -> PPOConfig:
    return (
        PPOConfig()
        .environment(env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .training(train_batch_size=120, minibatch_size=50, num_epochs=2)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .debugging(seed=1)
    )


def test_a_module_masks_actions_with_a_part_of_the_observation() -> None:
    spec = RLModuleSpec(module_class=Masking, model_config={"fcnet_hiddens": [8]})
    algorithm = small(Masked).rl_module(rl_module_spec=spec).build_algo()
    assert algorithm.needs_episodes
    for _ in range(2):
        learned = algorithm.train()["learners"]["default_policy"]
    algorithm.stop()
    assert np.isfinite(learned["total_loss"]) and learned["mean_kl_loss"] < 1.0


class Pairs(gym.Env[Any, Any]):
    """Takes a choice and a vector together."""

    def __init__(self, context: Any = None) -> None:
        self.observation_space = gym.spaces.Dict({"a": NUMBERS, "b": gym.spaces.Discrete(3)})
        self.action_space = gym.spaces.Tuple((gym.spaces.Discrete(2), NUMBERS))
        self.observation_space.seed(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.at += 1
        return self.observation_space.sample(), float(action[0]), self.at >= 10, False, {}


def flattened(config: Any) -> Any:
    return config.env_runners(env_to_module_connector=lambda env, spaces, device: FlattenObservations())


def test_actions_of_several_parts_are_learnt() -> None:
    algorithm = flattened(small(Pairs)).training(lr=0.01, num_epochs=10).build_algo()
    returns = [algorithm.train()["env_runners"]["episode_return_mean"] for _ in range(8)]
    algorithm.stop()
    assert returns[-1] > returns[0] + 1, returns


def test_a_replay_buffer_refuses_them() -> None:
    config = flattened(DQNConfig().environment(Pairs).env_runners(num_env_runners=0))
    with pytest.raises(ValueError, match="several arrays|Discrete"):
        config.build_algo()
