"""Observations and actions of several arrays: they reach the learner as episodes, since they fit no column."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from skate.rllib.algorithms.dqn import DQNConfig
from skate.rllib.algorithms.dqn.default_dqn_rl_module import QF_NEXT_PREDS, QF_PREDS, QF_TARGET_NEXT_PREDS
from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from skate.rllib.connectors.env_to_module import FlattenObservations
from skate.rllib.core.rl_module.apis import QNetAPI, TargetNetworkAPI
from skate.rllib.core.rl_module.rl_module import RLModuleSpec
from skate.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from skate.rllib.env.multi_agent_env import make_multi_agent

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


class MaskedValues(QNetAPI, TargetNetworkAPI, TorchRLModule):
    """Values of actions from a part of the observation; the other part says which are allowed."""

    def setup(self) -> None:
        self.net = torch.nn.Linear(2, 3)

    def make_target_networks(self) -> None:
        self.slow = copy.deepcopy(self.net)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        return [(self.net, self.slow)]

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {QF_PREDS: self.slow(batch["obs"]["observations"])}

    def compute_q_values(self, batch: dict[str, Any]) -> dict[str, Any]:
        values = self.net(batch["obs"]["observations"])
        return {QF_PREDS: values + torch.log(batch["obs"]["action_mask"]).clamp(min=-1e9)}

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {"actions": self.compute_q_values(batch)[QF_PREDS].argmax(-1)}

    _forward_exploration = _forward_inference

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        following = {"obs": batch["new_obs"]}
        return {
            QF_PREDS: self.compute_q_values(batch)[QF_PREDS],
            QF_NEXT_PREDS: self.compute_q_values(following)[QF_PREDS],
            QF_TARGET_NEXT_PREDS: self.forward_target(following)[QF_PREDS],
        }


@pytest.mark.parametrize("agents", [0, 2])
def test_q_learning_replays_them(agents: int) -> None:
    env = make_multi_agent(Masked) if agents else Masked
    config = (
        DQNConfig()
        .environment(env, env_config={"num_agents": agents} if agents else {})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .training(num_steps_sampled_before_learning_starts=20, train_batch_size=8, n_step=2)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=MaskedValues))
        .reporting(min_sample_timesteps_per_iteration=60)
        .debugging(seed=1)
    )
    if agents:
        config.multi_agent(policies={"p"}, policy_mapping_fn=lambda agent_id, episode, **kwargs: "p")
    algorithm = config.build_algo()
    before = algorithm.get_weights()["p" if agents else "default_policy"]["net.weight"].copy()
    learned = algorithm.train()["learners"]["p" if agents else "default_policy"]
    after = algorithm.get_weights()["p" if agents else "default_policy"]["net.weight"]
    assert np.isfinite(learned["qf_loss"]) and not np.array_equal(before, after)
    buffer = algorithm.local_replay_buffer
    assert len(buffer) == 60 and buffer.get_num_episodes() == 6
    algorithm.stop()


def test_q_learning_wants_a_choice() -> None:
    config = flattened(DQNConfig().environment(Pairs).env_runners(num_env_runners=0))
    with pytest.raises(ValueError, match="Discrete"):
        config.build_algo()
