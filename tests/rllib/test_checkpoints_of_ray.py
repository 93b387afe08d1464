"""Checkpoints that Ray 2.60 has written: PPO on CartPole, two iterations of 256 steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.ppo import PPO
from skate.rllib.core.rl_module.multi_rl_module import MultiRLModule
from skate.rllib.core.rl_module.rl_module import RLModule
from skate.rllib.utils.checkpoints import get_checkpoint_info

FIXTURES = Path(__file__).parent / "ray_fixtures"
MODULES = FIXTURES / "ppo" / "learner_group" / "learner" / "rl_module"


def logits_of(module: RLModule) -> tuple[np.ndarray, np.ndarray]:
    """Return the module's outputs for the recorded observations, and those of Ray."""
    recorded = np.load(FIXTURES / "ppo_logits.npz")
    with torch.no_grad():
        out = module.forward_inference({"obs": torch.from_numpy(recorded["obs"])})
    return out["action_dist_inputs"].numpy(), recorded["logits"]


def test_a_module_gives_the_same_outputs() -> None:
    for module in (
        RLModule.from_checkpoint(MODULES / "default_policy"),
        MultiRLModule.from_checkpoint(MODULES)["default_policy"],
    ):
        found, expected = logits_of(module)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_an_algorithm_continues() -> None:
    algorithm = Algorithm.from_checkpoint(FIXTURES / "ppo")
    assert type(algorithm) is PPO
    assert algorithm.iteration == 2
    assert (algorithm.config.lr, algorithm.config.env, algorithm.config.seed) == (3e-4, "CartPole-v1", 3)
    assert algorithm.config.model_config["fcnet_hiddens"] == [16, 16]
    np.testing.assert_allclose(*logits_of(algorithm.get_module()), atol=1e-6)
    state = algorithm.learner_group.get_state()["learner"]["optimizer"]["default_policy_default_optimizer"]
    assert float(state["state"]["state"][0]["step"]) == 10.0
    result = algorithm.train()
    algorithm.stop()
    assert (result["training_iteration"], result["num_env_steps_sampled_lifetime"]) == (3, 768)
    assert result["env_runners"]["num_episodes_lifetime"] > 22


def test_what_a_folder_is(tmp_path: Path) -> None:
    info = get_checkpoint_info(FIXTURES / "ppo")
    assert (info["type"], info["checkpoint_version"], info["policy_ids"]) == ("Algorithm", "2.1", None)
    assert info["module_ids"] == {"default_policy"} and Path(info["state_file"]).is_file()
    assert info["ray_version"] == "2.60.0"
    with pytest.raises(ValueError, match="no algorithm_state file; it has nothing"):
        get_checkpoint_info(tmp_path)
    (tmp_path / "policies" / "p").mkdir(parents=True)
    (tmp_path / "algorithm_state.msgpck").touch()
    old = get_checkpoint_info(str(tmp_path))
    assert old["policy_ids"] == {"p"} and old["format"] == "msgpack"
    (tmp_path / "policy_state.pkl").touch()
    assert get_checkpoint_info(tmp_path)["type"] == "Policy"
    (tmp_path / "checkpoint-000100").touch()
    assert get_checkpoint_info(tmp_path)["checkpoint_version"] == "0.1"


def test_another_class_is_refused() -> None:
    with pytest.raises(ValueError, match="is of a PPO, not of a MultiRLModule"):
        MultiRLModule.from_checkpoint(FIXTURES / "ppo")
