"""Checkpoints of Skate's algorithms in a real Ray: its modules give the same outputs, its algorithms continue."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from skate.rllib.algorithms.dqn import DQNConfig
from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.algorithms.sac import SACConfig
from skate.rllib.connectors.env_to_module.flatten_observations import FlattenObservations
from tests.ray_clients.ray_programs import PYTHON, WITHOUT, python

WITHOUT_RLLIB = pytest.mark.skipif(
    not list(PYTHON.parents[1].glob("lib/python*/site-packages/gymnasium")),
    reason=f"the Ray of {PYTHON} is installed without its extra rllib",
)
pytestmark = [WITHOUT, WITHOUT_RLLIB, pytest.mark.ray_clients]

OPENED = """
import json, sys
import numpy as np, torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.core.rl_module.rl_module import RLModule

path = sys.argv[1]
modules = path + "/learner_group/learner/rl_module"
batch = {"obs": torch.from_numpy(np.load(path + "-observations.npy"))}

def outputs(module):
    with torch.no_grad():
        return np.asarray(module.forward_inference(batch)["action_dist_inputs"]).tolist()

algorithm = Algorithm.from_checkpoint(path)
found = {
    "class": type(algorithm).__name__, "iteration": algorithm.iteration,
    "settings": [algorithm.config[name] for name in ("env", "lr", "gamma", "seed")],
    "outputs": [outputs(module) for module in (
        RLModule.from_checkpoint(modules + "/default_policy"),
        MultiRLModule.from_checkpoint(modules)["default_policy"],
        algorithm.get_module(),
    )],
}
result = algorithm.train()
found["result"] = [result["training_iteration"], result["num_env_steps_sampled_lifetime"]]
algorithm.stop()
print("\\n" + json.dumps(found))
"""
CONFIGS = {
    "PPO": lambda: PPOConfig().training(train_batch_size=64, minibatch_size=32, num_epochs=1),
    "DQN": lambda: DQNConfig().training(num_steps_sampled_before_learning_starts=16, train_batch_size=8),
    "SAC": lambda: SACConfig().training(
        num_steps_sampled_before_learning_starts=16, train_batch_size_per_learner=8
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_ray_opens_what_skate_saved(name: str, tmp_path: Path) -> None:
    env = "Pendulum-v1" if name == "SAC" else "CartPole-v1"
    config = (
        CONFIGS[name]()
        .environment(env)
        .env_runners(num_env_runners=0, env_to_module_connector=lambda env, spaces, device: FlattenObservations())
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=64)
        .training(gamma=0.9)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .debugging(seed=1)
    )  # fmt: skip
    algorithm = config.build_algo()
    algorithm.train()
    algorithm.save_to_path(tmp_path / "saved")
    module = algorithm.learner_group._learner.module["default_policy"]
    observations = np.random.default_rng(1).normal(size=(4, module.observation_space.shape[0]))
    np.save(tmp_path / "saved-observations.npy", observations.astype(np.float32))
    with torch.no_grad():
        batch = {"obs": torch.from_numpy(observations.astype(np.float32))}
        expected = module.forward_inference(batch)["action_dist_inputs"].numpy() if name != "DQN" else None
    algorithm.stop()
    text = OPENED if name != "DQN" else OPENED.replace("action_dist_inputs", "actions")
    done = python(text, str(tmp_path / "saved"), folder=tmp_path, variables={"RAY_AUTH_MODE": "disabled"})
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["class"], found["iteration"]) == (name, 1)
    assert found["settings"] == [env, config.lr, 0.9, 1]
    if expected is not None:
        for each in found["outputs"]:
            np.testing.assert_allclose(each, expected, atol=1e-5)
    steps = 64 if name == "PPO" else found["result"][1] - 64
    assert found["result"] == [2, 64 + steps] and steps >= 64
