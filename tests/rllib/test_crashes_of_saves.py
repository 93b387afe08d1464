"""A save that ends at any of its file operations leaves the last whole checkpoint; and the names in a checkpoint are Ray's."""

from __future__ import annotations

import os
import pickletools
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from gymnasium import spaces

from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.core.rl_module import RLModule, RLModuleSpec
from skate.rllib.core.rl_module.torch import TorchRLModule

#: Saves a module of ones over copies of a save of zeros.
SAVING = """
import pathlib, sys
from tests.rllib.killed_saves import walk
from tests.rllib.test_crashes_of_saves import built

walk(pathlib.Path(sys.argv[1]), built(1.0).save_to_path)
"""
#: What a checkpoint of PPO names, below ray.rllib.
KNOWN_TO_RAY = {
    "algorithms.algorithm_config:AlgorithmConfig.DEFAULT_POLICY_MAPPING_FN",
    "algorithms.ppo.ppo:PPO",
    "algorithms.ppo.ppo:PPOConfig",
    "algorithms.ppo.ppo_catalog:PPOCatalog",
    "algorithms.ppo.torch.default_ppo_torch_rl_module:DefaultPPOTorchRLModule",
    "algorithms.ppo.torch.ppo_torch_learner:PPOTorchLearner",
    "connectors.common.add_observations_from_episodes_to_batch:AddObservationsFromEpisodesToBatch",
    "connectors.common.add_states_from_episodes_to_batch:AddStatesFromEpisodesToBatch",
    "connectors.common.add_time_dim_to_batch_and_zero_pad:AddTimeDimToBatchAndZeroPad",
    "connectors.common.batch_individual_items:BatchIndividualItems",
    "connectors.common.numpy_to_tensor:NumpyToTensor",
    "connectors.common.tensor_to_numpy:TensorToNumpy",
    # Ray does not have this one, but opens no pipeline that it has not built by itself.
    "connectors.env_to_module.defaults:FlattenForModule",
    "connectors.env_to_module.env_to_module_pipeline:EnvToModulePipeline",
    "connectors.module_to_env.get_actions:GetActions",
    "connectors.module_to_env.listify_data_for_vector_env:ListifyDataForVectorEnv",
    "connectors.module_to_env.module_to_env_pipeline:ModuleToEnvPipeline",
    "connectors.module_to_env.normalize_and_clip_actions:NormalizeAndClipActions",
    "connectors.module_to_env.remove_single_ts_time_rank_from_batch:RemoveSingleTsTimeRankFromBatch",
    "connectors.module_to_env.unbatch_to_individual_items:UnBatchToIndividualItems",
    "core.learner.learner_group:LearnerGroup",
    "core.rl_module.multi_rl_module:MultiRLModule",
    "core.rl_module.multi_rl_module:MultiRLModuleSpec",
    "core.rl_module.rl_module:RLModuleSpec",
    "env.single_agent_env_runner:SingleAgentEnvRunner",
    "policy.policy:PolicySpec",
}


class Plain(TorchRLModule):
    """A module with one parameter."""

    def setup(self) -> None:
        self.weight = torch.nn.Parameter(torch.zeros(3))


def built(value: float) -> RLModule:
    """Return a module whose parameter has this value."""
    space = spaces.Box(-1, 1, (2,), np.float32)
    module = RLModuleSpec(module_class=Plain, observation_space=space, action_space=space).build()
    module.set_state({"weight": np.full(3, value, np.float32)})
    return module  # type: ignore[no-any-return]


def test_a_killed_save_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    built(0.0).save_to_path(tmp_path / "first")
    done = subprocess.run(
        [sys.executable, "-c", SAVING, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    operations = int(done.stdout)
    assert operations > 10
    seen = set()
    for after in range(operations):
        path = tmp_path / f"saved-{after}"
        weight = RLModule.from_checkpoint(path).get_state()["weight"]
        assert weight.tolist() in ([0.0] * 3, [1.0] * 3), f"before operation {after}"
        seen.add(float(weight[0]))
        # The next save is whole, and leaves nothing of the one that was killed in its way.
        built(2.0).save_to_path(path)
        assert RLModule.from_checkpoint(path).get_state()["weight"].tolist() == [2.0] * 3
        assert not os.path.exists(f"{path}.previous")
    assert seen == {0.0, 1.0}, "the walk has died before and after the old checkpoint was replaced"


def names_in(path: Path) -> set[str]:
    """Return all strings of up to 200 characters in the pickles of a folder that could name a module."""
    found = set()
    for file in path.rglob("*.pkl"):
        for _, argument, _ in pickletools.genops(file.read_bytes()):
            if isinstance(argument, str) and len(argument) < 200:
                found.add(argument)
    return found


def test_classes_are_named_by_rays_paths(tmp_path: Path) -> None:
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .training(train_batch_size=32, minibatch_size=32, num_epochs=1, model={"fcnet_hiddens": [5]})
        .evaluation(evaluation_interval=1, evaluation_duration=1)
    )
    algorithm = config.build_algo()
    algorithm.train()
    algorithm.save_to_path(tmp_path / "saved")
    algorithm.stop()
    again = Algorithm.from_checkpoint(tmp_path / "saved")
    assert again.config.model_config["fcnet_hiddens"] == [5]
    assert again.config.evaluation_interval == 1
    again.stop()
    names = names_in(tmp_path / "saved")
    assert [name for name in names if name.startswith("skate")] == []
    # Ray 2.60 has all of these; one that is not among its own would keep it from opening the folder.
    assert {name.removeprefix("ray.rllib.") for name in names if name.startswith("ray.")} == KNOWN_TO_RAY
